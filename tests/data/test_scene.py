"""Scenes and data sets: one contract for all of them, then what is special about each."""

import re
from pathlib import Path

import numpy as np
import pytest
import trees
from PIL import Image

from segcertify import InputError, data
from segcertify.data.images import Pair
from segcertify.data.scene import IGNORE, DataSet, Scene, voc_colours

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
"""Real data, where it is: beside the repository, not in it."""

TREES = {
    "cityscapes": trees.cityscapes,
    "pascal-context": trees.pascal_context,
    "camvid": trees.camvid,
    "pets": trees.pets,
    "folder": trees.folder,
}


def some(root, codes=None, resize=None):
    """A small data set over whatever lies in the folders images and labels."""
    pairs = tuple(
        Pair(path.stem, path, root / "labels" / f"{path.stem}.png") for path in sorted((root / "images").iterdir())
    )
    return DataSet("some", ("a", "b"), voc_colours(2), pairs, codes or {0: 0, 1: 1, 255: IGNORE}, resize)


@pytest.mark.parametrize("name", data.DATA_SETS)
def test_every_data_set(tmp_path, name):
    TREES[name](tmp_path)
    scenes = data.load(f"{name}:{tmp_path}")
    C = len(scenes.classes)
    assert scenes.colours.shape == (C, 3)
    assert scenes.colours.dtype == np.uint8
    assert len({tuple(colour) for colour in scenes.colours}) == C
    assert len(scenes) == len(scenes.ids) == len(set(scenes.ids)) > 2
    assert list(scenes.ids) == sorted(scenes.ids)
    scenes.check()
    for scene, name_of_it in zip(scenes, scenes.ids, strict=True):
        assert scene.id == name_of_it
        height, width = scene.target.shape
        assert scene.x.shape == (3, height, width)
        assert (scene.x.dtype, scene.valid.dtype) == (np.float32, bool)
        assert np.issubdtype(scene.target.dtype, np.integer)
        assert 0 <= scene.x.min() <= scene.x.max() <= 1
        assert set(np.unique(scene.target[scene.valid])) == set(range(C))  # the trees hold every class
        assert (scene.target[~scene.valid] == 0).all()
        assert 0 < scene.valid.mean() < 1
    assert f"{len(scenes)} scenes, {C} classes" in repr(scenes)
    assert scenes.ids[-1] in repr(scenes[-1])


@pytest.mark.parametrize("name", data.DATA_SETS)
def test_splits(tmp_path, name):
    TREES[name](tmp_path)
    val = data.load(f"{name}:{tmp_path}?split=val")
    assert val.name.endswith("/val")
    assert data.load(f"{name}:{tmp_path}", split="val").ids == val.ids
    train = data.load(f"{name}:{tmp_path}?split=train", split="train")
    assert train.name.endswith("/train")
    assert {p.image for p in train.pairs}.isdisjoint(p.image for p in val.pairs)
    for other in ("test", "../val"):
        with pytest.raises(InputError, match=r"split|no folder"):
            data.load(f"{name}:{tmp_path}", split=other)
    with pytest.raises(InputError, match=r"asks for the split 'val', but split='train' was given too: say it once"):
        data.load(f"{name}:{tmp_path}?split=val", split="train")


@pytest.mark.parametrize("name", data.DATA_SETS)
def test_a_missing_folder(tmp_path, name):
    with pytest.raises(InputError, match=rf"no .* (at|in) .*{tmp_path.name}.*: "):
        data.load(f"{name}:{tmp_path}/nowhere")


@pytest.mark.parametrize("name", data.DATA_SETS)
def test_a_missing_label_is_found_before_any_work(tmp_path, name):
    TREES[name](tmp_path)
    data.load(f"{name}:{tmp_path}").pairs[1].label.unlink()
    with pytest.raises(InputError, match=r"has no label: expected .*; add it or remove the image"):
        data.load(f"{name}:{tmp_path}")


@pytest.mark.parametrize("name", data.DATA_SETS)
def test_a_bad_label_is_found_by_check_and_when_read(tmp_path, name):
    TREES[name](tmp_path)
    scenes = data.load(f"{name}:{tmp_path}")
    label = scenes.pairs[1].label
    trees.write(label, np.full(np.asarray(Image.open(label)).shape, 100, np.uint8))
    scenes[0]
    for read in (scenes.check, lambda: scenes[1], scenes.every(1).limit(2).check):
        with pytest.raises(InputError, match=rf"{label.name} holds the value 100, which is neither a class nor ign"):
            read()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kitti:here", r"unknown data set 'kitti:here': expected one of cityscapes:PATH, pascal-context:PATH, camvid"),
        ("camvid", "unknown data set 'camvid'"),
        ("camvid:", "unknown data set"),
        (
            "camvid:here?split=val&every=5",
            r"unknown option 'every' in 'camvid:here\?split=val&every=5': use split=NAME \(or NAME\+NAME\), "
            r"only=GLOB,GLOB,\.\.\., without=GLOB,GLOB,\.\.\.$",
        ),
        ("camvid:here?val", "unknown option 'val'"),
        ("camvid:here?split=", r"split has no value in .*: write split=NAME \(or NAME\+NAME\), or leave it out"),
        ("camvid:here?only", r"only has no value in .*: write only=GLOB,GLOB,\.\.\., or leave it out"),
        ("camvid:here?without=a*&without=b*", "gives an option twice: say it once, .* several globs as A,B"),
        ("camvid:here?split=train&split=val", "gives an option twice: say it once, several splits as A.B"),
        ("camvid:here?split=train+", r"the split 'train\+' has a part without a name: .* such as train\+val"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(InputError, match=message):
        data.load(spec)


@pytest.mark.parametrize("name", ["camvid", "pascal-context", "pets"])
@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_joined_splits(tmp_path, name, plus):
    TREES[name](tmp_path)
    train, val = (data.load(f"{name}:{tmp_path}", split=split) for split in ("train", "val"))
    both = data.load(f"{name}:{tmp_path}?split=train{plus}val")
    assert both.name == f"{name}/train+val"
    assert both.pairs == train.pairs + val.pairs
    assert both[len(train)].id == val.ids[0]
    assert data.load(f"{name}:{tmp_path}", split="val+train").ids == val.ids + train.ids
    with pytest.raises(InputError, match=r"/train\+train holds .* more than once"):
        data.load(f"{name}:{tmp_path}?split=train+train")
    with pytest.raises(InputError, match="split 'tset'"):
        data.load(f"{name}:{tmp_path}?split=train+tset")


@pytest.mark.parametrize("name", ["cityscapes", "folder"])
def test_splits_whose_images_share_names_are_not_joined(tmp_path, name):
    TREES[name](tmp_path)
    with pytest.raises(InputError, match=r"/train\+val holds '.*' more than once: every image needs its own name"):
        data.load(f"{name}:{tmp_path}?split=train+val")


def named(*ids, name="some", classes=("a", "b"), codes=None, resize=None):
    """A data set of scenes with these ids, whose files do not exist."""
    pairs = tuple(Pair(each, Path(f"{each}.jpg"), Path(f"{each}.png")) for each in ids)
    return DataSet(name, classes, voc_colours(len(classes)), pairs, codes or {0: 0}, resize)


def test_joined():
    first, second, third = named("b", name="x/one"), named("a", "d", name="x/two"), named("c", name="y/two")
    assert first.joined(second, third).ids == ("b", "a", "d", "c")
    assert first.joined(second, third).name == "x/one+two+y/two"
    assert (first.joined().name, first.joined().pairs) == (first.name, first.pairs)
    for other, what in [
        (named("c", classes=("b", "a")), r"classes differ: \('a', 'b'\) and \('b', 'a'\)"),
        (named("c", codes={1: 0}), r"codes differ: \{0: 0\} and \{1: 0\}"),
        (named("c", resize=(4, 5)), r"resize differ: None and \(4, 5\)"),
    ]:
        with pytest.raises(InputError, match=rf"x/one and some cannot be joined, for their {what}; use them one by"):
            first.joined(second, other)


@pytest.mark.parametrize(
    ("globs", "fitting"),
    [
        (["a*"], "a1 a2 ab/1"),
        (["a?"], "a1 a2"),
        (["a[!2]"], "a1"),
        (["*1"], "B1 a1 b+1 ab/1"),  # also over a slash
        (["b*"], "b+1"),  # not B1: case matters
        (["b+1"], "b+1"),
        (["a2", "B1", "a*"], "B1 a1 a2 ab/1"),  # in the data set's order, once each
    ],
)
def test_only_and_without(globs, fitting):
    scenes = named("B1", "a1", "b+1", "a2", "ab/1", resize=(4, 5))
    only, without = scenes.only(*globs), scenes.without(*globs)
    assert only.ids == tuple(name for name in scenes.ids if name in fitting.split())
    assert without.ids == tuple(name for name in scenes.ids if name not in fitting.split())
    assert (only.name, without.name) == (f"some only {','.join(globs)}", f"some without {','.join(globs)}")
    assert (only.resize, only.codes) == (scenes.resize, scenes.codes)
    assert f"DataSet({only.name}: {len(only)} scenes" in repr(only)


@pytest.mark.parametrize("choice", ["only", "without"])
@pytest.mark.parametrize("glob", ["1", "A*", "", "c?"])
def test_a_glob_that_fits_nothing(choice, glob):
    scenes = named("B1", "a1", "b1", "a2", "ab/1")
    message = f"{choice}: {glob!r} fits none of the 5 scenes of some, whose ids are such as B1, b1, ab/1: correct it"
    with pytest.raises(InputError, match=re.escape(message)):
        getattr(scenes, choice)("a*", glob)


def test_a_choice_that_leaves_nothing():
    scenes = named("a1", "b1")
    with pytest.raises(InputError, match=r"some without a\*,b\* leaves none of the 2 scenes, .* such as a1, b1"):
        scenes.without("a*", "b*")
    for choice in ("only", "without"):
        with pytest.raises(InputError, match=f"{choice} needs at least one glob, such as 'a1'"):
            getattr(scenes, choice)()


def test_choices_in_a_spec(tmp_path):
    spec = f"camvid:{trees.camvid(tmp_path)}?split=train+val"
    chosen = data.load(f"{spec}&without=0016E5_00*,0006R0*")
    assert chosen.name == "camvid/train+val without 0016E5_00*,0006R0*"
    assert chosen.ids == tuple(name for name in data.load(spec).ids if name[:9] not in ("0016E5_00", "0006R0_f0"))
    for both in ("only=0016E5*,0006R0*&without=*[1-9]0", "without=*[1-9]0&only=0016E5*,0006R0*"):
        chosen = data.load(f"{spec}&{both}")
        assert chosen.name == "camvid/train+val only 0016E5*,0006R0* without *[1-9]0"
        assert chosen.ids == tuple(f"0016E5_{frame}" for frame in ("07959", "07961", "07963", "07965"))
    with pytest.raises(InputError, match=r"'0001TP\*' fits none of the 7 scenes of camvid/train\+val only 0016E5\*, "):
        data.load(f"{spec}&only=0016E5*&without=0001TP*")  # only comes first
    assert data.load(f"{spec}&only=0016E5_0045?,0016E5_0796%31").ids == ("0016E5_00450", "0016E5_07961")
    assert len(data.load(f"camvid:{tmp_path}?only=*59,*61")) == 2  # of the default split


def test_every_and_limit(tmp_path):
    scenes = data.load(f"pets:{trees.pets(tmp_path)}")
    assert scenes.every(5).ids == scenes.ids[::5]
    assert scenes.every(5).limit(2).ids == (scenes.ids[0], scenes.ids[5])
    assert scenes.limit(99).ids == scenes.ids
    assert scenes.every(5)[1].id == scenes[5].id
    for change in (scenes.every, scenes.limit):
        for bad in (0, -1, 1.5):
            with pytest.raises(InputError, match="must be an integer"):
                change(bad)
    with pytest.raises(IndexError):
        scenes[23]


def test_the_papers_100_images():
    """Every 5th of 500 [Fischer2021, app. A]; of Pascal's 5,105 every 51st gives 101, of which the code takes 100."""
    for total, step in ((500, 5), (5105, 51)):
        pairs = tuple(Pair(f"{i:04}", Path("i"), Path("l")) for i in range(total))
        chosen = DataSet("some", ("a",), voc_colours(1), pairs, {0: 0}).every(step).limit(100)
        assert chosen.ids == tuple(f"{i * step:04}" for i in range(100))


def test_a_scene_is_what_the_files_say(tmp_path):
    trees.write(tmp_path / "images/p.png", pixels := trees.picture(0, (2, 3)))
    trees.write(tmp_path / "labels/p.png", np.array([[0, 1, 255], [1, 0, 1]], np.uint8))
    scene = some(tmp_path)[0]
    np.testing.assert_array_equal(scene.x, pixels.transpose(2, 0, 1) / np.float32(255))
    assert scene.target.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert scene.valid.tolist() == [[True, True, False], [True] * 3]


def test_resizing_mixes_colours_but_never_labels(tmp_path):
    trees.write(tmp_path / "images/p.png", pixels := trees.picture(0, (2, 2)))
    trees.write(tmp_path / "labels/p.png", np.array([[0, 1], [255, 1]], np.uint8))
    scene = some(tmp_path, resize=(4, 6))[0]
    np.testing.assert_array_equal(scene.target, np.kron([[0, 1], [0, 1]], np.ones((2, 3), int)))
    np.testing.assert_array_equal(scene.valid, np.kron([[1, 1], [0, 1]], np.ones((2, 3))) == 1)
    wide = np.asarray(Image.fromarray(pixels).resize((6, 4), Image.Resampling.BILINEAR), np.float32)
    np.testing.assert_array_equal(scene.x, wide.transpose(2, 0, 1) / np.float32(255))


def test_image_and_label_of_different_size(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (4, 6)))
    trees.write(tmp_path / "labels/p.png", np.zeros((6, 4), np.uint8))
    for resize in (None, (5, 5)):
        for read in (some(tmp_path, resize=resize).check, lambda size=resize: some(tmp_path, resize=size)[0]):
            with pytest.raises(
                InputError, match=r"labels.p\.png is 6 x 4 pixels, but .*p\.png is 4 x 6: a label needs"
            ):
                read()


def test_bad_label_files(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (4, 6)))
    label = tmp_path / "labels/p.png"
    for pixels, message in [
        (np.zeros((4, 6, 3), np.uint8), "must hold one class number per pixel"),
        (np.full((4, 6), 2, np.uint8), r"holds the value 2, .* \(allowed: 0 \.\. 1, 255\): correct the file"),
        (np.full((4, 6), 60000, np.uint16), "holds the value 60000"),
    ]:
        trees.write(label, pixels)
        with pytest.raises(InputError, match=message):
            some(tmp_path).check()
    label.write_bytes(label.read_bytes()[:50])
    with pytest.raises(InputError, match=r"p\.png (cannot be read|is not an image)"):
        some(tmp_path).check()


def test_a_cut_image_is_found_when_its_scene_is_read(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (40, 60)))
    trees.write(tmp_path / "labels/p.png", np.zeros((40, 60), np.uint8))
    image = tmp_path / "images/p.png"
    image.write_bytes(image.read_bytes()[:900])
    scenes = some(tmp_path)
    scenes.check()
    with pytest.raises(InputError, match=r"images.p\.png cannot be read .*: is it truncated\?"):
        scenes[0]


def test_what_a_data_set_refuses():
    one = (Pair("p", Path("p.jpg"), Path("p.png")),)
    for arguments, message in [
        ((("a",), voc_colours(2), one, {0: 0}), r"1 classes, but colours of shape \(2, 3\)"),
        ((("a",), voc_colours(1), (), {0: 0}), "holds no images"),
        ((("a",), voc_colours(1), one * 2, {0: 0}), "holds 'p' more than once"),
        ((("a",), voc_colours(1), one, {0: 1}), r"must map to 0 \.\. 0"),
        ((("a",), voc_colours(1), one, {-1: 0}), "label values"),
        ((("a",), voc_colours(1), one, {}), "label values"),
    ]:
        with pytest.raises(InputError, match=message):
            DataSet("some", *arguments)
    with pytest.raises(InputError, match=r"scene 'p': x must be \(3, height, width\)"):
        Scene("p", np.zeros((3, 2, 2), np.float32), np.zeros((2, 3), np.int32), np.ones((2, 2), bool))


@pytest.mark.parametrize(("spec", "count"), [("camvid/val", 101), ("camvid/train", 367), ("pets/trainval", 3679)])
def test_the_real_folders(spec, count):
    """Every image has a label, and a sample of scenes reads as the folder's README says."""
    name, split = spec.split("/")
    if not (SHARED / name).is_dir():
        pytest.skip(f"no real {name} at ../shared/data/{name}: the test needs the data set itself")
    scenes = data.load(f"{name}:{SHARED / name}", split=split)
    assert len(scenes) == count
    sample = scenes.every(count // 8)
    sample.check()
    seen = set()
    for scene in sample:
        height, width = scene.target.shape
        assert (height, width) == (360, 480) if name == "camvid" else min(height, width) == 160
        seen |= set(np.unique(scene.target[scene.valid]))
        assert 0.5 < scene.valid.mean() <= 1
        assert scene.x.std() > 0.05
    assert seen == set(range(len(scenes.classes)))
