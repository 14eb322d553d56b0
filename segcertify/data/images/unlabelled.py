"""Images without ground truth, to train on a model's own labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segcertify.data.files import find_files
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import ImageFiles, image_size
from segcertify.data.label_codes import Target
from segcertify.errors import InputError
from segcertify.figures.palette import Bytes

SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, eq=False, repr=False)
class UnlabelledSet(ImageSet):
    """Images whose every pixel is of class 0, for whoever labels them later."""

    def _target(self, pair: ImageFiles) -> Target:
        return np.zeros(image_size(pair.image), np.int32)


def unlabelled(folder: Path, classes: tuple[str, ...], colours: Bytes) -> UnlabelledSet:
    """All images in a folder and below it, for a model of these classes."""
    found = find_files(folder, SUFFIXES)
    if not found:
        raise InputError(f"no image ending in {', '.join(SUFFIXES)} in {folder}: check the path")
    items = tuple(ImageFiles(name, path, path) for name, path in sorted(found.items()))
    return UnlabelledSet(f"{folder.resolve().name} without labels", classes, colours, items, {0: 0})
