"""ShapeNet-Part: splits, categories, absent files, and the real shapes."""

import json

import numpy as np
import pytest
import trees

from segcertify import InputError, data
from segcertify.data import shapenet
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES

ORDER = {
    "train": ("Airplane/1a", "Airplane/1f3", "Mug/4a", "Mug/4b"),
    "val": ("Bag/1a", "Mug/5a"),
    "test": ("Airplane/2a", "Airplane/2b", "Mug/5", "Mug/6", "Table/77"),
    "trainval": ("Airplane/1a", "Airplane/1f3", "Bag/1a", "Mug/4a", "Mug/4b", "Mug/5a"),
}
"""By category, then by name, however the lists are shuffled."""


def test_splits(tmp_path):
    trees.shapenet(tmp_path)
    for split, ids in ORDER.items():
        scenes = data.load(f"shapenet:{tmp_path}?split={split}")
        assert (scenes.ids, scenes.name) == (ids, f"shapenet/{split}")
        assert [scene.category for scene in scenes] == [name.split("/")[0] for name in ids]
    assert data.load(f"shapenet:{tmp_path}").name == "shapenet/test"
    assert data.load(f"shapenet:{tmp_path}", split="train+val").ids == ORDER["train"] + ORDER["val"]
    with pytest.raises(InputError, match="no split 'all' in shapenet: use train, val, test, trainval"):
        data.load(f"shapenet:{tmp_path}?split=all")


def test_classes_and_categories(tmp_path):
    scenes = data.load(f"shapenet:{trees.shapenet(tmp_path)}")
    assert scenes.classes == PART_NAMES
    assert len(scenes.classes) == 50
    assert scenes.categories == CATEGORIES
    assert len(CATEGORIES) == 16
    assert list(trees.SYNSETS) == list(CATEGORIES)


def test_the_folder_may_be_the_one_that_holds_it(tmp_path):
    trees.shapenet(tmp_path / shapenet.FOLDER)
    assert data.load(f"shapenet:{tmp_path}").ids == data.load(f"shapenet:{tmp_path / shapenet.FOLDER}").ids
    with pytest.raises(InputError, match=r"no synsetoffset2category\.txt in .*: give the folder shapenetcore_part"):
        data.load(f"shapenet:{tmp_path}/elsewhere")


def test_a_scene_is_what_the_file_says(tmp_path):
    scenes = data.load(f"shapenet:{trees.shapenet(tmp_path)}?points=all&normals=true")
    assert scenes.name == "shapenet/test of all points with normals"
    table = np.genfromtxt(tmp_path / "02691156" / "2a.txt")
    scene = scenes[0]
    np.testing.assert_array_equal(scene.target, table[:, 6])
    np.testing.assert_array_equal(scene.x[:, 3:], table[:, 3:6].astype(np.float32))
    centred = table[:, :3] - table[:, :3].mean(0)
    np.testing.assert_allclose(scene.x[:, :3], centred / np.linalg.norm(centred, axis=1).max(), atol=1e-7)
    assert data.load(f"shapenet:{tmp_path}?points=9")[0].x.shape == (9, 3)


def test_some_categories(tmp_path):
    spec = f"shapenet:{trees.shapenet(tmp_path)}"
    planes = data.load(f"{spec}?category=Airplane&points=64")
    assert (planes.ids, planes.name) == (ORDER["test"][:2], "shapenet/test Airplane of 64 points")
    both = data.load(f"{spec}?category=Table,Mug&normals=true")
    assert (both.ids, both.name) == (ORDER["test"][2:], "shapenet/test Table,Mug with normals")
    assert len(both.classes) == 50
    np.testing.assert_array_equal(planes[1].x, data.load(f"{spec}?points=64")[1].x)
    with pytest.raises(InputError, match=r"unknown category 'Plane': did you mean 'Airplane'\? Use Airplane, Bag, Cap"):
        data.load(f"{spec}?category=Mug,Plane")
    with pytest.raises(InputError, match="lists no shapes of test Bag: check the split and the category"):
        data.load(f"{spec}?category=Bag")
    with pytest.raises(InputError, match=r"category must be a sequence of names such as \['Mug'\], but got 'Mug'"):
        shapenet.load(tmp_path, category="Mug")


def test_absent_files(tmp_path):
    spec = f"shapenet:{trees.shapenet(tmp_path)}"
    (tmp_path / "02691156" / "2b.txt").unlink()
    (tmp_path / "04379243" / "77.txt").unlink()
    with pytest.raises(
        InputError,
        match=r"2 of 5 shapes of the split 'test' are absent, such as .*2b\.txt: fetch the data set again, "
        "or take the 3 others with available=true",
    ):
        data.load(spec)
    assert data.load(f"{spec}?available=true").ids == ("Airplane/2a", "Mug/5", "Mug/6")
    assert len(data.load(f"{spec}?category=Mug")) == 2
    with pytest.raises(InputError, match=r"1 of 1 shapes of .* are absent, such as .*: fetch the data set again$"):
        data.load(f"{spec}?category=Table&available=true")


def test_a_part_of_another_category(tmp_path):
    scenes = data.load(f"shapenet:{trees.shapenet(tmp_path)}")
    trees.write_rows(scenes.items[0].path, trees.rows(0, [0, 1, 2, 3, 4]))
    with pytest.raises(
        InputError,
        match=r"2a\.txt, line \d+ holds the value 4, which is neither a class of Airplane nor ignored "
        r"\(allowed: 0 \.\. 3\)",
    ):
        scenes.check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "it is not JSON"),
        ('{"a": 1}', r"holds \{'a': 1\}, but an entry is shape_data/SYNSET/ID"),
        ('["shape_data/02691156"]', "holds 'shape_data/02691156', but an entry is"),
        ('["shape_data/99999999/2a"]', "with a synset of synsetoffset2category.txt: fetch it again"),
        ("[7]", "holds 7, but an entry is"),
        ("[]", "lists no shapes of test"),
        ('["shape_data/02691156/2a", "shape_data/02691156/2a"]', "holds 'Airplane/2a' more than once"),
    ],
)
def test_bad_lists(tmp_path, text, message):
    (trees.shapenet(tmp_path) / "train_test_split" / "shuffled_test_file_list.json").write_text(text)
    with pytest.raises(InputError, match=message):
        data.load(f"shapenet:{tmp_path}")


def test_missing_lists_and_bad_synsets(tmp_path):
    trees.shapenet(tmp_path)
    (tmp_path / "train_test_split" / "shuffled_val_file_list.json").unlink()
    with pytest.raises(InputError, match=r"no list of the split 'val' at .*shuffled_val_file_list\.json: fetch it"):
        data.load(f"shapenet:{tmp_path}?split=trainval")
    for text in ("Airplane\n", "Plane\t02691156\n"):
        (tmp_path / "synsetoffset2category.txt").write_text(f"Mug\t03797390\n{text}")
        with pytest.raises(InputError, match=r"category\.txt, line 2: expected a category and its synset, such as"):
            data.load(f"shapenet:{tmp_path}")


def test_the_papers_100_shapes(tmp_path):
    """Every 28th of the test split's 2,874 [Fischer2021, app. A] would be 103, of which 100 are taken."""
    trees.shapenet(tmp_path)
    names = [f"{i:04x}" for i in range(2874)]
    entries = [f"shape_data/02691156/{name}" for name in reversed(names)]
    (tmp_path / "train_test_split" / "shuffled_test_file_list.json").write_text(json.dumps(entries))
    for name in names:
        (tmp_path / "02691156" / f"{name}.txt").touch()
    chosen = data.load(f"shapenet:{tmp_path}").every(28)
    assert len(chosen) == 103
    assert chosen.limit(100).ids == tuple(f"Airplane/{names[28 * i]}" for i in range(100))


def test_the_real_shapes():
    """All 45 read as the folder's README says, with the published categories' parts and unit normals."""
    root = trees.SHARED / "shapenet_part"
    if not root.is_dir():
        pytest.skip("no real shapenet at ../shared/data/shapenet_part: the test needs the data set itself")
    spec = f"shapenet:{root}?normals=true&available=true"
    assert [len(data.load(spec, split=split)) for split in ("train", "val", "trainval")] == [39, 6, 45]
    whole = data.load(f"{spec}&points=all", split="trainval")
    assert {scene.category for scene in whole} == set(CATEGORIES)
    for scene in whole:
        assert 1500 < len(scene.x) < 3000
        assert np.abs(scene.x[:, :3].mean(axis=0, dtype=float)).max() < 1e-6
        assert np.linalg.norm(scene.x[:, :3], axis=1).max() == pytest.approx(1, abs=1e-6)
        assert np.median(np.linalg.norm(scene.x[:, 3:], axis=1)) == pytest.approx(1, abs=1e-3)
        assert set(scene.target) <= set(CATEGORIES[scene.category])
        assert scene.valid.all()
