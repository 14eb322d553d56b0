"""Pascal Context [Mottaghi2014] in the folders of mmsegmentation: 59 classes, 480 x 480 pixels."""

import json
from pathlib import Path
from typing import Any

from segcertify.data.files import first_folder
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files
from segcertify.data.label_codes import IGNORE
from segcertify.errors import InputError, unknown
from segcertify.figures.palette import voc_colours
from segcertify.storage import limits
from segcertify.storage.reading import is_file, read_text

CLASSES = (
    "aeroplane", "bag", "bed", "bedclothes", "bench", "bicycle", "bird", "boat", "book", "bottle", "building",
    "bus", "cabinet", "car", "cat", "ceiling", "chair", "cloth", "computer", "cow", "cup", "curtain", "dog",
    "door", "fence", "floor", "flower", "food", "grass", "ground", "horse", "keyboard", "light", "motorbike",
    "mountain", "mouse", "person", "plate", "platform", "pottedplant", "road", "rock", "sheep", "shelves",
    "sidewalk", "sign", "sky", "snow", "sofa", "table", "track", "train", "tree", "truck", "tvmonitor", "wall",
    "water", "window", "wood",
)  # fmt: skip
"""The classes in the order of the label values 1 .. 59, which is alphabetical."""

ANNOTATIONS = "trainval_merged.json"
ORDERS = ("list", "json")


def load(root: Path, split: str | None = None, order: str = "list") -> ImageSet:
    """Pascal Context, split ``val`` (5,105 images) by default, everything resized to 480 x 480 as in the paper.

    ``root`` is the folder that holds ``VOCdevkit/VOC2010``, or one of these two.
    There lie ``JPEGImages/ID.jpg``, ``SegmentationClassContext/ID.png`` (made by mmsegmentation's
    converter: 0 is background, 1 .. 59 the classes, the numbers that public HRNet models are trained on)
    and ``ImageSets/SegmentationContext/{train,val}.txt``, a list of IDs. Background is ignored, as is 255.

    With ``order="json"`` the images come in the order of ``trainval_merged.json``, the file of PASCAL in Detail, which
    must lie beside ``JPEGImages``. The released code goes by it, while the converter sorts its lists. Then
    ``.every(51).limit(100)`` gives the paper's 100 images [Fischer2021, app. A]; without the limit there are 101. The
    paper resized with OpenCV, which picks slightly different pixels than Pillow.
    """
    split = split or "val"
    if order not in ORDERS:
        raise unknown("order", order, ORDERS, where=" of pascal-context")
    folders = [root / "VOCdevkit" / "VOC2010", root / "VOC2010", root]
    folder = first_folder(folders, "JPEGImages", cure="give the folder that holds VOCdevkit")
    if order == "json":
        ids, name = _annotated(folder / ANNOTATIONS, split), f"pascal-context/{split} in the order of {ANNOTATIONS}"
    else:
        ids, name = _listed(folder / "ImageSets" / "SegmentationContext", split), f"pascal-context/{split}"
    pairs = pair_files(folder / "JPEGImages", folder / "SegmentationClassContext", image_suffix=".jpg", ids=ids)
    colours = voc_colours(len(CLASSES) + 1)[1:]
    codes = {0: IGNORE, 255: IGNORE} | {value + 1: value for value in range(len(CLASSES))}
    return ImageSet(name, CLASSES, colours, pairs, codes, resize=(480, 480))


def _listed(lists: Path, split: str) -> list[str]:
    """The IDs of a split."""
    path = lists / f"{split}.txt"
    if not is_file(path):
        there = ", ".join(sorted(file.stem for file in lists.glob("*.txt"))) or "none"
        raise InputError(
            f"no list of the split {split!r} at {path} (lists there: {there}): "
            "make it with mmsegmentation's tools/dataset_converters/pascal_context.py"
        )
    ids = read_text(path, cure="make it again").split()
    if not ids:
        raise InputError(f"{path} lists no images: make it again")
    return ids


def _annotated(path: Path, split: str) -> list[str]:
    """The IDs of a split in the order of PASCAL in Detail's file, whose ``images`` have a name and a phase."""
    missing = f"no {path}: copy PASCAL in Detail's file there, or write order=list for the order of the lists"
    text = read_text(path, most=limits.DETAILS_BYTES, missing=missing, cure="download it again")
    try:
        content = json.loads(text, object_hook=_without_annotations)
        ids = [Path(image["file_name"]).stem for image in content["images"] if image["phase"] == split]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is not PASCAL in Detail's file ({error!r:.200}): download it again") from None
    if not ids:
        raise InputError(f"{path} has no images of the split {split!r}: use train or val")
    return ids


def _without_annotations(entry: dict[str, Any]) -> dict[str, Any] | None:
    """An object of the file if it is an image, or the whole: the annotations would fill gigabytes."""
    return entry if "images" in entry or "file_name" in entry else None
