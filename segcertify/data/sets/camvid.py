"""CamVid [Brostow2009] with 11 classes: road scenes of 360 x 480 pixels."""

from pathlib import Path

from segcertify.data.files import split_folder
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files

COLOURS = {
    "sky": (128, 128, 128), "building": (128, 0, 0), "pole": (192, 192, 128), "road": (128, 64, 128),
    "pavement": (0, 0, 192), "tree": (128, 128, 0), "sign": (192, 128, 128), "fence": (64, 64, 128),
    "car": (64, 0, 128), "pedestrian": (64, 64, 0), "bicyclist": (0, 128, 192),
}  # fmt: skip
"""The classes in the order of the label values 0 .. 10, with CamVid's own colours."""


def load(root: Path, split: str | None = None) -> ImageSet:
    """CamVid, split ``val`` by default: ``root/SPLIT/images/NAME.jpg`` and ``root/SPLIT/labels/NAME.png``.

    Label values 0 .. 10 are the classes, 11 is ignored. A name starts with its
    drive (``0001TP_``, ``0006R0_``, ``0016E5_``), whose frames look alike: folds
    for training split by drive, with ``.only("0006R0*")`` and ``.without("0006R0*")``.
    """
    split = split or "val"
    folder = split_folder(root, split)
    pairs = pair_files(folder / "images", folder / "labels")
    return ImageSet.of_colours(f"camvid/{split}", COLOURS, pairs, ignore=len(COLOURS))
