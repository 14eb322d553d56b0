"""Oxford-IIIT Pet [Parkhi2012] as segmentation: background, cat, dog."""

from pathlib import Path

from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files
from segcertify.errors import InputError

COLOURS = {"background": (70, 70, 70), "cat": (238, 119, 51), "dog": (0, 119, 187)}
"""The classes in the order of the label values 0 .. 2."""

HELD_OUT = 10
"""Of this many images in a row, the first is in ``val`` and the others are in ``train``."""


def load(root: Path, split: str | None = None) -> ImageSet:
    """Oxford pets: ``root/images/NAME.jpg`` and ``root/labels/NAME.png``.

    Label values 0 .. 2 are the classes, 255 (the trimaps' border) is ignored. The folder holds the official
    ``trainval`` images, which is the default split; ``val`` is every tenth of them by name (so every breed has some)
    and ``train`` the rest, for training a model and evaluating it on other images.
    """
    split, pairs = split or "trainval", pair_files(root / "images", root / "labels")
    train = tuple(pair for index, pair in enumerate(pairs) if index % HELD_OUT)
    splits = {"trainval": pairs, "train": train, "val": pairs[::HELD_OUT]}
    if split not in splits:
        raise InputError(f"no split {split!r} in pets: use {', '.join(splits)}")
    return ImageSet.of_colours(f"pets/{split}", COLOURS, splits[split], ignore=255)
