"""Oxford-IIIT Pet [Parkhi2012] as segmentation: background, cat, dog."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import ImageFiles, pair_files
from segcertify.data.label_codes import IGNORE
from segcertify.errors import InputError

COLOURS = {"background": (70, 70, 70), "cat": (238, 119, 51), "dog": (0, 119, 187)}
"""The classes in the order of the label values 0 .. 2."""

HELD_OUT = 10
"""Of this many images in a row, the first is in ``val`` and the others are in ``train``."""


def load(root: str | os.PathLike[str], split: str | None = None) -> ImageSet:
    """Oxford pets: ``root/images/NAME.jpg`` and ``root/labels/NAME.png``.

    Label values 0 .. 2 are the classes, 255 (the trimaps' border) is ignored.
    The folder holds the official ``trainval`` images, which is the default
    split; ``val`` is every tenth of them by name (so every breed has some) and
    ``train`` the rest, for training a model and looking at it on other images.
    """
    split = split or "trainval"
    if split not in _SPLITS:
        raise InputError(f"no split {split!r} in pets: use {', '.join(_SPLITS)}")
    root = Path(root).expanduser()
    pairs = pair_files(root / "images", root / "labels", image_suffix=(".jpg", ".png"), label_suffix=".png")
    return ImageSet(
        name=f"pets/{split}",
        classes=tuple(COLOURS),
        colours=np.array(list(COLOURS.values()), np.uint8),
        items=_SPLITS[split](pairs),
        codes={255: IGNORE} | {value: value for value in range(len(COLOURS))},
    )


_SPLITS: dict[str, Callable[[tuple[ImageFiles, ...]], tuple[ImageFiles, ...]]] = {
    "trainval": lambda pairs: pairs,
    "train": lambda pairs: tuple(p for i, p in enumerate(pairs) if i % HELD_OUT),
    "val": lambda pairs: pairs[::HELD_OUT],
}
