"""Cityscapes [Cordts2016]: street scenes of 1024 x 2048 pixels, 19 of its 34 labels evaluated."""

from pathlib import Path

import numpy as np

from segcertify.data.files import split_folder
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files
from segcertify.data.label_codes import IGNORE
from segcertify.errors import InputError

_LABELS = {
    "road": (7, (128, 64, 128)), "sidewalk": (8, (244, 35, 232)), "building": (11, (70, 70, 70)),
    "wall": (12, (102, 102, 156)), "fence": (13, (190, 153, 153)), "pole": (17, (153, 153, 153)),
    "traffic light": (19, (250, 170, 30)), "traffic sign": (20, (220, 220, 0)), "vegetation": (21, (107, 142, 35)),
    "terrain": (22, (152, 251, 152)), "sky": (23, (70, 130, 180)), "person": (24, (220, 20, 60)),
    "rider": (25, (255, 0, 0)), "car": (26, (0, 0, 142)), "truck": (27, (0, 0, 70)), "bus": (28, (0, 60, 100)),
    "train": (31, (0, 80, 100)), "motorcycle": (32, (0, 0, 230)), "bicycle": (33, (119, 11, 32)),
}  # fmt: skip
"""The evaluated labels in the order of their train ids 0 .. 18, with the official ids and colours."""
_LARGEST_ID = 33


def load(root: Path, split: str | None = None) -> ImageSet:
    """Cityscapes from the official folders, split ``val`` (500 images) by default.

    ``root/leftImg8bit/SPLIT/CITY/*_leftImg8bit.png`` are the images and
    ``root/gtFine/SPLIT/CITY/*_gtFine_labelIds.png`` the labels. Labels that are not evaluated are ignored; a value
    that is no Cityscapes id is an error (``*_labelTrainIds.png`` under a wrong name would be one). Images are in the
    order of their names, as in the list that the paper's code reads: ``.every(5)`` gives the paper's 100 images
    [Fischer2021, app. A]. The paper says "test set"; the test labels are not public, and 500 / 5 = 100 fits ``val``.
    """
    split = split or "val"
    if split == "test":
        raise InputError("the labels of Cityscapes' test split are not public: use split='val' or 'train'")
    images, labels = split_folder(root / "leftImg8bit", split), root / "gtFine" / split
    pairs = pair_files(images, labels, image_suffix="_leftImg8bit.png", label_suffix="_gtFine_labelIds.png")
    items = tuple(pair._replace(id=Path(pair.id).name) for pair in pairs)  # a name starts with its city
    ids, colours = zip(*_LABELS.values(), strict=True)
    codes = dict.fromkeys(range(_LARGEST_ID + 1), IGNORE) | {value: train_id for train_id, value in enumerate(ids)}
    return ImageSet(f"cityscapes/{split}", tuple(_LABELS), np.array(colours, np.uint8), items, codes)
