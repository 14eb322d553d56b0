"""What a single file holds: every layout of clouds in every form, and which files hold clouds."""

import numpy as np
import pytest
from single_clouds import BACK, HEIGHTS, MODELS, NAMES, SHAPES, changed, write

from segcertify.cli.inputs import read
from segcertify.data.clouds.normals import estimated_normals
from segcertify.data.domain import ARRAY, CLOUD
from segcertify.models import load, with_precision


@pytest.fixture(autouse=True)
def models(folder, monkeypatch):
    (folder / "heights_of_clouds.py").write_text(MODELS)
    monkeypatch.syspath_prepend(folder)


LAYOUTS = {3: [0, 1, 2], 4: [0, 1, 2, 6], 6: [0, 1, 2, 3, 4, 5], 7: [*range(7)]}


@pytest.mark.parametrize("count", LAYOUTS)
@pytest.mark.parametrize("suffix", [".txt", ".ply", ".npy"])
def test_every_layout_in_every_file(folder, chair, suffix, count):
    """Centred, of radius 1, with labels and normals where they are and the model takes them."""
    path = write(folder / f"a{suffix}", chair[:, LAYOUTS[count]], [NAMES[i] for i in LAYOUTS[count]])
    xyz = chair[:, :3].astype(float) - chair[:, :3].astype(float).mean(axis=0)
    xyz /= np.linalg.norm(xyz, axis=1).max()
    for model in ("?normals=true", "?normals=false"):
        found = read(path, load(SHAPES + model), label=None, ignore=255)
        x, target = found.x, found.target
        assert found.domain is CLOUD
        np.testing.assert_allclose(x[:, :3], xyz, atol=1e-6)
        normals, estimated = chair[:, 3:6] if "true" in model else chair[:, :0], count < 6 and "true" in model
        if estimated:
            normals = estimated_normals(xyz)
        assert ("normals_from" in found.preprocessing) is estimated
        np.testing.assert_allclose(x[:, 3:], normals, atol=1e-4 if estimated else 0)
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
