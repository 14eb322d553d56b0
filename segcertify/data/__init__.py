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

_OPTIONS = {"split": "split=NAME (or NAME+NAME)", "only": "only=GLOB,GLOB,...", "without": "without=GLOB,GLOB,..."}
"""What may follow the question mark of a spec, and how it is written."""


def load(spec: str, *, split: str | None = None) -> DataSet:
    """The data set that a spec names: ``NAME:PATH`` or ``NAME:PATH?split=SPLIT&only=GLOBS&without=GLOBS``.

    Names are the keys of ``DATA_SETS``; each module says what its folder looks
    like. Without a split it is the one to evaluate on (``val``; all of ``pets``);
    ``train+val`` joins several. ``only`` and then ``without`` choose scenes by
    name, with globs between commas (`DataSet.only`): a fold of the training set
    is ``camvid:PATH?split=train&without=0006R0*``.
    Folders, names and pairs of files are checked now, pixels when a scene is read.
    """
    name, _, rest = spec.partition(":")
    path, _, query = rest.partition("?")
    if name not in DATA_SETS or not path:
        forms = ", ".join(f"{known}:PATH" for known in DATA_SETS)
        raise InputError(f"unknown data set {spec!r}: expected one of {forms}, such as camvid:data/camvid?split=val")
    options = _options(spec, query)
    asked = options.get("split")
    if split is not None and asked is not None and split != asked:
        raise InputError(f"{spec!r} asks for the split {asked!r}, but split={split!r} was given too: say it once")
    splits = _splits(asked if split is None else split)
    first, *others = (DATA_SETS[name](Path(path).expanduser(), each) for each in splits)
    scenes = first.joined(*others)
    if "only" in options:
        scenes = scenes.only(*options["only"].split(","))
    if "without" in options:
        scenes = scenes.without(*options["without"].split(","))
    return scenes


def _options(spec: str, query: str) -> dict[str, str]:
    """The options after the question mark, known ones only, where a plus sign is a plus sign."""
    listed = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    for key, value in listed:
        if key not in _OPTIONS:
            raise InputError(f"unknown option {key!r} in {spec!r}: use {', '.join(_OPTIONS.values())}")
        if not value:
            raise InputError(f"{key} has no value in {spec!r}: write {_OPTIONS[key]}, or leave it out")
    options = dict(listed)
    if len(options) < len(listed):
        raise InputError(f"{spec!r} gives an option twice: say it once, several splits as A+B, several globs as A,B")
    return options


def _splits(text: str | None) -> list[str | None]:
    """The splits that are joined by plus signs; None is the data set's own choice."""
    if text is None:
        return [None]
    parts: list[str | None] = [*text.split("+")]
    if "" in parts:
        raise InputError(f"the split {text!r} has a part without a name: write one name, or several such as train+val")
    return parts
