"""Specs of data sets."""

from pathlib import Path

import pytest

from segcertify import InputError, data
from segcertify.data import Source
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import ImageFiles
from segcertify.figures.palette import voc_colours
from segcertify.specs import INTEGER


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kitti:here", r"unknown data set 'kitti': use cityscapes:PATH, pascal-context:PATH, camvid"),
        ("camvids:here", r"unknown data set 'camvids': did you mean 'camvid'\? Use cityscapes:PATH, "),
        ("camvid", "'camvid' names no folder: write camvid:PATH, such as camvid:data/camvid"),
        ("camvid:", "'camvid:' names no folder"),
        (
            "camvid:here?split=val&every=5",
            r"unknown option 'every' in 'camvid:here\?split=val&every=5': use split=NAME \(or NAME\+NAME\), "
            r"only=GLOB,GLOB,\.\.\. or without=GLOB,GLOB,\.\.\.$",
        ),
        ("camvid:here?val", "unknown option 'val'"),
        ("camvid:here?split=", r"split has no value in .*: write split=NAME \(or NAME\+NAME\), or leave it out"),
        ("camvid:here?only", r"only has no value in .*: write only=GLOB,GLOB,\.\.\., or leave it out"),
        ("camvid:here?without=a*&without=b*", "gives the option 'without' twice: say it once, a list as A,B"),
        ("camvid:here?split=train&split=val", "gives the option 'split' twice: say it once, .* splits as A.B"),
        ("camvid:here?split=train+", r"the split 'train\+' has a part without a name: .* such as train\+val"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(InputError, match=message):
        data.load(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "shapenet:here?normal=true",
            r"unknown option 'normal' in .*: did you mean 'normals'\? Use split=NAME .*, category=NAME,NAME,\.\.\., "
            r"normals=true \(or false\), points=NUMBER \(or all\) or available=true \(or false\)$",
        ),
        ("clouds:here?available=true", r"unknown option 'available' in .*normals=true .* or points=NUMBER \(or all\)$"),
        ("camvid:here?normals=true", r"unknown option 'normals' in .* or without=GLOB,GLOB,\.\.\.$"),
        ("shapenet:here?normals=yes", r"normals cannot be 'yes' in '.*normals=yes': write normals=true \(or false\)$"),
        ("shapenet:here?points=many", r"points cannot be 'many' in .*: write points=NUMBER \(or all\)"),
        ("shapenet:here?points=1.5", r"points cannot be '1.5'"),
        ("shapenet:here?category", r"category has no value in .*: write category=NAME,NAME,\.\.\., or leave it out"),
        ("shapenet:here?points=1&points=2", "gives the option 'points' twice"),
    ],
)
def test_options_differ_by_data_set(spec, message):
    with pytest.raises(InputError, match=message):
        data.load(spec)


def made(split=None, *, count=3):
    """A data set without a folder."""
    files = tuple(ImageFiles(f"{split}-{i}", Path("i"), Path("l")) for i in range(count))
    return ImageSet(f"made/{split}", ("a",), voc_colours(1), files, {0: 0})


def test_a_source_without_a_folder(monkeypatch):
    monkeypatch.setitem(data.DATA_SETS, "made", Source(made, {"count": INTEGER}, folder=False))
    assert data.load("made:?count=2&split=train").ids == ("train-0", "train-1")
    assert len(data.load("made:")) == len(data.load("made")) == 3
    assert data.load("made:?split=a+b&only=*-2").ids == ("a-2", "b-2")
    with pytest.raises(
        InputError, match=r"made has no folder, but 'made:here' names 'here': leave it out, as in made:\?"
    ):
        data.load("made:here")
    with pytest.raises(InputError, match=r"unknown data set 'other': use cityscapes:PATH, .*, shapes: or made:$"):
        data.load("other:")
