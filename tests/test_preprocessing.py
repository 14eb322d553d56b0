"""Pre-processing: a radius is in the units after it, and every claim says so."""

import numpy as np
import pytest
import torch
from PIL import Image

import segcertify as sc
from segcertify.data import load, read_input
from segcertify.errors import InputError
from segcertify.models.card_markdown import markdown
from segcertify.numerals import radius_text
from segcertify.preprocessing import (
    file_radius,
    in_words,
    of_cloud,
    of_image,
    of_volume,
    require_plain,
    require_preprocessing,
)  # fmt: skip
from segcertify.resampling import BOX, METHODS, axis_matrix


def heights(batch):
    """The label of a point: whether it lies above the middle."""
    return (batch[..., 1] > 0).long()


@pytest.fixture
def cloud(tmp_path):
    """A cloud in millimetres: 60 points within 0.07 of a point far from the origin."""
    points = np.random.default_rng(0).normal(size=(60, 3))
    points *= 0.07 / np.linalg.norm(points - points.mean(0), axis=1).max()
    np.savetxt(tmp_path / "cloud.txt", points + np.array([5, 2, 3]), fmt="%.9f")
    return tmp_path / "cloud.txt"


def test_a_point_moved_in_the_file_by_less_than_the_radius_moves_the_input_by_more(cloud):
    """The experiment of the issue: 0.99 R in this file moves the input by 26 R. The claim must say so."""
    read = read_input(cloud)
    certificate = sc.certify(heights, read.x, sigma=0.1, n=200, preprocessing=read.preprocessing, seed=0)
    assert certificate.certified > 20
    points = np.loadtxt(cloud)
    points[7, 0] += 0.99 * certificate.radius
    np.savetxt(cloud, points, fmt="%.9f")
    moved = float(np.linalg.norm(read_input(cloud).x - read.x))
    assert moved > 5 * certificate.radius, moved / certificate.radius
    for text in (certificate.claim, certificate.units):
        assert "The radius is in the units of the input after pre-processing" in text
        assert "multiplied by 14.2857" in text
        assert "moving one of them there by less than the radius may move the input by more" in text


def test_the_file_is_what_the_plain_values_say(cloud):
    read = read_input(cloud)
    said = read.preprocessing
    again = (np.loadtxt(cloud) - said["centre"]) * said["factor"]
    np.testing.assert_allclose(read.x, again, atol=1e-6)
    assert said["kind"] == "cloud"


@pytest.mark.parametrize(
    ("short_side", "words"),
    [
        (None, "the image of 30 x 45 pixels was divided by 255, so that colours lie in [0, 1]."),
        (10, "The resize to 10 x 15 pixels (antialiased), which are the components, is part of the certified"),
        (30, "the image of 30 x 45 pixels was divided by 255"),
    ],
)
def test_an_image(tmp_path, short_side, words):
    Image.new("RGB", (45, 30), (10, 200, 30)).save(tmp_path / "a.png")
    read = read_input(tmp_path / "a.png", short_side=short_side)
    votes = sc.sample(
        lambda b: (b[:, 0] > 0.5).long(), read.x, noise=sc.Gaussian(0.1), preprocessing=read.preprocessing, seed=0
    )
    votes.save(tmp_path / "votes")
    certificate = sc.certify_votes(sc.Votes.load(tmp_path / "votes"), tau=0.75, alpha=0.001)
    certificate.save(tmp_path / "certificate")
    assert words in sc.Certificate.load(tmp_path / "certificate").claim
    assert certificate.units in certificate.claim_about("the pixels")
    if short_side == 10:
        known = f"the file's 30 x 45 pixels, of l2 norm at most {radius_text(certificate.input_radius)}"
        assert f"under every perturbation of {known}" in certificate.claim
        assert certificate.input_radius > 2.9 * certificate.radius
    else:
        assert certificate.input_radius == certificate.radius


def test_without_pre_processing_nothing_more_is_said():
    certificate = sc.certify(lambda b: (b > 0.5).long(), np.zeros(4), sigma=0.1, seed=0)
    assert certificate.preprocessing is None
    assert (certificate.units, in_words(None)) == ("", "")
    assert f"l2 norm at most {0.0674489:g}. This assumes that input and model were fixed before" in certificate.claim


def test_arrays_are_not_pre_processed(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 5), np.float32))
    assert read_input(tmp_path / "a.npy").preprocessing is None


def test_pre_processing_of_the_users_own(tmp_path):
    own = {"kind": "log", "base": np.float64(2).item()}
    votes = sc.sample(lambda b: (b > 0.5).long(), np.zeros(4), noise=sc.Gaussian(0.1), preprocessing=own, seed=0)
    assert "after pre-processing: kind = log, base = 2.0." in sc.certify_votes(votes, tau=0.75, alpha=0.001).claim
    asked = []
    with pytest.raises(InputError, match="preprocessing must be a mapping of plain values"):
        sc.sample(
            lambda b: asked.append(len(b)) or b.long(),
            np.zeros(4),
            noise=sc.Gaussian(0.1),
            preprocessing={1: {2}},
            seed=0,
        )
    assert sum(asked) <= 6  # the probe alone: refused before the long work


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_radius_of_a_file_divides_by_the_norm_of_its_resize(norm):
    for method in METHODS:
        said = of_image((30, 45), (10, 15), method)
        matrix = np.kron(axis_matrix(30, 10, method).toarray(), axis_matrix(45, 15, method).toarray())
        bound = 0.5 / np.linalg.norm(matrix, {"l1": 1, "l2": 2, "linf": np.inf}[norm])
        assert bound * (1 - 1e-3) < file_radius(0.5, norm, said) < bound


def test_where_no_radius_of_the_file_is_known():
    old = {"kind": "image", "before": [30, 45], "after": [10, 15], "method": "bilinear", "divisor": 255}  # in 8 bits
    for said in (None, old, {"kind": "log"}, of_image(None, 10, BOX), of_cloud(), of_cloud([0, 0, 0], 2.0)):
        assert file_radius(0.5, "l2", said) is None
    assert "after pre-processing: the image was resized from 30 x 45 to 10 x 15 pixels (bilinear)" in in_words(old)
    assert file_radius(0.5, "angle", of_image((30, 45), (10, 15), BOX)) is None


def test_of_a_volume():
    """Its voxels have the values of the file: the radius is in the file's units too."""
    said = of_volume(np.array([1.0, 1, 2.5]).tolist())
    assert require_preprocessing(said) == {"kind": "volume", "spacing": [1.0, 1.0, 2.5]}
    assert file_radius(0.5, "l2", said) == 0.5
    assert "voxels have the values of the file, with its slope and intercept applied" in in_words(said)
    for spacing, message in [([1.0, "wide", 1.0], "spacing must be a number"), ([1.0], "must be three distances")]:
        with pytest.raises(InputError, match=message):
            require_preprocessing({"kind": "volume", "spacing": spacing})
    with pytest.raises(InputError, match="spacing must be positive, but got 0"):
        require_preprocessing({"kind": "volume", "spacing": [1.0, 0.0, 1.0]})


def test_noise_that_does_not_reach_the_file():
    """A resize mixes rows: noise on some of them proves nothing of the file's. Other sizes are of another image."""
    said, votes = of_image((8, 8), (4, 4), BOX), {"candidate": np.zeros((4, 4), int), "agree": np.full((4, 4), 99)}
    for noise, shape, known in (
        (sc.Gaussian(0.1), (3, 4, 4), True),
        (sc.Gaussian(0.1, channels=(0, 2)), (3, 4, 4), True),
        (sc.Gaussian(0.1, channels=(0, 2), axis=1), (3, 4, 4), False),
        (sc.Gaussian(0.1), (3, 8, 8), False),
        (sc.Laplace(0.1), (3, 4, 4), True),
    ):
        counted = sc.Votes(**votes, n=99, n0=10, noise=noise, input_shape=shape, preprocessing=said)
        certificate = sc.certify_votes(counted, tau=0.75, alpha=0.001)
        assert (certificate.input_radius is not None) == known, (noise, shape)
        assert ("the file's 8 x 8 pixels" in certificate.claim) == known
        assert known or "after pre-processing" in certificate.claim


def test_no_change_of_a_cloud_in_its_file_moves_the_input_by_more_than_the_radius(cloud):
    """The hardest directions known: the farthest point outward or inward, all points away from or to the centre."""
    read, points = read_input(cloud), np.loadtxt(cloud)
    certificate = sc.certify(heights, read.x, sigma=0.5, n=200, preprocessing=read.preprocessing, seed=0)
    allowed, centred = certificate.input_radius, points - points.mean(0)
    assert f"In the units of the file R is {radius_text(allowed)}." in certificate.claim
    far = np.zeros_like(points)
    far[np.linalg.norm(centred, axis=1).argmax()] = centred[np.linalg.norm(centred, axis=1).argmax()]
    moved = []
    for direction in (far, -far, centred, -centred, *np.random.default_rng(1).normal(size=(20, *points.shape))):
        np.savetxt(cloud, points + allowed * direction / np.linalg.norm(direction), fmt="%.12f")
        moved.append(float(np.linalg.norm(read_input(cloud).x - read.x)))
    assert 0.6 * certificate.radius < max(moved) <= certificate.radius
    rotated = sc.certify(heights, read.x, noise=sc.Rotation(0.1), n=200, preprocessing=read.preprocessing, seed=0)
    assert rotated.input_radius == rotated.radius  # a rotated file gives a rotated input
    whole = sc.certify(heights, read.x, noise=sc.Laplace(0.1), n=200, preprocessing=read.preprocessing, seed=0)
    assert whole.input_radius is None


def test_scenes_have_their_own_and_data_sets_a_general_statement(tmp_path):
    for name in ("images", "labels"):
        (tmp_path / "pets" / name).mkdir(parents=True)
    for name, size in (("a", (16, 8)), ("b", (20, 30))):
        Image.new("RGB", size).save(tmp_path / "pets" / "images" / f"{name}.jpg")
        Image.new("L", size).save(tmp_path / "pets" / "labels" / f"{name}.png")
    data = load(f"pets:{tmp_path / 'pets'}").resized(4)
    assert [scene.preprocessing["before"] for scene in data] == [[8, 16], [30, 20]]
    assert [scene.preprocessing["after"] for scene in data] == [[4, 8], [6, 4]]
    settings = {"settings": [(0.1, 60, 0.6)], "out": tmp_path / "run", "save_votes": True, "progress": False, "seed": 0}
    run = sc.evaluate(lambda b: torch.stack([b.mean(1), 1 - b.mean(1), b.mean(1) - 9], 1), data, **settings)
    words = "images are resized to a short side of 4 pixels (antialiased) and divided by 255"
    assert words in in_words(run.configuration["preprocessing"])
    assert words in run.table().markdown()
    radii = [record.input_radius for record in run.records if record.kind == "certified"]
    assert run.rows[1].input_radius == min(radii) > run.rows[1].radius
    assert f"| {radius_text(run.rows[1].radius, 4)} | {radius_text(min(radii), 4)} |" in run.table().markdown()
    votes = [sc.Votes.load(path) for path in sorted((tmp_path / "run" / "votes").iterdir())]
    assert [each.preprocessing["before"] for each in votes] == [[8, 16], [30, 20]]


def test_clouds_of_a_data_set_say_how_many_points_were_drawn(tmp_path):
    scene = load("shapes:?count=1")[0]
    assert scene.preprocessing is None  # generated at radius 1
    (tmp_path / "dataset.toml").write_text(
        'clouds = "{split}"\nclasses = ["a", "b"]\ncolumns = ["x", "y", "z", "label"]'
    )
    (tmp_path / "val").mkdir()
    np.savetxt(tmp_path / "val" / "c.txt", np.c_[np.random.default_rng(0).normal(size=(9, 3)), np.arange(9) % 2])
    data = load(f"clouds:{tmp_path}?split=val&points=5")
    assert "5 of its 9 points drawn" in in_words(data[0].preprocessing)
    assert "each cloud is centred and multiplied by a factor of its own" in in_words(data.preprocessing)


@pytest.mark.parametrize(("name", "words"), [("pets", "divided by 255"), ("parts", "each cloud is centred")])
def test_the_card_says_it_too(name, words):
    assert words in markdown(sc.models.card_of(sc.models.load(name)), "a.safetensors")


def test_plain_values():
    assert of_image((3, 4)) == of_image((3, 4), (3, 4))
    assert of_cloud(np.array([1.0, 2, 3]).tolist(), 2.0)["centre"] == [1, 2, 3]
    assert require_plain("a", {"b": (1, 2)}) == {"b": [1, 2]}


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "cloud", "factor": "x"}, {"kind": ["image"]}, {"kind": "cloud", "factor": 1.0, "points": [1]},
        {"kind": "cloud", "factor": 0.0}, {"kind": "cloud", "factor": 1.0, "spread": -1.0},
        {"kind": "cloud", "factor": 1.0, "repeats": 0}, {"kind": "cloud", "centre": ["x"]},
        {"kind": "image", "before": [3], "after": [3, 4]}, {"kind": "image", "before": 5, "after": 6},
        {"kind": "image", "before": [3, 10**9], "after": [3, 4], "method": "box", "precision": "float64"},
        {"kind": "image", "before": [3, 4], "after": [-3, 4]}, {"kind": "image", "short_side": "x"},
        {"kind": "image", "before": [3, 4], "after": [3, 4], "method": ["box"]}, {"kind": "image", "precision": {}},
    ],
)  # fmt: skip
def test_values_that_no_words_can_say_are_refused(values):
    """Files of votes, certificates and runs may hold anything here."""
    with pytest.raises(InputError, match="preprocessing cannot be"):
        require_preprocessing(values)


def test_images_of_one_size_whose_own_sizes_are_not_known():
    assert f"images are resized to 75 x 100 pixels ({BOX}) and divided" in in_words(of_image(None, (75, 100), BOX))
    assert file_radius(0.1, "l2", of_image(None, (75, 100), BOX)) is None
