"""The shapes that ship: what the file holds, and what a spec can say of them."""

import numpy as np
import pytest

from segcertify import InputError, data
from segcertify.data.domain import CLOUD
from segcertify.data.sets.shapes import ShapeSet, load
from segcertify.metrics.shapenet import CATEGORIES


def test_every_shape_that_ships():
    shapes = load(normals=True)
    assert [scene.category for scene in shapes] == [*CATEGORIES] * 3
    for number, scene in enumerate(shapes):
        assert scene.id == f"{scene.category}-{number:06d}"
        assert (scene.x.shape, scene.x.dtype, scene.target.dtype) == ((2048, 6), np.float32, np.int32)
        assert set(scene.target) <= set(CATEGORIES[scene.category])
        assert scene.valid.all()
        assert np.abs(scene.x[:, :3].mean(axis=0)).max() < 1e-4
        assert np.linalg.norm(scene.x[:, :3], axis=1).max() == pytest.approx(1, abs=1e-4)
        assert np.allclose(np.linalg.norm(scene.x[:, 3:], axis=1), 1, atol=1e-5)
    shapes.check()


def test_a_set_of_shapes():
    shapes = load(count=20, points=64)
    assert repr(shapes) == (
        "ShapeSet(shapes/20 of seed 2021 of 64 points: 20 scenes, 50 classes, 64 points; first 'Airplane-000000')"
    )
    assert shapes.domain is CLOUD
    scene, with_normals = shapes[4], load(count=5, points=64, normals=True)[4]
    assert (scene.id, scene.x.shape) == ("Chair-000004", (64, 3))
    assert np.array_equal(with_normals.x[:, :3], scene.x)
    scene.x[:] = 0
    assert (shapes[4].x != 0).any()  # a scene is a copy


def test_a_spec_of_shapes():
    shapes = data.load("shapes:?count=5&seed=2021&category=Chair,Mug&normals=true&points=128")
    assert isinstance(shapes, ShapeSet)
    assert shapes.name == "shapes/5 of seed 2021 Chair,Mug of 128 points with normals"
    assert shapes.ids == ("Chair-000004", "Mug-000011", "Chair-000020", "Mug-000027", "Chair-000036")
    assert shapes[1].x.shape == (128, 6)
    assert np.array_equal(shapes[0].x, data.load("shapes:?normals=true&points=128").only("Chair*")[0].x)
    assert len(data.load("shapes:")) == 48


MORE = r"python -m tools\.shapes of the repository, and load them as clouds:FOLDER"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shapes:?split=val", f"shapes have no splits, but got 'val': make others with {MORE}"),
        ("shapes:?category=Boat", "unknown category 'Boat': use Airplane, "),
        ("shapes:?count=0", "count must be an integer not less than 1, but got 0"),
        ("shapes:?count=49", f"48 shapes ship with segcertify, but got shapes = 49: .*{MORE}"),
        ("shapes:?count=4&category=Mug", "3 shapes ship with segcertify, but got shapes = 4"),
        ("shapes:?seed=0", f"only the shapes of seed 2021 ship with segcertify, but got seed 0: .*{MORE}"),
        ("shapes:?seed=-1", "seed must be an integer not less than 0, but got -1"),
        ("shapes:?points=4096", f"2048 points ship with segcertify, but got points = 4096: .*{MORE}"),
        ("shapes:?points=1", "points must be an integer not less than 2, but got 1"),
        ("shapes:?points=all", r"points cannot be 'all' in .*: write points=NUMBER$"),
        ("shapes:here", "shapes has no folder"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(InputError, match=message):
        data.load(spec)


def test_a_single_name_is_no_sequence_of_names():
    with pytest.raises(InputError, match=r"category must be a sequence of names such as \['Chair'\]"):
        load(category="Chair")
