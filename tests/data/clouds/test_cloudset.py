"""Point clouds: pre-processing, drawing, and what is refused, for every data set of clouds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trees

import segcertify as sc
from segcertify import InputError, data
from segcertify.data.clouds.cloudset import CloudFile, CloudSet, draw, read_cloud
from segcertify.data.domain import CLOUD
from segcertify.data.label_codes import IGNORE
from segcertify.figures.palette import voc_colours

COLUMNS = ("x", "y", "z", "nx", "ny", "nz", "label")


def some(*paths, classes=("a", "b"), codes=None, **options):
    """A data set of these files."""
    items = tuple(CloudFile(path.stem, path) for path in paths)
    codes = codes or {0: 0, 1: 1, 255: IGNORE}
    return CloudSet("some", classes, voc_colours(len(classes)), items, codes, **{"columns": COLUMNS, **options})


def one(tmp_path, table, **options):
    """A data set of one cloud with these rows."""
    path = tmp_path / "p.npy"
    np.save(path, np.asarray(table, float))
    return some(path, **options)


@pytest.mark.parametrize("normals", ["false", "true"])
@pytest.mark.parametrize("name", trees.CLOUDS)
def test_every_data_set(tmp_path, name, normals):
    scenes = data.load(f"{name}:{trees.CLOUDS[name](tmp_path)}?normals={normals}")
    C, width = len(scenes.classes), 6 if normals == "true" else 3
    assert isinstance(scenes, data.CloudSet)
    assert scenes.domain is CLOUD
    assert (scenes.colours.shape, scenes.colours.dtype) == ((C, 3), np.uint8)
    for parts in scenes.categories.values():
        assert len({tuple(scenes.colours[part]) for part in parts}) == len(parts)
    assert len(scenes) == len(scenes.ids) == len(set(scenes.ids)) > 2
    assert list(scenes.ids) == sorted(scenes.ids)
    scenes.check()
    for scene, name_of_it in zip(scenes, scenes.ids, strict=True):
        assert scene.id == name_of_it
        assert (scene.x.shape, scene.x.dtype) == ((2048, width), np.float32)
        assert (scene.target.shape, scene.target.dtype) == ((2048,), np.int32)
        assert set(scene.target[scene.valid]) == set(scenes.categories[scene.category])  # the trees hold every part
        assert (scene.target[~scene.valid] == 0).all()
        assert len(np.unique(scene.x, axis=0)) == 60  # all of the file's points, many times each
    assert f"CloudSet({scenes.name}: {len(scenes)} scenes, {C} classes, 2048 points" in repr(scenes)
    assert (" with normals" in repr(scenes)) == (" with normals" in scenes.name) == (width == 6)


@pytest.mark.parametrize("name", trees.CLOUDS)
def test_a_bad_label_is_found_by_check_and_when_read(tmp_path, name):
    scenes = data.load(f"{name}:{trees.CLOUDS[name](tmp_path)}")
    path = scenes.items[1].path
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:6], "1 2 3 0 0 1 100.0", *lines[6:]]))
    scenes[0]
    for read in (scenes.check, lambda: scenes[1], scenes.every(1).limit(2).check):
        with pytest.raises(
            InputError, match=rf"{path.name}, line 7 holds the value 100, which is neither a class of \w+ nor ignored"
        ):
            read()


def test_noise_goes_on_the_positions(tmp_path):
    scenes = one(tmp_path, trees.rows(0, [0, 1]), normals=True, points=50)
    seen = []

    def model(batch):
        seen.append(batch)
        return (batch[..., 0] > 0).long()

    noise = scenes.domain.noise(sc.Gaussian(0.1))
    votes = sc.sample(model, scenes[0].x, noise=noise, n=5, n0=2, seed=0, batch_size=1)
    assert votes.N == 50
    noisy = np.concatenate([batch.numpy() for batch in seen[-7:]])  # before them, the model was probed
    assert (noisy[:, :, 3:] == scenes[0].x[:, 3:]).all()
    assert (noisy[:, :, :3] != scenes[0].x[:, :3]).any(axis=(1, 2)).all()


def test_the_whole_shape_is_centred_and_scaled(tmp_path):
    """Also where far points are not drawn: mean 0 and radius 1 hold before the draw, not after it."""
    table = trees.rows(1, [0, 1], count=500)
    table[7, :3] = (40, 50, 60)
    whole = one(tmp_path, table, normals=True, points=None)[0]
    np.testing.assert_allclose(whole.x[:, :3].mean(axis=0, dtype=float), 0, atol=1e-7)
    radii = np.linalg.norm(whole.x[:, :3].astype(float), axis=1)
    assert radii.max() == pytest.approx(1, abs=1e-6)
    assert radii.argmax() == 7
    centred = table[:, :3] - table[:, :3].mean(axis=0)
    np.testing.assert_allclose(whole.x[:, :3], centred / np.sqrt((centred**2).sum(axis=1)).max(), atol=1e-7)
    np.testing.assert_array_equal(whole.x[:, 3:], table[:, 3:6].astype(np.float32))
    np.testing.assert_array_equal(whole.target, table[:, 6])
    drawn = one(tmp_path, table, normals=True, points=20)[0]
    rows = {row.tobytes(): label for row, label in zip(whole.x, whole.target, strict=True)}
    assert [rows[row.tobytes()] for row in drawn.x] == drawn.target.tolist()
    assert np.linalg.norm(drawn.x[:, :3], axis=1).max() < 0.5  # the far one is not among the 20
    shifted = table + np.array([5, -9, 2, 0, 0, 0, 0])
    np.testing.assert_allclose(one(tmp_path, shifted, normals=True, points=None)[0].x, whole.x, atol=1e-6)
    scaled = table * [30, 30, 30, 1, 1, 1, 1]
    np.testing.assert_allclose(one(tmp_path, scaled, normals=True, points=None)[0].x, whole.x, atol=1e-6)


def test_the_draw_depends_on_seed_and_id_alone(tmp_path):
    paths = [tmp_path / f"{name}.npy" for name in "abc"]
    table = trees.rows(0, [0, 1])
    for path in paths:
        np.save(path, table)
    scenes = some(*paths)
    first = [scene.x for scene in scenes]
    np.random.default_rng(0).random(100)
    for again in (scenes, some(*paths[::-1]), scenes.only("a"), scenes.every(2)):
        for scene in again:
            np.testing.assert_array_equal(scene.x, first["abc".index(scene.id)])
    assert (first[0] != first[1]).any()  # the same points, another id
    assert (replace(scenes, seed=1)[0].x != first[0]).any()
    np.testing.assert_array_equal(replace(scenes, points=99)[0].x, first[0][:99])


def test_the_draw_is_the_one_it_was():
    """Results name shapes, not points: these must not change from version to version."""
    assert draw(1000, 6, seed=0, cloud_id="Airplane/1a04").tolist() == [466, 579, 816, 742, 801, 587]
    counts = np.bincount(draw(7, 70_000, seed=3, cloud_id="p"), minlength=7)
    assert counts.shape == (7,)
    assert abs(counts - 10_000).max() < 500  # five standard deviations


def test_ignored_points(tmp_path):
    table = trees.rows(0, [0, 1, 255])
    scene = one(tmp_path, table, points=None)[0]
    np.testing.assert_array_equal(scene.valid, table[:, 6] < 255)
    np.testing.assert_array_equal(scene.target, np.where(scene.valid, table[:, 6], 0))


def changed(row, column, value):
    table = trees.rows(0, [0, 1])
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(4, 1, np.nan), "p.npy, point 5: y is nan, not a finite number of single precision: correct it"),
        (changed(0, 2, -np.inf), "p.npy, point 1: z is -inf, not a finite"),
        (changed(59, 5, 1e39), r"p.npy, point 60: nz is 1e\+39, not a finite number of single precision"),
        (changed(3, 6, 0.5), "p.npy, point 4: the label 0.5 is not a whole number: correct it"),
        (changed(3, 6, np.nan), "p.npy, point 4: label is nan"),
        (changed(3, 6, 2), r"point 4 holds the value 2, which is neither a class nor ignored \(allowed: 0 \.\. 1, 255"),
        (changed(3, 6, -1), "point 4 holds the value -1"),
        (changed(3, 6, 1e30), "point 4 holds the value 1000000000"),
        (np.ones((5, 7)), "p.npy: all 5 points lie in one place, so the shape has no size: remove it"),
        (np.ones((1, 7)), "p.npy: all 1 points lie in one place"),
        (np.empty((0, 7)), "p.npy holds no points: remove it, or fetch it again"),
        (np.ones((5, 6)), r"must hold real numbers \(points, 7\), the columns x y z nx ny nz label, .* \(5, 6\)"),
    ],
)
def test_bad_clouds(tmp_path, table, message):
    scenes = one(tmp_path, table, normals=True)
    for read in (scenes.check, lambda: scenes[0]):
        with pytest.raises(InputError, match=message):
            read()


def test_normals_that_are_not_asked_for_are_not_looked_at(tmp_path):
    assert one(tmp_path, changed(4, 3, np.nan))[0].x.shape == (2048, 3)


def test_what_a_data_set_refuses():
    path = Path("p.txt")
    for options, message in [
        ({"points": 0}, "points must be an integer not less than 1, but got 0"),
        ({"seed": -1}, "seed must be an integer not less than 0"),
        ({"codes": {0: 2}}, r"label values must map to 0 \.\. 1"),
        (
            {"columns": ("x", "y", "label")},
            "some: the column 'z' must be there once, but the columns are x y label: say",
        ),
        ({"columns": ("x", "y", "z")}, "the column 'label' must be there once"),
        ({"label": "part"}, "the column 'part' must be there once"),
        ({"columns": (*COLUMNS, "x")}, "the column 'x' must be there once"),
        (
            {"columns": ("x", "y", "z", "label"), "normals": True},
            "the column 'nx' must be there once, but .*, or leave the normals out",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            some(path, **options)
    items = (CloudFile("p", path, "Chair"),)
    with pytest.raises(InputError, match="some: unknown category 'Chair': expected one of Mug"):
        CloudSet("some", ("a",), voc_colours(1), items, {0: 0}, COLUMNS, {"Mug": (0,)})
    with pytest.raises(InputError, match=r"p\.txt"):
        some(path).check()  # no such file


def test_clouds_that_are_made_differently_are_not_joined(tmp_path):
    first, second = some(Path("a.npy")), some(Path("b.npy"))
    assert first.joined(second).ids == ("a", "b")
    for change in ({"points": 9}, {"normals": True}, {"seed": 3}):
        with pytest.raises(InputError, match=f"cannot be joined, for their {next(iter(change))} differ"):
            first.joined(replace(second, **change))


@pytest.mark.parametrize("normals", [True, False])
def test_one_cloud_alone_is_as_in_a_data_set(tmp_path, normals):
    table = trees.rows(0, [0, 1, 255])
    scene = one(tmp_path, table, normals=normals, points=None)[0]
    x, target, _ = read_cloud(tmp_path / "p.npy", {0: 0, 1: 1, 255: IGNORE}, normals=normals)
    assert x.dtype == scene.x.dtype
    np.testing.assert_array_equal(x, scene.x)
    np.testing.assert_array_equal(target, np.where(scene.valid, scene.target, IGNORE))
