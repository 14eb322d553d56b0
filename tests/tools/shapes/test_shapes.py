"""The generator of shapes: what is visible of their pieces, how like the real ones they are, what is written."""

import numpy as np
import pytest

from segcertify import InputError, data
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.storage import archive
from tools.shapes import BUILDERS, generate, shapes
from tools.shapes.__main__ import main
from tools.shapes.assembly import NOTHING, Piece, seen, sheet
from tools.shapes.surfaces import box, normals, placed, scatter

PAIR = ("Chair", "Table")
every_category = pytest.mark.parametrize("category", CATEGORIES)

# One shape of ShapeNet-Part each: its extent along x, y, z after scaling, and each part's share of its points in %.
REAL = {
    "Airplane": ((1.89, 0.57, 1.60), (47, 30, 12, 11)),
    "Bag": ((0.65, 1.48, 1.31), (12, 88)),
    "Cap": ((1.88, 0.75, 1.42), (75, 25)),
    "Car": ((1.92, 0.70, 0.90), (8, 8, 17, 67)),
    "Chair": ((0.85, 1.38, 0.94), (32, 46, 14, 8)),
    "Earphone": ((0.73, 1.41, 1.67), (66, 34, 0)),
    "Guitar": ((0.10, 1.45, 0.52), (5, 10, 85)),
    "Knife": ((0.27, 1.72, 0.05), (46, 54)),
    "Lamp": ((1.04, 1.74, 1.05), (15, 60, 0, 25)),
    "Laptop": ((1.10, 0.86, 1.38), (51, 49)),
    "Motorbike": ((1.90, 1.07, 0.56), (7, 3, 17, 1, 1, 71)),
    "Mug": ((1.60, 1.21, 1.08), (8, 92)),
    "Pistol": ((1.65, 1.18, 0.29), (70, 21, 9)),
    "Rocket": ((1.53, 0.55, 0.52), (73, 22, 5)),
    "Skateboard": ((1.98, 0.30, 0.65), (20, 73, 7)),
    "Table": ((0.78, 0.65, 1.56), (54, 1, 45)),
}

# Which part is farther along an axis than which, in real shapes as in generated ones.
ORDER = {
    "Airplane": ["tail x body", "body y tail"],
    "Bag": ["body y handle"],
    "Cap": ["crown x visor", "visor y crown"],
    "Car": ["roof x hood", "wheel y hood", "hood y roof"],
    "Chair": ["back x seat", "leg y seat", "seat y back"],
    "Earphone": ["earcup y headband"],
    "Guitar": ["body y neck", "neck y head", "body x neck"],
    "Knife": ["handle y blade"],
    "Lamp": ["base y shade", "stem y bracket"],
    "Laptop": ["screen x keyboard", "keyboard y screen"],
    "Motorbike": ["seat x tank", "tank x light", "wheel y handlebar"],
    "Mug": ["cup x handle"],
    "Pistol": ["handle x barrel", "trigger y barrel"],
    "Rocket": ["fin x body", "body x nose"],
    "Skateboard": ["wheel y deck"],
    "Table": ["leg y top"],
}


@pytest.fixture(scope="module", params=CATEGORIES)
def made(request):
    """A category and a hundred of its shapes."""
    rngs = [np.random.default_rng([3, seed]) for seed in range(100)]
    return request.param, [generate(request.param, rng, points=512) for rng in rngs]


def test_a_hundred_shapes(made):
    category, found = made
    for cloud, labels in found:
        assert (cloud.shape, cloud.dtype, labels.shape, labels.dtype) == ((512, 6), np.float32, (512,), np.int32)
        assert np.isfinite(cloud).all()
        assert np.abs(cloud[:, :3].mean(axis=0)).max() < 1e-5
        assert np.linalg.norm(cloud[:, :3], axis=1).max() == pytest.approx(1, abs=1e-5)
        assert np.allclose(np.linalg.norm(cloud[:, 3:], axis=1), 1, atol=1e-5)
        assert len(set(labels)) >= 2
    assert {*np.concatenate([labels for _, labels in found])} == {*CATEGORIES[category]}


def test_a_real_shape_lies_among_the_generated_ones(made):
    category, found = made
    extents = np.array([np.ptp(cloud[:, :3], axis=0) for cloud, _ in found])
    shares = np.array([[100 * (labels == part).mean() for part in CATEGORIES[category]] for _, labels in found])
    for real, ours, slack in zip(REAL[category], (extents, shares), (0.03, 1), strict=True):
        assert (ours.min(axis=0) - slack <= real).all()
        assert (ours.max(axis=0) + slack >= real).all()


def test_shapes_stand_as_the_real_ones(made):
    category, found = made
    for before, axis, after in map(str.split, ORDER[category]):
        low, high = (PART_NAMES.index(f"{category} {part}") for part in (before, after))
        right = []
        for cloud, labels in found:
            if {low, high} <= {*labels}:
                along = cloud[:, "xyz".index(axis)]
                right.append(along[labels == low].mean() < along[labels == high].mean())
        assert len(right) >= 10
        assert np.mean(right) > 0.85, (before, axis, after)  # a hat has its brim all round


@every_category
def test_shapes_are_reproducible_and_differ(category):
    first, again, other = (generate(category, np.random.default_rng(seed), points=256) for seed in (8, 8, 9))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.allclose(np.ptp(first[0], axis=0), np.ptp(other[0], axis=0), atol=1e-3)


def test_categories_have_builders():
    assert list(BUILDERS) == list(CATEGORIES)
    with pytest.raises(InputError, match="unknown category 'Boat': use Airplane, Bag, "):
        generate("Boat", np.random.default_rng(0))
    with pytest.raises(InputError, match="points must be an integer not less than 2, but got 1"):
        generate("Mug", np.random.default_rng(0), points=1)


def test_what_is_inside_another_piece_is_not_seen():
    cubes = [Piece(1, box(1, 1, 1)), Piece(2, placed(box(1, 1, 1), move=(0.5, 0.5, 0.5)))]
    cloud, labels = seen(cubes, 4000, np.random.default_rng(0))
    first, second = cloud[labels == 1, :3], cloud[labels == 2, :3]
    assert not (first > 0.01).all(axis=1).any()  # the second begins at 0
    assert not (second < 0.49).all(axis=1).any()
    assert len(first) == pytest.approx(2000, abs=150)  # each lost three quarter faces of its six
    assert (np.abs(first) > 0.499).any(axis=1).all()


def test_pieces_that_touch_hide_each_other():
    stacked = [Piece(1, box(1, 1, 1)), Piece(2, placed(box(1, 1, 1), move=(0, 1, 0)))]
    cloud, _ = seen(stacked, 2000, np.random.default_rng(0))
    assert not np.isclose(cloud[:, 1], 0.5).any()


def test_a_piece_hides_only_the_parts_it_names():
    shell = Piece(1, box(1, 1, 1), hides=(3,))
    inner = [Piece(2, box(0.5, 0.5, 0.5)), Piece(3, box(0.4, 0.4, 0.4))]
    _, labels = seen([shell, inner[0]._replace(hides=()), inner[1]], 1000, np.random.default_rng(0))
    assert set(labels.tolist()) == {1, 2}


def test_nothing_has_no_points_but_cuts():
    cube = box(1, 1, 1)
    top = normals(cube)[:, 1] > 0.5
    cut = Piece(NOTHING, placed(box(1, 2, 2), move=(0.5, 0, 0)))
    cloud, labels = seen([Piece(np.where(top, NOTHING, 7), cube), cut], 1000, np.random.default_rng(0))
    assert set(labels.tolist()) == {7}
    assert cloud[:, 0].max() < 0.01
    assert cloud[cloud[:, 4] > 0.5].size == 0


def test_normals_of_a_sheet_point_to_either_side():
    flat = box(1, 1, 1)[:1]
    cloud, _ = seen([sheet(1, flat)], 1000, np.random.default_rng(0))
    ahead = cloud[:, 3:] @ scatter(flat, 1, np.random.default_rng(0)).normals[0]
    assert np.allclose(np.abs(ahead), 1)
    assert (ahead > 0).mean() == pytest.approx(0.5, abs=0.08)


def test_several_shapes():
    found = [*shapes(count=20, seed=3, points=64)]
    assert found[4].id == "Chair-000004"
    assert [scene.category for scene in found[:17]] == [*CATEGORIES, "Airplane"]
    assert (found[4].x.shape, found[4].valid.all()) == ((64, 6), True)


def test_a_shape_depends_on_the_seed_and_its_number_alone():
    many, few = ([*shapes(count=count, seed=3, points=64, category=names)] for count, names in ((64, ()), (40, PAIR)))
    assert many[36].id == few[36].id == "Chair-000036"
    assert np.array_equal(few[36].x, many[36].x)
    assert np.array_equal(few[36].target, many[36].target)
    assert not np.array_equal([*shapes(count=37, seed=4, points=64)][36].x, many[36].x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"category": ["Boat"]}, "unknown category 'Boat': use Airplane, "),
        ({"count": 0}, "count must be an integer not less than 1, but got 0"),
        ({"seed": -1}, "seed must be an integer not less than 0, but got -1"),
        ({"points": 1}, "points must be an integer not less than 2, but got 1"),
    ],
)
def test_what_cannot_be_generated(change, message):
    with pytest.raises(InputError, match=message):
        [*shapes(**{"count": 1, "seed": 0} | change)]


def test_the_file_that_ships_holds_what_is_generated():
    """Within the rounding of 16 bits a coordinate and 8 bits a normal's entry."""
    shipped = data.load("shapes:?normals=true")
    assert len(shipped) == 48
    for made, scene in zip(shapes(count=18, seed=2021), shipped.limit(18), strict=True):
        assert (scene.id, scene.category) == (made.id, made.category)
        assert np.array_equal(scene.target, made.target)
        assert np.abs(scene.x[:, :3] - made.x[:, :3]).max() <= 0.51 / 32767
        assert np.abs(scene.x[:, 3:] - made.x[:, 3:]).max() <= 1 / 127


def test_the_command_writes_the_file(tmp_path, capsys):
    main([str(tmp_path / "a.safetensors"), "--count", "3", "--points", "64"])
    assert "a.safetensors" in capsys.readouterr().out
    header, arrays = archive.read(tmp_path / "a.safetensors", kind="shapes", version=2)
    assert (header["seed"], header["ids"][2]) == (2021, "Cap-000002")
    assert {name: array.shape for name, array in arrays.items()} == {
        "xyz": (3, 64, 3), "normals": (3, 64, 3), "parts": (3, 64)
    }  # fmt: skip


def test_the_command_writes_a_data_set_of_clouds(tmp_path):
    main(
        [
            str(tmp_path / "new"),
            "--count",
            "4",
            "--seed",
            "5",
            "--points",
            "64",
            *(["--category", "Chair", "--category", "Table"]),
        ]
    )
    found = data.load(f"clouds:{tmp_path / 'new'}?normals=true&points=all")
    assert found.name == "shapes/4 of seed 5 Chair,Table of all points with normals"
    assert found.classes == PART_NAMES
    assert np.array_equal(found.colours, data.load("shapes:").colours)
    assert found.categories == {name: CATEGORIES[name] for name in PAIR}
    made = {f"{scene.category}/{scene.id}": scene for scene in shapes(count=4, seed=5, points=64, category=PAIR)}
    assert set(found.ids) == set(made)
    for scene in found:
        assert np.allclose(scene.x, made[scene.id].x, atol=1e-6)
        assert np.array_equal(scene.target, made[scene.id].target)
    with pytest.raises(InputError, match="exists already: name a new folder"):
        main([str(tmp_path / "new")])
