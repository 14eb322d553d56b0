"""Inputs from files, and data sets by name: `load` turns ``camvid:PATH?split=val`` into a `DataSet`."""

from __future__ import annotations

from segcertify.data import shapes
from segcertify.data.clouds.cloudset import CloudSet
from segcertify.data.dataset import DataSet
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import read_input, read_label
from segcertify.data.mixture import mixture
from segcertify.data.scene import Scene
from segcertify.data.sets import camvid, cityscapes, cloud_folder, image_folder, pascal_context, pets, shapenet
from segcertify.data.spec import AVAILABLE, CATEGORY, NORMALS, POINTS, Source, parse
from segcertify.errors import InputError

__all__ = ["DATA_SETS", "CloudSet", "DataSet", "ImageSet", "Scene", "load", "mixture", "read_input", "read_label"]

DATA_SETS: dict[str, Source] = {
    "cityscapes": Source(cityscapes.load),
    "pascal-context": Source(pascal_context.load),
    "camvid": Source(camvid.load),
    "pets": Source(pets.load),
    "folder": Source(image_folder.load),
    "shapenet": Source(
        shapenet.load, {"category": CATEGORY, "normals": NORMALS, "points": POINTS, "available": AVAILABLE}
    ),
    "clouds": Source(cloud_folder.load, {"normals": NORMALS, "points": POINTS}),
    "shapes": Source(shapes.load, shapes.OPTIONS, folder=False),
}


def load(spec: str, *, split: str | None = None) -> DataSet:
    """The data set that a spec names: ``NAME:PATH`` or ``NAME:PATH?split=SPLIT&only=GLOBS&without=GLOBS``.

    Names are the keys of ``DATA_SETS``; each module says what its folder looks
    like and which further options there are. Without a split it is the one to
    evaluate on (``val``; all of ``pets``; ``test`` of ``shapenet``);
    ``train+val`` joins several. ``only`` and then ``without`` choose scenes by
    name, with globs between commas (`DataSet.only`): a fold of the training set
    is ``camvid:PATH?split=train&without=0006R0*``.
    Folders, names and pairs of files are checked now, what is in them when a scene is read.
    """
    name, path, options, common = parse(spec, DATA_SETS)
    asked = common.get("split")
    if split is not None and asked is not None and split != asked:
        raise InputError(f"{spec!r} asks for the split {asked!r}, but split={split!r} was given too: say it once")
    source = DATA_SETS[name]
    root = [path] if source.folder else []
    first, *others = (source.load(*root, each, **options) for each in _splits(asked if split is None else split))
    scenes = first.joined(*others)
    if "only" in common:
        scenes = scenes.only(*common["only"])
    if "without" in common:
        scenes = scenes.without(*common["without"])
    return scenes


def _splits(text: str | None) -> list[str | None]:
    """The splits that are joined by plus signs; None is the data set's own choice."""
    if text is None:
        return [None]
    parts: list[str | None] = [*text.split("+")]
    if "" in parts:
        raise InputError(f"the split {text!r} has a part without a name: write one name, or several such as train+val")
    return parts
