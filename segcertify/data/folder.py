"""Any folder of images and label PNGs, described by a small ``dataset.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segcertify.data.images import Size, pair
from segcertify.data.scene import IGNORE, Bytes, DataSet, voc_colours
from segcertify.errors import InputError

_KEYS = (
    "name", "images", "labels", "image_suffix", "label_suffix", "classes", "colours", "ignore", "resize", "label_map",
)  # fmt: skip
_REQUIRED = ("classes",)
_NUMBER, _TEXT = "a whole number", "a string"


def load(root: str | os.PathLike[str], split: str | None = None) -> DataSet:
    """The data set that ``root/dataset.toml`` describes; only ``classes`` is required::

        name = "my pictures"                   # by default the folder's name
        images = "{split}/images"              # folders below root; {split} is filled in ("val" by default)
        labels = "{split}/labels"
        image_suffix = [".jpg", ".png"]        # an image is images/ID + suffix; one or several
        label_suffix = "_mask.png"             # its label is labels/ID + suffix
        classes = ["background", "road"]       # label values 0, 1, ... unless there is a label_map
        colours = [[0, 0, 0], [128, 64, 128]]  # of the classes, 0 .. 255
        ignore = 255                           # one value or several: no ground truth there
        resize = [480, 480]                    # height, width: images bilinearly, labels to the nearest pixel

        [label_map]                            # label value = class, where values are not 0, 1, ...
        7 = "road"
        0 = "background"

    Every image needs a label of its size, every label an image, and a label
    value that is neither a class nor ignored is an error.
    """
    root = Path(root).expanduser()
    path = root / "dataset.toml"
    config = _read(path)
    classes = tuple(_texts(path, "classes", config["classes"]))
    if len(set(classes)) < len(classes):
        raise InputError(f"{path}: classes must be different, but got {list(classes)}")
    images, labels = (_text(path, key, config.get(key, key)) for key in ("images", "labels"))
    divided = "{split}" in images + labels
    if split and not divided:
        raise InputError(f'{path} knows no splits, but got split={split!r}: write images = "{{split}}/images"')
    split = split or "val"
    name = _text(path, "name", config.get("name", root.resolve().name))
    return DataSet(
        name=f"{name}/{split}" if divided else name,
        classes=classes,
        colours=_colours(path, config.get("colours"), len(classes)),
        pairs=pair(
            root / images.replace("{split}", split),
            root / labels.replace("{split}", split),
            image_suffix=tuple(_texts(path, "image_suffix", config.get("image_suffix", [".jpg", ".jpeg", ".png"]))),
            label_suffix=_text(path, "label_suffix", config.get("label_suffix", ".png")),
        ),
        codes=_codes(path, config, classes),
        resize=_size(path, config.get("resize")),
    )


def _read(path: Path) -> dict[str, Any]:
    """The file's entries, known ones only."""
    if not path.is_file():
        raise InputError(f"no file at {path}: write one with at least classes = [...] (see segcertify.data.folder)")
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML ({error}): correct it") from None
    if unknown := sorted(set(config) - set(_KEYS)):
        raise InputError(f"{path} has an unknown entry {unknown[0]!r}: use {', '.join(_KEYS)}")
    if missing := [key for key in _REQUIRED if key not in config]:
        raise InputError(f'{path} lacks the entry {missing[0]!r}: add, for example, classes = ["background", "road"]')
    return config


def _codes(path: Path, config: Mapping[str, Any], classes: Sequence[str]) -> dict[int, int]:
    """What each label value stands for."""
    listed = config.get("label_map")
    codes = {value: value for value in range(len(classes))} if listed is None else {}
    for key, name in _table(path, listed).items():
        if not key.isdecimal() or name not in classes:
            raise InputError(
                f"{path}: label_map takes a label value and one of the classes {', '.join(classes)}, "
                f"but has {key} = {name!r}"
            )
        codes[_integer(path, "label_map", int(key), 65535)] = classes.index(name)
    ignore = config.get("ignore", [])
    for value in ignore if isinstance(ignore, list) else [ignore]:
        if _integer(path, "ignore", value, 65535) in codes:
            raise InputError(
                f"{path}: the value {value} is ignored and also the class {classes[codes[value]]!r}: "
                "take one away, or say with a label_map which value is which class"
            )
        codes[value] = IGNORE
    return codes


def _colours(path: Path, listed: Any, count: int) -> Bytes:
    """A colour per class."""
    if listed is None:
        return voc_colours(count)
    if not isinstance(listed, list) or len(listed) != count:
        raise InputError(f"{path}: colours must hold one [red, green, blue] for each of {count} classes")
    for colour in listed:
        if not isinstance(colour, list) or len(colour) != 3:
            raise InputError(f"{path}: a colour is [red, green, blue], but got {colour!r}")
        for part in colour:
            _integer(path, "colours", part, 255)
    return np.array(listed, np.uint8)


def _size(path: Path, size: Any) -> Size | None:
    """Height and width, if given."""
    if size is None:
        return None
    if not isinstance(size, list) or len(size) != 2 or 0 in size:
        raise InputError(f"{path}: resize must be [height, width], but got {size!r}")
    return _integer(path, "resize", size[0], 65535), _integer(path, "resize", size[1], 65535)


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{path}: {key} must be {_TEXT}, but got {value!r}")
    return value


def _texts(path: Path, key: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) and value else [value]
    return [_text(path, key, entry) for entry in values]


def _integer(path: Path, key: str, value: Any, largest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise InputError(f"{path}: {key} must be {_NUMBER} in 0 .. {largest}, but got {value!r}")
    return value


def _table(path: Path, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise InputError(f"{path}: label_map must be a table such as [label_map], but got {value!r}")
    return value or {}
