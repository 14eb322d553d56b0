"""What all data sets share: ids, choices, joining."""

import re
from pathlib import Path

import pytest
import trees

from segcertify import InputError, data
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import ImageFiles
from segcertify.figures.palette import voc_colours


def test_every_data_set_has_a_tree():
    assert set(data.DATA_SETS) - {"shapes"} == set(trees.IMAGES) | set(trees.CLOUDS)


@pytest.mark.parametrize("name", trees.IMAGES | trees.CLOUDS)
def test_a_missing_folder(tmp_path, name):
    with pytest.raises(InputError, match=rf"no .* (at|in) .*{tmp_path.name}.*: "):
        data.load(f"{name}:{tmp_path}/nowhere")


@pytest.mark.parametrize("name", ["camvid", "pascal-context", "pets"])
@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_joined_splits(tmp_path, name, plus):
    trees.IMAGES[name](tmp_path)
    train, val = (data.load(f"{name}:{tmp_path}", split=split) for split in ("train", "val"))
    both = data.load(f"{name}:{tmp_path}?split=train{plus}val")
    assert both.name == f"{name}/train+val"
    assert both.items == train.items + val.items
    assert both[len(train)].id == val.ids[0]
    assert data.load(f"{name}:{tmp_path}", split="val+train").ids == val.ids + train.ids
    with pytest.raises(InputError, match=r"/train\+train holds .* more than once"):
        data.load(f"{name}:{tmp_path}?split=train+train")
    with pytest.raises(InputError, match="split 'tset'"):
        data.load(f"{name}:{tmp_path}?split=train+tset")


def test_the_base_class_is_not_a_data_set():
    with pytest.raises(TypeError, match="abstract"):
        data.DataSet("some", ("a",), voc_colours(1), ())


def named(*ids, name="some", classes=("a", "b"), codes=None, resize=None):
    """A data set of scenes with these ids, whose files do not exist."""
    pairs = tuple(ImageFiles(each, Path(f"{each}.jpg"), Path(f"{each}.png")) for each in ids)
    return ImageSet(name, classes, voc_colours(len(classes)), pairs, codes or {0: 0}, resize)


def test_joined():
    first, second, third = named("b", name="x/one"), named("a", "d", name="x/two"), named("c", name="y/two")
    assert first.joined(second, third).ids == ("b", "a", "d", "c")
    assert first.joined(second, third).name == "x/one+two+y/two"
    assert (first.joined().name, first.joined().items) == (first.name, first.items)
    for other, what in [
        (named("c", classes=("b", "a")), r"classes differ: \('a', 'b'\) and \('b', 'a'\)"),
        (named("c", codes={1: 0}), r"codes differ: \{0: 0\} and \{1: 0\}"),
        (named("c", resize=(4, 5)), r"resize differ: None and \(4, 5\)"),
    ]:
        with pytest.raises(InputError, match=rf"x/one and some cannot be joined, for their {what}; use them one by"):
            first.joined(second, other)


def test_images_and_clouds_are_not_joined(tmp_path):
    images, clouds = (
        data.load(f"pets:{trees.pets(tmp_path / 'i')}"),
        data.load(f"clouds:{trees.clouds(tmp_path / 'c')}"),
    )
    with pytest.raises(InputError, match=r"cannot be joined, for their types differ: ImageSet and CloudSet"):
        images.joined(clouds)


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
    assert f"ImageSet({only.name}: {len(only)} scene{'s' * (len(only) > 1)}," in repr(only)


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
        pairs = tuple(ImageFiles(f"{i:04}", Path("i"), Path("l")) for i in range(total))
        chosen = ImageSet("some", ("a",), voc_colours(1), pairs, {0: 0}).every(step).limit(100)
        assert chosen.ids == tuple(f"{i * step:04}" for i in range(100))
