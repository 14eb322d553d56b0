"""Pascal Context [Mottaghi2014] in the folders of mmsegmentation: 59 classes, 480 x 480 pixels."""

from pathlib import Path

from segcertify.data.files import first_folder
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files
from segcertify.data.label_codes import IGNORE
from segcertify.errors import InputError
from segcertify.figures.palette import voc_colours

CLASSES = (
    "aeroplane", "bag", "bed", "bedclothes", "bench", "bicycle", "bird", "boat", "book", "bottle", "building",
    "bus", "cabinet", "car", "cat", "ceiling", "chair", "cloth", "computer", "cow", "cup", "curtain", "dog",
    "door", "fence", "floor", "flower", "food", "grass", "ground", "horse", "keyboard", "light", "motorbike",
    "mountain", "mouse", "person", "plate", "platform", "pottedplant", "road", "rock", "sheep", "shelves",
    "sidewalk", "sign", "sky", "snow", "sofa", "table", "track", "train", "tree", "truck", "tvmonitor", "wall",
    "water", "window", "wood",
)  # fmt: skip
"""The classes in the order of the label values 1 .. 59, which is alphabetical."""


def load(root: Path, split: str | None = None) -> ImageSet:
    """Pascal Context, split ``val`` (5,105 images) by default, everything resized to 480 x 480 as in the paper.

    ``root`` is the folder that holds ``VOCdevkit/VOC2010``, or one of these two.
    There lie ``JPEGImages/ID.jpg``, ``SegmentationClassContext/ID.png`` (made by mmsegmentation's
    converter: 0 is background, 1 .. 59 the classes, the numbers that public HRNet models are trained on)
    and ``ImageSets/SegmentationContext/{train,val}.txt``, a list of IDs. Background is ignored, as is 255.

    ``.every(51).limit(100)`` gives 100 images as in the paper [Fischer2021, app. A]; without the limit there are 101.
    The paper resized with OpenCV, which picks slightly different pixels than Pillow.
    """
    split = split or "val"
    folders = [root / "VOCdevkit" / "VOC2010", root / "VOC2010", root]
    folder = first_folder(folders, "JPEGImages", cure="give the folder that holds VOCdevkit")
    ids = _listed(folder / "ImageSets" / "SegmentationContext", split)
    pairs = pair_files(folder / "JPEGImages", folder / "SegmentationClassContext", image_suffix=".jpg", ids=ids)
    colours = voc_colours(len(CLASSES) + 1)[1:]
    codes = {0: IGNORE, 255: IGNORE} | {value + 1: value for value in range(len(CLASSES))}
    return ImageSet(f"pascal-context/{split}", CLASSES, colours, pairs, codes, resize=(480, 480))


def _listed(lists: Path, split: str) -> list[str]:
    """The IDs of a split."""
    path = lists / f"{split}.txt"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in lists.glob("*.txt"))) or "none"
        raise InputError(
            f"no list of the split {split!r} at {path} (lists there: {there}): "
            "make it with mmsegmentation's tools/dataset_converters/pascal_context.py"
        )
    ids = path.read_text(encoding="utf-8").split()
    if not ids:
        raise InputError(f"{path} lists no images: make it again")
    return ids
