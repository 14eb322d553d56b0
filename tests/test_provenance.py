"""What votes and certificates are about: one set of fields, one radius in the units of the file, for every kind."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.data.reading import read_input
from segcertify.errors import LARGEST_SEED
from segcertify.numerals import radius_text
from segcertify.preprocessing import file_radius, of_cloud, of_image
from segcertify.provenance import Issued, Provenance
from segcertify.resampling import resampled

RADIUS = 0.03
CLOUD = of_cloud((0, 0, 0), 2.0, spread=2.0)


def bright(batch):
    return (batch[:, 0] > 0.5).long()


def image(tmp_path, short_side=None):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 45, 3), np.uint8)).save(tmp_path / "a.png")
    return read_input(tmp_path / "a.png", short_side=short_side)


@pytest.fixture(params=["labels", "sets", "metric"])
def certify(request):
    """A function from a read input to a certificate of one of the three kinds."""

    def made(read):
        given = {"noise": sc.Gaussian(0.1), "preprocessing": read.preprocessing, "seed": 0, "n": 100}
        if request.param == "metric":
            return sc.certify_metric(bright, read.x, sc.metrics.area(1), radius=RADIUS, input_id="a", **given)
        votes = sc.sample(bright, read.x, counts=True, classes=2, input_id="a", **given)
        kind = sc.certify_sets if request.param == "sets" else sc.certify_votes
        return kind(votes, tau=0.75, alpha=0.01)

    return made


def test_every_kind_states_the_radius_in_the_pixels_of_a_resized_file(tmp_path, certify):
    """The radius of the claim is the file's: the one of the network would be 3 times too small here."""
    found = certify(image(tmp_path, short_side=10))
    assert found.input_radius == file_radius(found.radius, "l2", found.preprocessing) > 2.9 * found.radius
    assert found.claimed_radius == found.file_radius == found.input_radius
    assert f"of the file's 30 x 45 pixels, of l2 norm at most {radius_text(found.input_radius)}" in found.claim
    assert f"R at the network's input is {radius_text(found.radius)}" in found.claim


def test_no_file_perturbation_within_the_stated_radius_moves_the_input_by_more(tmp_path, certify):
    """Towards the resize's largest gain, found by power iteration on the operator that was really used."""
    read = image(tmp_path, short_side=10)
    found = certify(read)
    basis = np.eye(30 * 45, dtype=np.float64).reshape(-1, 30, 45)
    operator = np.stack(
        [resampled(each[..., None], (10, 15), read.preprocessing["method"]).ravel() for each in basis], 1
    )
    largest = np.linalg.svd(operator, compute_uv=False)[0]
    assert found.radius * (1 - 1e-3) < found.input_radius * largest <= found.radius


def test_the_radius_of_an_image_as_it_is_is_that_of_its_file(tmp_path, certify):
    found = certify(image(tmp_path))
    assert (found.input_radius, found.file_radius, found.claimed_radius) == (found.radius, None, found.radius)
    assert "pixels, of l2 norm" not in found.claim


def test_every_kind_keeps_the_provenance_of_its_run(tmp_path, certify):
    read = image(tmp_path, short_side=10)
    found = certify(read)
    found.save(tmp_path / "file")
    again = type(found).load(tmp_path / "file")
    for each in (found, again):
        assert each.provenance["input_shape"] == (3, 10, 15)
        assert (each.seed, each.input_id, each.seed_given) == (0, "a", True)
        assert each.preprocessing == read.preprocessing
        assert each.input_digest
        assert each.version == sc.__version__
    assert {name: getattr(again, name) for name in (each.name for each in fields(Issued))} == {
        name: getattr(found, name) for name in (each.name for each in fields(Issued))
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": -1}, "seed must be"),
        ({"seed": LARGEST_SEED + 1}, "seed must be"),
        ({"seed_given": 1}, "seed_given must be True or False, but got 1"),
        ({"input_id": ["a"]}, "input_id must be a text, but got ['a']"),
        ({"input_digest": None}, "input_digest must be a text, but got None"),
        ({"input_shape": (3, 0, 5)}, "a side must be an integer not less than 1"),
        ({"model": {"f": print}}, "model must be a mapping of plain values"),
        ({"preprocessing": {"kind": "image", "before": 3, "after": 4}}, "preprocessing cannot be"),
        ({"command": 7}, "command must be a text, but got 7"),
        ({"version": None}, "version must be a text"),
        ({"date": 5.0}, "date must be a text"),
    ],
)
def test_what_is_no_provenance_is_refused(tmp_path, certify, changed, words):
    with pytest.raises(sc.InputError, match=re.escape(words)):
        replace(certify(image(tmp_path)), **changed)


def test_votes_have_the_same_fields():
    votes = sc.Votes(np.zeros(3, int), np.full(3, 9), n=10, n0=1, noise=sc.Gaussian(1), seed=3, input_id="x")
    assert set(votes.provenance) == {each.name for each in fields(Provenance)}
    assert sc.certify_votes(votes, tau=0.6, alpha=0.5).provenance == votes.provenance
    with pytest.raises(sc.InputError, match="seed_given"):
        replace(votes, seed_given="yes")


@pytest.mark.parametrize(
    ("shape", "preprocessing", "noise", "known"),
    [
        ((4, 3), CLOUD, sc.Gaussian(0.1), True),
        ((4, 6), CLOUD, sc.Gaussian(0.1), False),  # the file's normals would be perturbed too
        ((4, 6), CLOUD, sc.Gaussian(0.1, channels=(0, 1, 2), axis=1), True),
        ((4, 6), CLOUD, sc.Gaussian(0.1, channels=(0, 1, 2), axis=-1), True),
        ((4, 6), CLOUD, sc.Gaussian(0.1, channels=(0, 1, 2), axis=0), False),  # of points
        ((4, 6), CLOUD, sc.Gaussian(0.1, channels=(0, 1), axis=1), False),
        ((3, 4, 6), of_image((4, 6)), sc.Gaussian(0.1), True),
        ((3, 4, 6), of_image((4, 6)), sc.Gaussian(0.1, channels=(0,)), True),
        ((3, 4, 6), of_image((4, 6)), sc.Gaussian(0.1, channels=(0,), axis=-3), True),
        ((3, 4, 6), of_image((4, 6)), sc.Gaussian(0.1, channels=(0,), axis=1), False),  # of rows
        ((3, 4, 6), of_image((4, 6)), sc.Gaussian(0.1, channels=(0,), axis=-1), False),
        ((3, 4, 7), of_image((4, 6)), sc.Gaussian(0.1), False),  # of another image
    ],
)
def test_a_radius_reaches_the_file_only_where_the_noise_went_on_what_the_file_holds(
    shape, preprocessing, noise, known
):  # fmt: skip
    votes = sc.Votes(
        np.zeros(4, int), np.full(4, 100), n=100, n0=5, noise=noise, input_shape=shape, preprocessing=preprocessing
    )
    found = sc.certify_votes(votes, tau=0.75, alpha=0.01)
    assert (found.input_radius is not None) == known
