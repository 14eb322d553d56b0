"""Inputs from files, and data sets by name: `load` turns ``camvid:PATH?split=val`` into a `DataSet`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from segcertify.data.clouds.cloudset import CloudSet
from segcertify.data.dataset import DataSet
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import read_label
from segcertify.data.mixtures import mixture
from segcertify.data.reading import Input, read_input
from segcertify.data.scene import Scene
from segcertify.data.sets import camvid, cityscapes, cloud_folder, image_folder, pascal_context, pets, shapenet, shapes
from segcertify.errors import InputError, unknown
from segcertify.specs import FLAG, NAMES, Option, parse
from segcertify.storage.reading import expanded

__all__ = [
    "DATA_SETS", "CloudSet", "DataSet", "ImageSet", "Input", "Scene", "load", "mixture", "read_input", "read_label",
]  # fmt: skip


@dataclass(frozen=True)
class Source:
    """How a data set is loaded: ``load(root, split, **options)``, or ``load(split, **options)`` if it has no folder."""

    load: Callable[..., DataSet]
    options: Mapping[str, Option] = field(default_factory=dict)
    folder: bool = True


POINTS = Option("NUMBER (or all)", lambda text: None if text == "all" else int(text))
GLOBS = Option("GLOB,GLOB,...", NAMES.read)
COMMON = {"split": Option("NAME (or NAME+NAME)"), "only": GLOBS, "without": GLOBS}
"""The options that every data set takes."""

DATA_SETS: dict[str, Source] = {
    "cityscapes": Source(cityscapes.load),
    "pascal-context": Source(pascal_context.load, {"order": Option(" or ".join(pascal_context.ORDERS))}),
    "camvid": Source(camvid.load),
    "pets": Source(pets.load),
    "folder": Source(image_folder.load),
    "shapenet": Source(shapenet.load, {"category": NAMES, "normals": FLAG, "points": POINTS, "available": FLAG}),
    "clouds": Source(cloud_folder.load, {"normals": FLAG, "points": POINTS}),
    "shapes": Source(shapes.load, shapes.OPTIONS, folder=False),
}


def load(spec: str, *, split: str | None = None) -> DataSet:
    """The data set that a spec names: ``NAME:PATH`` or ``NAME:PATH?split=SPLIT&only=GLOBS&without=GLOBS``.

    Names are the keys of ``DATA_SETS``; each module says what its folder looks like and which further options there
    are. Without a split it is the one to evaluate on (``val``; all of ``pets``; ``test`` of ``shapenet``);
    ``train+val`` joins several. ``only`` and then ``without`` choose scenes by name, with globs between commas
    (`DataSet.only`): a fold of the training set is ``camvid:PATH?split=train&without=0006R0*``. Folders, names and
    pairs of files are checked now, what is in them when a scene is read.
    """
    parsed = parse(spec)
    source = DATA_SETS.get(parsed.scheme)
    forms = {name: f"{name}:PATH" if each.folder else f"{name}:" for name, each in DATA_SETS.items()}
    if source is None:
        raise unknown("data set", parsed.scheme, forms, forms=forms.values())
    if source.folder and not parsed.target:
        raise InputError(f"{spec!r} names no folder: write {forms[parsed.scheme]}, such as camvid:data/camvid")
    if parsed.target and not source.folder:
        raise InputError(
            f"{parsed.scheme} has no folder, but {spec!r} names {parsed.target!r}: "
            f"leave it out, as in {parsed.scheme}:?OPTION=VALUE"
        )
    options = parsed.read({**COMMON, **source.options})
    asked, only, without = (options.pop(name, None) for name in COMMON)
    if split is not None and asked is not None and split != asked:
        raise InputError(f"{spec!r} asks for the split {asked!r}, but split={split!r} was given too: say it once")
    split = asked if split is None else split
    splits = [None] if split is None else split.split("+")
    if "" in splits:
        raise InputError(f"the split {split!r} has a part without a name: write one name, or several such as train+val")
    root = [expanded(parsed.target)] if source.folder else []
    first, *others = (source.load(*root, each, **options) for each in splits)
    scenes = first.joined(*others)
    scenes = scenes if only is None else scenes.only(*only)
    return scenes if without is None else scenes.without(*without)
