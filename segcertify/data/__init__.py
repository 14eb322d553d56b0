"""Inputs from files, and data sets by name: `load` turns ``camvid:PATH?split=val`` into a `DataSet`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

from segcertify.data import camvid, cityscapes, folder, pascal_context, pets
from segcertify.data.images import read_input, read_label
from segcertify.data.scene import DataSet, Scene
from segcertify.errors import InputError

__all__ = ["DATA_SETS", "DataSet", "Scene", "load", "read_input", "read_label"]

DATA_SETS: dict[str, Callable[[Path, str | None], DataSet]] = {
    "cityscapes": cityscapes.load,
    "pascal-context": pascal_context.load,
    "camvid": camvid.load,
    "pets": pets.load,
    "folder": folder.load,
}


def load(spec: str, *, split: str | None = None) -> DataSet:
    """The data set that a spec names: ``NAME:PATH`` or ``NAME:PATH?split=SPLIT``.

    Names are the keys of ``DATA_SETS``; each module says what its folder looks
    like. Without a split it is the one to evaluate on (``val``; all of ``pets``).
    Folders, names and pairs of files are checked now, pixels when a scene is read.
    """
    name, _, rest = spec.partition(":")
    path, _, query = rest.partition("?")
    if name not in DATA_SETS or not path:
        forms = ", ".join(f"{known}:PATH" for known in DATA_SETS)
        raise InputError(f"unknown data set {spec!r}: expected one of {forms}, such as camvid:data/camvid?split=val")
    options = dict(parse_qsl(query, keep_blank_values=True))
    asked = options.pop("split", None)
    if options or (query and asked is None):
        raise InputError(f"unknown option in {spec!r}: the only one is ?split=NAME")
    if split and asked and split != asked:
        raise InputError(f"{spec!r} asks for the split {asked!r}, but split={split!r} was given too: say it once")
    return DATA_SETS[name](Path(path).expanduser(), split or asked)
