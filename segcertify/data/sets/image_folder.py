"""Any folder of images and label PNGs, described by a small ``dataset.toml``."""

from pathlib import Path

from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import pair_files
from segcertify.data.images.resize import Size
from segcertify.data.sets.dataset_toml import DatasetToml
from segcertify.errors import InputError
from segcertify.storage import limits

_KEYS = ("images", "labels", "image_suffix", "label_suffix", "resize")


def load(root: Path, split: str | None = None) -> ImageSet:
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
    toml = DatasetToml(root, _KEYS, see="segcertify.data.sets.image_folder")
    name, (images, labels) = toml.folders(split, "images", "labels")
    suffixes = toml.texts("image_suffix", [".jpg", ".jpeg", ".png"])
    pairs = pair_files(images, labels, image_suffix=suffixes, label_suffix=toml.text("label_suffix", ".png"))
    return ImageSet(name, toml.classes, toml.colours(), pairs, toml.codes(), resize=_size(toml))


def _size(toml: DatasetToml) -> Size | None:
    """Height and width, if given."""
    size = toml.entries.get("resize")
    if size is None:
        return None
    if not isinstance(size, list) or len(size) != 2 or 0 in size:
        raise InputError(f"{toml.path}: resize must be [height, width], but got {size!r}")
    height, width = (toml.integer("resize", side) for side in size)
    if height * width > limits.PIXELS or max(height, width) > limits.SIDE:
        raise InputError(
            f"{toml.path}: resize asks for {height} x {width} pixels, but at most {limits.PIXELS:,} are read, and "
            f"{limits.SIDE:,} on a side"
        )
    return height, width
