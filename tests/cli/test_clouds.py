"""`segcertify certify` on clouds: what files hold, where noise goes, and pictures with the model's names."""

import base64
import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify import InputError
from segcertify.cli.inputs import read
from segcertify.cli.single import NoiseName, certify
from segcertify.data.domain import ARRAY, CLOUD
from segcertify.models import card_of, load, with_precision

MODELS = """
import torch
from segcertify.models import PartSegmenter, PointNet2

SEEN = []

class ByHeight(PointNet2):
    "Legs are low, backs are high; takes no time."

    def forward(self, points, category=None, seeds=None):
        points, _ = self._checked(points, category)
        SEEN.append(points)
        logits = torch.zeros(len(points), 50, points.shape[1])
        logits[:, 12], logits[:, 14] = 9 * points[..., 1], -9 * points[..., 1]
        return logits

def shapes(normals=True, category="Chair"):
    return PartSegmenter(ByHeight(normals).eval(), category, runs=1)

def heights():
    return lambda batch: SEEN.append(batch) or (batch[..., 1] > 0).long()
"""
SHAPES, HEIGHTS = "python:cloud_models:shapes", "python:cloud_models:heights"
BACK, LEG = 12, 14


@pytest.fixture(scope="module")
def chair():
    """The rows of a file: x y z nx ny nz label, far from the origin and large."""
    scene = sc.data.load("shapes:?category=Chair&count=1&normals=true&points=600")[0]
    x, target = scene.x, scene.target
    return np.column_stack([x * [3, 3, 3, 1, 1, 1] + [5, 1, -2, 0, 0, 0], target]).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands run: models can be imported from here, and paths are left as they were."""
    (tmp_path / "cloud_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "cloud_models", raising=False)
    yield tmp_path
    sys.modules.pop("cloud_models", None)


def write(path, table, names):
    """A cloud in whatever form its suffix says."""
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".txt":
        np.savetxt(path, table)
    else:
        properties = "".join(f"property float {name}\n" for name in names)
        header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(table)}\n{properties}end_header\n"
        path.write_bytes(header.encode() + table.astype("<f4").tobytes())
    return path


NAMES = ["x", "y", "z", "nx", "ny", "nz", "label"]
LAYOUTS = {3: [0, 1, 2], 4: [0, 1, 2, 6], 6: [0, 1, 2, 3, 4, 5], 7: [*range(7)]}


@pytest.mark.parametrize("count", LAYOUTS)
@pytest.mark.parametrize("suffix", [".txt", ".ply", ".npy"])
def test_every_layout_in_every_file(folder, chair, suffix, count):
    """Centred, of radius 1, with labels and normals where they are and the model takes them."""
    path = write(folder / f"a{suffix}", chair[:, LAYOUTS[count]], [NAMES[i] for i in LAYOUTS[count]])
    xyz = chair[:, :3].astype(float) - chair[:, :3].astype(float).mean(axis=0)
    xyz /= np.linalg.norm(xyz, axis=1).max()
    for model in ("?normals=true", "?normals=false"):
        if count < 6 and "true" in model:
            with pytest.raises(InputError, match=rf"a{suffix} has the columns x y z.* but normals are needed: add nx"):
                read(path, load(SHAPES + model), label=None, ignore=255)
            continue
        found = read(path, load(SHAPES + model), label=None, ignore=255)
        x, target = found.x, found.target
        assert found.domain is CLOUD
        np.testing.assert_allclose(x[:, :3], xyz, atol=1e-6)
        np.testing.assert_array_equal(x[:, 3:], chair[:, 3:6] if "true" in model else chair[:, :0])
        assert target is None if count in (3, 6) else target.tolist() == chair[:, 6].tolist()


def test_which_files_hold_clouds(folder, chair):
    """Text and PLY for every model; arrays for models of shapes' parts, in whatever they are wrapped."""
    for suffix in (".txt", ".ply", ".npy"):
        write(folder / f"a{suffix}", chair[:, :6], NAMES[:6])
    shapes, other = load(SHAPES), load(HEIGHTS)
    for name, model, domain in [
        ("a.txt", other, CLOUD),
        ("a.ply", other, CLOUD),
        ("a.npy", other, ARRAY),
        ("a.npy", with_precision(other, "bf16"), ARRAY),
        ("a.npy", shapes, CLOUD),
        ("a.npy", with_precision(shapes, "bf16"), CLOUD),
    ]:
        found = read(folder / name, model, label=None, ignore=255)
        assert (found.domain, found.x.shape) == (domain, (600, 6))
    np.testing.assert_array_equal(read(folder / "a.npy", other, label=None, ignore=255).x, chair[:, :6])


def facts(page):
    """The data in a page."""
    return json.loads(re.search(r'type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S).group(1))


def test_a_labelled_cloud(folder, chair, capsys):
    """Noise on x, y, z; the claim says so; both pictures have the parts' names, and the ground truth."""
    certify(write(folder / "seat.txt", chair, NAMES), SHAPES, 0.05, n=60, n0=2)
    out, shown = folder / "certified" / "seat", " ".join(capsys.readouterr().out.split())
    assert sorted(file.name for file in out.iterdir()) == [
        "certificate.safetensors", "certified.html", "certified.png", "votes.safetensors",
    ]  # fmt: skip
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert certificate.noise == sc.Gaussian(0.05, (0, 1, 2), 1)
    assert "l2 norm on channels [0, 1, 2] of axis 1 (all else unchanged)" in shown
    assert set(np.unique(certificate.labels)) == {sc.ABSTAIN, BACK, LEG}
    noisy = np.concatenate(sys.modules["cloud_models"].SEEN)
    assert (noisy[:, :, 3:] == chair[:, 3:6]).all()
    assert (np.ptp(noisy[:, :, :3], axis=0) > 0).all()
    data = facts(out / "certified.html")
    parts = {part["name"]: part["colour"] for part in data["parts"]}
    assert parts["Chair back"] == "#4477aa"
    assert list(parts) == ["Chair back", "Chair seat", "Chair leg", "Chair arm"][: len(parts)]
    truth = np.frombuffer(base64.b64decode(data["labels"]["target"]), "<i4")
    assert (truth + BACK).tolist() == chair[:, 6].tolist()
    with Image.open(out / "certified.png") as picture:
        assert picture.size[0] == 1500


@pytest.mark.parametrize(
    "case",
    [
        (3, {}, sc.Gaussian(0.1)),
        (6, {}, sc.Gaussian(0.1, (0, 1, 2), 1)),
        (6, {"channels": "0,2"}, sc.Gaussian(0.1, (0, 2), 1)),
        (6, {"channels": "0,1,2,3,4,5"}, sc.Gaussian(0.1, (0, 1, 2, 3, 4, 5), 1)),
        (6, {"channels": "7", "axis": "0"}, sc.Gaussian(0.1, (7,), 0)),
        (6, {"noise": NoiseName.ROTATION}, sc.Rotation(0.1)),
    ],
)
def test_where_noise_goes(folder, chair, monkeypatch, case):
    columns, options, noise = case
    monkeypatch.setattr("segcertify.cli.inputs.draw", lambda *_, **options: [])
    certify(write(folder / "a.txt", chair[:, :columns], NAMES), HEIGHTS, 0.1, n=60, n0=1, **options)
    assert sc.Certificate.load(folder / "certified" / "a" / "certificate.safetensors").noise == noise


def test_the_bundled_model(folder, chair):
    """The real network, once: what it certifies are parts of chairs, and mostly right."""
    path = write(folder / "a.npy", chair[:512], NAMES)
    certify(path, "parts?category=chair&runs=1", 0.1, tau=0.6, n=18, n0=1, alpha=0.1)
    certificate = sc.Certificate.load(folder / "certified" / "a" / "certificate.safetensors")
    certified = ~certificate.abstained
    assert certified.mean() > 0.5
    assert (certificate.labels[certified] == chair[:512, 6][certified]).mean() > 0.8
    assert (folder / "certified" / "a" / "certified.html").exists()


def test_an_image_has_the_cards_names_and_colours(folder, monkeypatch):
    """Also a label that the model does not know is refused before any work."""
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    Image.fromarray(np.full((32, 48), 1, np.uint8)).save(folder / "truth.png")
    figures = []
    monkeypatch.setattr("segcertify.figures.image.save_figure", lambda figure, path: figures.append(figure))
    certify(folder / "photo.png", "pets", 0.25, tau=0.6, n=40, n0=2, alpha=0.1, label=folder / "truth.png")
    card = card_of(load("pets"))
    named = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert set(named) <= set(card.classes)
    assert card.classes[1] in named  # the ground truth has it
    with Image.open(folder / "certified" / "photo" / "certified-labels.png") as labels:
        assert labels.getpalette()[: 3 * len(card.colours)] == [part for colour in card.colours for part in colour]
    Image.fromarray(np.full((32, 48), 7, np.uint8)).save(folder / "truth.png")
    with pytest.raises(InputError, match=r"truth.png, pixel \(0, 0\), holds the value 7, which is neither a class"):
        certify(folder / "photo.png", "pets", 0.25, label=folder / "truth.png")


def changed(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    "case",
    [
        (lambda t: t[:, :3], SHAPES, {}, "a.txt has the columns x y z, but normals are needed: add nx ny nz"),
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
        (lambda t: t, HEIGHTS, {"label": "a.png"}, "label is for images, but .*a.txt is a cloud"),
        (lambda t: t[:, :6], HEIGHTS, {"channels": "6"}, r"channels=\(6,\) are outside axis 1"),
    ],
)
def test_bad_clouds(folder, chair, case):
    make, model, options, message = case
    with pytest.raises(InputError, match=message):
        certify(write(folder / "a.txt", make(chair), NAMES), model, 0.1, **options)


def test_an_ignored_label(folder, chair):
    path = write(folder / "a.npy", changed(chair, 4, 6, -1), NAMES)
    target = read(path, load(SHAPES), label=None, ignore=-1).target
    assert target[4] == -1
    assert (np.delete(target, 4) >= BACK).all()


def test_labels_are_passed_over_where_nobody_asks(folder, chair):
    """An audit needs no ground truth, so that numbers which `certify --ignore` allowed stop no audit."""
    for value in (99, np.nan):
        found = read(write(folder / "a.txt", changed(chair, 4, 6, value), NAMES), load(SHAPES))
        assert found.domain is CLOUD
        assert found.x.shape == (600, 6)
        assert found.target is None


@pytest.mark.parametrize("suffix", [".TXT", ".Ply"])
def test_suffixes_in_capitals(folder, chair, suffix):
    """Beside the same cloud under a name in small letters."""
    path = write(folder / f"a{suffix.lower()}", chair, NAMES)
    shapes, small = load(SHAPES), read(path, load(SHAPES), ignore=255)
    large = read(path.rename(folder / f"b{suffix}"), shapes, ignore=255)
    assert large.domain is CLOUD
    assert np.array_equal(large.x, small.x)
    assert large.target.tolist() == small.target.tolist()
