"""`segcertify certify`: images, clouds and arrays."""

import json
import re
import sys

import numpy as np
import pytest
from browser import Elements, unpacked
from holder import holder
from PIL import Image
from single_clouds import BACK, HEIGHTS, LEG, MODELS, NAMES, SHAPES, changed, write

import segcertify as sc
from segcertify import InputError
from segcertify.cli.certify import certify
from segcertify.cli.radius_maps import require_cap
from segcertify.data.images.resize import Resize
from segcertify.figures.palette import palette
from segcertify.models import card_of, load

pytestmark = pytest.mark.fresh_seed

MODEL = """
import torch

def bright():
    return lambda batch: torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

def halves():
    return lambda batch: (batch[..., 0] > 0).long()
"""
BRIGHT = ["--model", "python:my_model:bright"]


@pytest.fixture
def files(folder):
    """A photograph, arrays and models."""
    (folder / "my_model.py").write_text(MODEL)
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    np.save(folder / "empty.npy", np.zeros((3, 0, 8)))
    np.save(folder / "cloud.npy", np.random.default_rng(0).normal(size=(40, 6)))
    return folder


def test_certify_an_image(files, segcertify):
    shown = segcertify("certify", "photo.png", *BRIGHT, "--sigma", 0.1, "--seed", 3)
    assert "With probability at least 1 - 0.001" in shown.text
    out = files / "certified" / "photo"
    assert {file.name for file in out.iterdir()} == {
        "certificate.safetensors",
        "votes.safetensors",
        "certified.html",
        "certified.png",
        "certified-labels.png",
    }
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert 0 < certificate.certified < 24 * 32
    again = sc.certify_votes(sc.Votes.load(out / "votes.safetensors"), tau=0.75, alpha=0.001)
    assert again.labels.tolist() == certificate.labels.tolist()
    with Image.open(out / "certified.png") as picture:
        assert picture.size[0] > 1000


def test_an_image_has_a_page(files, segcertify):
    """It is of the certificate beside it, knows the ground truth, and names the audit of that certificate."""
    Image.fromarray(np.tile(np.array([0, 7], np.uint8), (24, 16))).save(files / "truth.png")
    command = ["certify", "photo.png", *BRIGHT, "--sigma", 0.1, "--seed", 3, "--trust-code", "--label", "truth.png"]
    shown = segcertify(*command, "--ignore", 7, "--sets", "--json").json
    assert "certified/photo/certified.html" in shown["files"]
    data = json.loads(Elements((files / "certified" / "photo" / "certified.html").read_text("utf-8")).scripts[0])
    assert data["claim"] == shown["claim"]
    assert {"candidate", "certified", "prediction", "target"} == data["labels"].keys()
    assert data["of_sets"] == shown["sets"]["claim"]
    assert data["audit"] == (
        "segcertify audit certified/photo/certificate.safetensors --model python:my_model:bright --input photo.png "
        "--label truth.png --ignore 7 --trust-code"
    )
    assert data["facts"]["command"].startswith("segcertify ")
    segcertify(*data["audit"].split()[1:], "--steps", 0, "--n", 200)


def test_a_folder_in_which_another_process_certifies_is_refused(files, segcertify):
    command = ["certify", "photo.png", *BRIGHT, "--sigma", 0.1]
    with holder(files / "certified" / "photo") as process:
        assert f"certified/photo is in use by process {process.pid} on" in segcertify(*command, code=2).text
        process.kill()
    segcertify(*command)
    assert not (files / "certified" / "photo" / ".lock").exists()


def test_the_same_command_gives_the_same_certificate(files, segcertify):
    """Without --seed too: it is not another roll of the dice."""
    command, path = ["certify", "photo.png", *BRIGHT, "--sigma", 0.1], files / "certified" / "photo"
    shown = segcertify(*command)
    votes = sc.Votes.load(path / "votes.safetensors")
    certificate = sc.Certificate.load(path / "certificate.safetensors")
    assert f"{hex(certificate.seed)} (from the operating" in shown.text
    assert "before the seed was chosen" not in shown.text
    segcertify(*command)
    assert sc.Certificate.load(path / "certificate.safetensors").labels.tolist() == certificate.labels.tolist()
    again = sc.Votes.load(path / "votes.safetensors")
    assert (again.seed, again.seed_given) == (certificate.seed, False)
    assert np.array_equal(again.agree, votes.agree)
    given = segcertify(*command, "--seed", hex(certificate.seed), "--out", "given", "--json").json
    assert (given["seed"], given["certified"]) == (certificate.seed, certificate.certified)
    assert given["seed_given"]
    assert given["claim"].endswith("This assumes that input and model were fixed before the seed was chosen.")
    again = segcertify(*command, "--n", 120, "--out", "more", "--json").json
    assert (again["seed"] != certificate.seed, again["seed_given"]) == (True, False)


PETS = ["certify", "photo.png", "--model", "pets", "--sigma", 0.25, "--n", 70, "--n0", 2, "--short-side", 24]


def test_other_claims_about_the_same_votes_lie_beside_the_first(files, segcertify, monkeypatch):
    """Each is written once, with its pictures and without new draws; the votes stay as they are."""
    segcertify(*PETS, "--seed", 0)
    out = files / "certified" / "photo"
    before = {path: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr("segcertify.sampling.smooth.sampled", lambda *_, **options: pytest.fail("drawn again"))
    for claim, name in (
        (["--tau", 0.8], "tau0.8-alpha0.001-holm-l2"), (["--alpha", 0.01], "tau0.75-alpha0.01-holm-l2"),
        (["--correction", "bonferroni"], "tau0.75-alpha0.001-bonferroni-l2"),
        (["--correction", "k-fwer", "--k", 3], "tau0.75-alpha0.001-k-fwer-k3-l2"),
        (["--norm", "linf"], "tau0.75-alpha0.001-holm-linf"),
    ):  # fmt: skip
        shown = segcertify(*PETS, *claim, "--json").json
        assert f"certified/photo/certificate-{name}.safetensors" in shown["files"]
        assert (out / f"certified-{name}-labels.png").is_file()
        certificate = sc.Certificate.load(out / f"certificate-{name}.safetensors")
        assert f"tau{certificate.tau:g}-alpha{certificate.alpha:g}-{certificate.correction}" in name
    segcertify(*PETS, *claim)  # again
    segcertify(*PETS)
    assert {path: path.read_bytes() for path in before} == before  # dates and commands too
    assert len(list(out.iterdir())) == 1 + 4 * 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--n", 80], "their n was 70, now it is 80"),
        (["--sigma", 0.3], "different noise"),
        (["--precision", "bf16"], "of different models"),
        (["--short-side", 32], "different input_shape"),
        (["--seed", 5], "their seed was 0, now it is 5"),
    ],
)
def test_other_draws_are_refused_in_the_same_folder(files, segcertify, monkeypatch, change, message):
    monkeypatch.setattr("segcertify.cli.inputs.draw", lambda *_, **options: [])
    segcertify(*PETS, "--seed", 0)
    before = {path: path.read_bytes() for path in (files / "certified" / "photo").iterdir()}
    shown = segcertify(*PETS, *change, code=2)
    assert message in shown.text
    assert "(--out)" in shown.text
    assert {path: path.read_bytes() for path in (files / "certified" / "photo").iterdir()} == before


def test_the_checkpoint_goes_last(files, segcertify, monkeypatch):
    """Killed at any moment after the last draw, even while it draws pictures, a run loses none."""

    class KilledError(BaseException):
        pass

    def killed(*_, **options):
        assert sorted(path.name for path in (files / "certified" / "photo").iterdir()) == [
            ".lock", "certificate.safetensors", "resume.safetensors", "votes.safetensors",
        ]  # fmt: skip
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("segcertify.cli.inputs.draw", killed)
        with pytest.raises(KilledError):
            certify(files / "photo.png", "pets", 0.25, n=70, n0=2, short_side=24)
    assert (files / "certified" / "photo" / "resume.safetensors").exists()
    segcertify(*PETS)
    assert not (files / "certified" / "photo" / "resume.safetensors").exists()


def test_a_certificate_without_its_votes_is_not_overwritten(files, segcertify):
    segcertify(*PETS)
    (files / "certified" / "photo" / "votes.safetensors").unlink()
    assert "but its votes (votes.safetensors) are not" in segcertify(*PETS, code=2).text


def test_a_picture_that_fails_is_a_note(files, segcertify, monkeypatch):
    def fail(*_, **options):
        raise ValueError("no such\nfont")

    monkeypatch.setattr("segcertify.figures.image.certified_figure", fail)
    shown = segcertify(*PETS)
    assert "note: no pictures (ValueError: no such font); all else is kept" in shown.text
    names = {path.name for path in (files / "certified" / "photo").iterdir()}
    assert names >= {"certificate.safetensors", "votes.safetensors"}
    assert "resume.safetensors" not in names


def test_more_than_255_classes(files, segcertify):
    """Their labels are a PNG of 16 bits."""
    (files / "many.py").write_text("def make():\n    return lambda batch: (batch.mean(1) > 0.5).long() * 300\n")
    segcertify("certify", "photo.png", "--model", "python:many:make", "--sigma", 0.1, "--seed", 3)
    certificate = sc.Certificate.load(files / "certified" / "photo" / "certificate.safetensors")
    with Image.open(files / "certified" / "photo" / "certified-labels.png") as image:
        found = np.asarray(image).astype(int)
    assert np.array_equal(np.where(found == 65535, sc.ABSTAIN, found), certificate.labels)
    assert {300, 65535} <= set(np.unique(found))
    assert (files / "certified" / "photo" / "certified.png").is_file()


@pytest.mark.parametrize(
    ("options", "norm"),
    [
        (["--noise", "rotation"], "angle"),
        (["--noise", "rotation:y"], "angle"),
        (["--noise", "rotation:1,1,0"], "angle"),
        (["--noise", "laplace"], "l1"),
        (["--noise", "gaussian?channels=0,1,2&axis=1"], "l2"),
        (["--norm", "linf"], "linf"),
        (["--correction", "k-fwer", "--b", "2"], "l2"),
        (["--correction", "k-fwer", "--k", "3"], "l2"),
    ],
)
def test_certify_an_array(files, segcertify, options, norm):
    segcertify("certify", "cloud.npy", "--model", "python:my_model:halves", "--sigma", 0.1, *options)
    certificate = sc.Certificate.load(files / "certified" / "cloud" / "certificate.safetensors")
    assert certificate.norm == norm
    assert certificate.certified > 0
    assert certificate.k == (3 if "k-fwer" in options else 1)


def test_json_and_quiet(files, segcertify):
    arguments = ["certify", "photo.png", *BRIGHT, "--sigma", 0.1]
    shown = segcertify(*arguments, "--json")
    certificate = sc.Certificate.load(files / "certified" / "photo" / "certificate.safetensors")
    assert shown.json["claim"] == certificate.claim
    assert (shown.json["radius"], shown.json["certified"]) == (certificate.radius, certificate.certified)
    assert "certified/photo/certificate.safetensors" in shown.json["files"]
    quiet = segcertify(*arguments, "--quiet")
    assert "With probability" in quiet.out
    assert "wrote" not in quiet.out
    assert quiet.err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.png", *BRIGHT], "no file at gone.png"),
        (["photo.png", "--model", "python:other:bright"], "cannot import 'other'"),
        (["photo.png", *BRIGHT, "--sigma", "-1"], "sigma must be positive"),
        (["photo.png", *BRIGHT, "--n", "9"], "Use n >= 48"),
        (["photo.png", *BRIGHT, "--device", "foo"], "device must be such as 'cpu' or 'cuda', but got 'foo'"),
        (["photo.png", *BRIGHT, "--noise", "gaussian?channels=a"], "channels cannot be 'a'"),
        (["photo.png", *BRIGHT, "--noise", "axis-rotation"], "unknown noise 'axis-rotation'"),
        *(
            (["photo.png", *BRIGHT, "--out", out], "cannot write to the folder")
            for out in ("photo.png/x", "photo.png", "x" * 300)
        ),
        (["empty.npy", "--model", "pets"], "x is empty"),
    ],
)
def test_bad_input_is_one_clear_line(files, segcertify, arguments, message):
    before = set(files.rglob("*"))
    shown = segcertify("certify", *(arguments if "--sigma" in arguments else [*arguments, "--sigma", "1"]), code=2)
    assert f"error: {message}" in shown.err or message in shown.err
    assert {path for path in set(files.rglob("*")) - before if "__pycache__" not in str(path)} == set()


@pytest.mark.parametrize("labelled", [False, True])
def test_a_photograph_with_a_label_is_taken_as_it_is_stored(files, segcertify, labelled):
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its side
    with Image.open(files / "photo.png") as photo:
        photo.save(files / "turned.png", exif=exif)
    Image.new("L", (32, 24)).save(files / "label.png")
    label = ["--label", "label.png"] if labelled else []
    segcertify("certify", "turned.png", *BRIGHT, "--sigma", 0.1, *label)
    certificate = sc.Certificate.load(files / "certified" / "turned" / "certificate.safetensors")
    assert certificate.labels.shape == ((24, 32) if labelled else (32, 24))


@pytest.mark.filterwarnings("default:the image has values")
def test_certify_says_when_an_array_is_not_in_the_models_units(files, segcertify):
    for name, scale, shift, said in (("unit", 1, 0, ""), ("bytes", 255, 0, "divide by 255"), ("normal", 6, 3, "undo")):
        np.save(files / f"{name}.npy", scale * np.random.default_rng(0).random((3, 16, 16)) - shift)
        shown = segcertify("certify", f"{name}.npy", "--model", "pets", "--sigma", 0.1, "--n", 60)
        assert [text for text in ("divide by 255", "undo the normalisation") if text in shown.text] == [
            text for text in ("divide by 255", "undo the normalisation") if said and text.startswith(said)
        ]


def test_certify_never_replaces_another_inputs_certificate(files, segcertify):
    (files / "other").mkdir()
    Image.new("RGB", (24, 32)).save(files / "other" / "photo.png")
    arguments = [*BRIGHT, "--sigma", 0.1]
    segcertify("certify", "photo.png", *arguments)
    shown = segcertify("certify", "other/photo.png", *arguments, code=2)
    assert "certified/photo/votes.safetensors holds votes of another run: votes with different input" in shown.text
    segcertify("certify", "photo.png", *arguments, "--tau", "0.8")


@pytest.fixture
def models(folder, monkeypatch):
    """Where the commands on clouds run."""
    (folder / "heights_of_clouds.py").write_text(MODELS)
    monkeypatch.syspath_prepend(folder)
    return folder


def facts(page):
    """The data in a page."""
    return json.loads(re.search(r'type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S).group(1))


def test_a_labelled_cloud(models, chair, capsys):
    """Noise on x, y, z; the claim says so; both pictures have the parts' names, and the ground truth."""
    certify(write(models / "seat.txt", chair, NAMES), SHAPES, 0.05, n=60, n0=2, seed=0)
    out, shown = models / "certified" / "seat", " ".join(capsys.readouterr().out.split())
    assert sorted(file.name for file in out.iterdir()) == [
        "certificate.safetensors", "certified.html", "certified.png", "votes.safetensors",
    ]  # fmt: skip
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert certificate.noise == sc.Gaussian(0.05, (0, 1, 2), 1)
    assert "l2 norm on channels [0, 1, 2] of axis 1 (all else unchanged)" in shown
    assert set(np.unique(certificate.labels)) == {sc.ABSTAIN, BACK, LEG}
    seen = np.concatenate(sys.modules["heights_of_clouds"].SEEN)
    noisy = seen[(seen[:, :, 3:] == chair[:, 3:6]).all(axis=(1, 2))]  # all but those of the probe, a fixed input
    assert len(noisy) >= 60 + 2
    assert (np.ptp(noisy[:, :, :3], axis=0) > 0).all()
    data = facts(out / "certified.html")
    parts = {part["name"]: part["colour"] for part in data["parts"]}
    assert parts["Chair back"] == "#4477aa"
    assert list(parts) == ["Chair back", "Chair seat", "Chair leg", "Chair arm"][: len(parts)]
    assert data["audit"].startswith("segcertify audit certified/seat/certificate.safetensors --model ")
    truth = unpacked(data["labels"]["target"])
    assert (truth + BACK).tolist() == chair[:, 6].tolist()
    with Image.open(out / "certified.png") as picture:
        assert picture.size[0] == 1500


def test_a_cloud_with_sets_has_its_page(models, chair):
    certify(write(models / "a.txt", chair, NAMES), SHAPES, 0.05, n=60, n0=2, seed=0, sets=True)
    out = models / "certified" / "a"
    assert (out / "sets.safetensors").exists()
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert facts(out / "certified.html")["sentence"] == certificate.sentence


@pytest.mark.parametrize(
    "case",
    [
        (3, {}, sc.Gaussian(0.1)),
        (6, {}, sc.Gaussian(0.1, (0, 1, 2), 1)),
        (6, {"noise": "gaussian?channels=0,2"}, sc.Gaussian(0.1, (0, 2), 1)),
        (6, {"noise": "gaussian?channels=0,1,2,3,4,5"}, sc.Gaussian(0.1, (0, 1, 2, 3, 4, 5), 1)),
        (6, {"noise": "gaussian?channels=7&axis=0"}, sc.Gaussian(0.1, (7,), 0)),
        (6, {"noise": "rotation"}, sc.Rotation(0.1)),
    ],
)
def test_where_noise_goes(models, chair, monkeypatch, case):
    columns, options, noise = case
    monkeypatch.setattr("segcertify.cli.inputs.draw", lambda *_, **options: [])
    certify(write(models / "a.txt", chair[:, :columns], NAMES), HEIGHTS, 0.1, n=60, n0=1, **options)
    assert sc.Certificate.load(models / "certified" / "a" / "certificate.safetensors").noise == noise


def test_the_bundled_model(models, chair):
    """The real network, once: what it certifies are parts of chairs, and mostly right."""
    path = write(models / "a.npy", chair[:512], NAMES)
    certify(path, "parts?category=chair&runs=1", 0.1, tau=0.6, n=18, n0=1, alpha=0.1, seed=0)
    certificate = sc.Certificate.load(models / "certified" / "a" / "certificate.safetensors")
    certified = ~certificate.abstained
    assert certified.mean() > 0.5
    assert (certificate.labels[certified] == chair[:512, 6][certified]).mean() > 0.8
    assert (models / "certified" / "a" / "certified.html").exists()


def test_an_image_has_the_cards_names_and_colours(models, monkeypatch):
    """Also a label that the model does not know is refused before any work."""
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    Image.fromarray(pixels).save(models / "photo.png")
    Image.fromarray(np.full((32, 48), 1, np.uint8)).save(models / "truth.png")
    figures = []
    monkeypatch.setattr("segcertify.figures.image.save_figure", lambda figure, path: figures.append(figure))
    certify(models / "photo.png", "pets", 0.25, tau=0.6, n=40, n0=2, alpha=0.1, label=models / "truth.png", seed=0)
    card, written = card_of(load("pets")), models / "certified" / "photo" / "certified-labels.png"
    named = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert set(named) & set(card.classes)
    assert card.classes[1] in named  # the ground truth has it
    with Image.open(written) as labels:  # by default our own, which all readers can tell apart
        assert labels.getpalette()[:3] == np.rint(255 * palette(1)).astype(int).ravel().tolist()
    certify(
        models / "photo.png", "pets", 0.25, tau=0.6, n=40, n0=2, alpha=0.1, label=models / "truth.png", seed=0,
        colours="data",
    )  # fmt: skip
    with Image.open(written) as labels:
        assert labels.getpalette()[: 3 * len(card.colours)] == [part for colour in card.colours for part in colour]
    Image.fromarray(np.full((32, 48), 7, np.uint8)).save(models / "truth.png")
    with pytest.raises(InputError, match=r"truth.png, pixel \(0, 0\), holds the value 7, which is neither a class"):
        certify(models / "photo.png", "pets", 0.25, label=models / "truth.png", seed=0)


@pytest.mark.parametrize(
    "case",
    [
        (lambda t: t[:, :5], SHAPES, {}, r"a.txt has 5 columns, but a cloud has 3 \(x y z\), 4 \(x y z label\), 6"),
        (lambda t: changed(t, 2, 1, np.nan), SHAPES, {}, "a.txt, line 3: y is nan, not a finite number"),
        (
            lambda t: changed(t, 4, 6, 20),
            SHAPES,
            {},
            r"line 5 holds the value 20, which is neither a class of Chair nor ignored \(allowed: 12 \.\. 15, 255\)",
        ),
        (lambda t: changed(t, 4, 6, 12.5), SHAPES, {}, "line 5: the label 12.5 is not a whole number"),
        (lambda t: changed(t, 4, 6, -1), HEIGHTS, {}, r"line 5 holds the value -1, which is neither a class nor"),
        (lambda t: t[:100], SHAPES, {}, "PointNet2 takes at least 512 points, but got 100"),
        (lambda t: t, "parts?category=Sofa", {}, "unknown category 'Sofa': use Airplane"),
        (lambda t: t, f"{SHAPES}?category=none", {}, "unknown category 'none'"),
        (lambda t: t, "parts", {}, "must know which category .* write .category=Chair in its spec"),
        (lambda t: t, HEIGHTS, {"label": "a.png"}, "label is for images and volumes, but .*a.txt is a cloud"),
        (lambda t: t[:, :6], HEIGHTS, {"noise": "gaussian?channels=6"}, r"channels=\(6,\) are outside axis 1"),
    ],
)
def test_bad_clouds(models, chair, case):
    make, model, options, message = case
    with pytest.raises(InputError, match=message):
        certify(write(models / "a.txt", make(chair), NAMES), model, 0.1, **options)


def test_the_size_of_images(files, segcertify):
    """By default a large image gets the size that a bundled model does best on, and a small one keeps its own."""
    arguments = ["certify", "photo.png", "--model", "pets", "--sigma", 0.25, "--n", 70, "--n0", 2]
    with Image.open(files / "photo.png") as image:
        width, height = image.size
    small = segcertify(*arguments, "--out", "small", "--full-size", "--json")
    assert "this model does best on" in small.err
    assert small.json["input_radius"] == small.json["radius"]
    assert "small images are not enlarged by default" in small.err
    default = segcertify(*arguments, "--out", "default", "--json")
    assert default.json["input_radius"] == default.json["radius"] == small.json["radius"]
    assert sc.Certificate.load(files / "default" / "certificate.safetensors").labels.shape == (height, width)
    enlarged = segcertify(*arguments, "--out", "enlarged", "--short-side", 160, "--json").json
    assert enlarged["input_radius"] < enlarged["radius"] / 5
    with Image.open(files / "photo.png") as image:
        image.resize((10 * width, 10 * height)).save(files / "photo.png")
    width, height = 10 * width, 10 * height
    shown = segcertify(*arguments, "--out", "large", "--json")
    assert "does best on" not in shown.err
    certificate = sc.Certificate.load(files / "large" / "certificate.safetensors")
    assert certificate.labels.shape == (160, 213)
    norm = Resize((height, width), (160, 213)).norm()
    assert 0 <= 1 - shown.json["input_radius"] * norm / shown.json["radius"] < 1e-12
    with Image.open(files / "large" / "certified-labels.png") as labels:
        assert labels.size == (width, height)  # enlarged to the photograph
    assert shown.json["input_radius"] > shown.json["radius"]
    with pytest.raises(InputError, match="--short-side 9 and --full-size exclude each other"):
        certify(files / "photo.png", "pets", 0.25, short_side=9, full_size=True)
    refused = segcertify("certify", "cloud.npy", *arguments[2:], "--short-side", 160, code=2).err
    assert "only images are resized" in refused


def test_looks_stop_early_and_say_what_was_saved(files, segcertify):
    arguments = ["photo.png", *BRIGHT, "--sigma", 0.1, "--seed", 3, "--n", 400, "--out", "looked"]
    shown = segcertify("certify", *arguments, "--looks", 4, "--until", 0.3, "--json")
    values = json.loads(shown.out)
    certificate = sc.Certificate.load(files / "looked" / "certificate.safetensors")
    assert (values["n"], values["saved"], tuple(values["looks"])) == (
        certificate.n,
        certificate.saved,
        certificate.looks,
    )
    assert len(certificate.looks) == 4
    assert certificate.n + certificate.saved == 400
    assert certificate.saved > 0
    assert certificate.certified >= 0.3 * 24 * 32
    assert f"and saved {certificate.saved}" in values["claim"]
    again = segcertify("certify", *arguments, "--looks", 4, "--until", 0.3, "--json")
    assert json.loads(again.out)["certified"] == certificate.certified
    laxer = segcertify("certify", *arguments, "--looks", 4, "--until", 0.2)
    assert "taken again, unchanged: looked/votes.safetensors" in laxer.text
    assert "wrote looked/votes.safetensors" not in laxer.text
    stricter = segcertify("certify", *arguments, "--looks", 4, "--until", 0.999, code=2).text
    assert f"a look ended after {certificate.n} of 400 draws, too early for what is asked now" in stricter
    assert "until" in segcertify("certify", *arguments, "--until", 0.3, code=2).text


@pytest.mark.parametrize("n0", [0, 10])
def test_certify_sets(files, segcertify, n0):
    settings = ["--sigma", 0.1, "--seed", 3, "--n", 110, "--n0", n0, "--sets", "--json"]
    values = segcertify("certify", "photo.png", *BRIGHT, *settings).json
    out = files / "certified" / "photo"
    found = sc.SetCertificate.load(out / "sets.safetensors")
    assert (found.n0, found.certified) == (n0, values["sets"]["certified"])
    again = sc.certify_sets(sc.Votes.load(out / "votes.safetensors"), tau=0.75, alpha=0.001)
    assert np.array_equal(again.sets, found.sets)
    with Image.open(out / "sets.png") as picture:
        assert picture.size[0] > 1000
    shown = segcertify("show", str(out / "sets.safetensors"))
    assert "is in its set" in shown.text
    assert "at most 1, 2, 3 labels" in shown.text


def test_a_capped_radius_map(files, segcertify):
    settings = ["certify", "photo.png", *BRIGHT, "--sigma", 0.1, "--seed", 3, "--n", 110, "--cap", 0.8]
    values = segcertify(*settings, "--json").json
    out, name = files / "certified" / "photo", "radii-cap0.8-alpha0.001-l2"
    found = sc.RadiusMap.load(out / f"{name}.safetensors")
    votes = sc.Votes.load(out / "votes.safetensors")
    np.testing.assert_allclose(found.radii, sc.radius_map(votes, alpha=0.001, cap=0.8), rtol=1e-6)
    assert (out / f"{name}.png").is_file()
    assert values["radius_map"]["cap"] == 0.8
    assert values["radius_map"]["certified"] == found.certified > 0
    assert "which was chosen before sampling" in values["radius_map"]["claim"]
    again = segcertify(*settings)
    assert "Radius map, a claim of its own" in again.text
    assert f"taken again, unchanged: certified/photo/{name}.safetensors" in again.text
    shown = segcertify("show", out / f"{name}.safetensors")
    assert "at most its own radius" in shown.text
    assert "agrees with its digest" in shown.text
    assert require_cap(None, n0=0, metric=True) is None
    for options, message in (
        (["--cap", 0.3], "--cap must lie in (0.5, 1)"), (["--n0", 0], "needs votes with a pilot"),
        (["--metric", "agreement"], "--cap is for a map of radii of labels"),
    ):  # fmt: skip
        assert message in segcertify(*settings, "--out", "other", *options, code=2).text
    assert not (files / "other").exists()


def test_ground_truth_gives_the_accuracy(files, segcertify):
    """Right, wrong and abstained of the pixels that have ground truth, as in the certificate itself."""
    labels = np.zeros((24, 32), np.uint8)
    labels[:, 16:], labels[:4] = 1, 255
    Image.fromarray(labels).save(files / "label.png")
    arguments = ["photo.png", *BRIGHT, "--sigma", 0.1, "--label", "label.png", "--seed", 1]
    shown = segcertify("certify", *arguments)
    found = sc.Certificate.load(files / "certified" / "photo" / "certificate.safetensors").labels[4:]
    right, wrong = (found == labels[4:]).mean(), ((found != labels[4:]) & (found >= 0)).mean()
    assert 0 < right < 1
    assert 0 < wrong < 1
    values = segcertify("certify", *arguments, "--json").json["truth"]
    assert values == pytest.approx({"accuracy": right, "wrong": wrong, "abstained_of_valid": 1 - right - wrong})
    for text in ("certified and right: the accuracy", "certified but wrong", "with ground truth"):
        assert text in shown.text
    assert "right" not in segcertify("certify", *arguments[:5], "--out", "plain").text


def test_errors_that_k_fwer_allows_are_subtracted_from_the_accuracy(files, segcertify):
    Image.new("L", (32, 24)).save(files / "label.png")
    arguments = ["photo.png", *BRIGHT, "--sigma", 0.1, "--label", "label.png", "--seed", 1, "--json"]
    shown = segcertify("certify", *arguments, "--correction", "k-fwer", "--b", 10)
    found = sc.Certificate.load(next((files / "certified" / "photo").glob("cert*.safetensors")))
    assert shown.json["truth"]["accuracy"] == pytest.approx(((found.labels == 0).sum() - 10) / (24 * 32))


VOLUME_MODEL = """
import torch

def make():
    pool = torch.nn.AvgPool3d(3, stride=2, padding=1, count_include_pad=False)
    return lambda batch: torch.cat([0.5 - pool(batch), pool(batch) - 0.5], 1)
"""


def test_certify_a_volume(folder, segcertify):
    """Votes, certificate, accuracy and a picture of slices; coarser scores are upsampled along three axes."""
    (folder / "my_volumes.py").write_text(VOLUME_MODEL)
    labels = np.zeros((8, 10, 12), np.uint8)
    labels[2:6, 3:8, 4:9] = 1
    np.save(folder / "scan.npy", labels[None].astype(np.float32))
    np.save(folder / "labels.npy", labels)
    options = ["--model", "python:my_volumes:make", "--sigma", 0.25, "--seed", 1, "--label", "labels.npy"]
    shown = segcertify("certify", "scan.npy", *options, "--sets")
    assert "certified and right: the accuracy" in shown.text
    out = folder / "certified" / "scan"
    assert {file.name for file in out.iterdir()} == {
        "certificate.safetensors", "votes.safetensors", "certified.png", "sets.safetensors",
    }  # fmt: skip
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert certificate.labels.shape == (8, 10, 12)
    kept = ~certificate.abstained
    assert kept.mean() > 0.5
    assert (certificate.labels[kept] == labels[kept]).mean() > 0.9
