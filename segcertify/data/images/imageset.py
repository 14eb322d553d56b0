"""ImageSet: images and label images in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

from segcertify.data.dataset import DataSet
from segcertify.data.images.reading import Pair, Size, image_size, read_image, read_label
from segcertify.data.label_codes import IGNORE, Target, decode, require_codes
from segcertify.data.scene import Scene
from segcertify.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(DataSet):
    """Images with ground truth, in a fixed order, each read from its files when asked for.

    That the files are there was checked when this was made; what is in them is
    checked when a scene is read, or for all of them by `check`.

    Parameters
    ----------
    name, classes, colours
        As of every `DataSet`.
    items : tuple of Pair
        Image and label files.
    codes : mapping
        The class, or IGNORE, for each value that a label file may hold. Any other value is an error.
    resize : (height, width), optional
        Images are resized bilinearly, labels to the nearest pixel (both by Pillow).
    """

    items: tuple[Pair, ...]
    codes: Mapping[int, int]
    resize: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_codes(self.name, self.codes, len(self.classes))

    def __getitem__(self, index: int) -> Scene:
        """Read one scene; an error names the file that is wrong and what to do."""
        pair = self.items[index]
        target = self._target(pair)
        if self.resize is not None:
            target = np.asarray(Image.fromarray(target).resize(self.resize[::-1], Image.Resampling.NEAREST))
        valid = target != IGNORE
        return Scene(pair.id, read_image(pair.image, resize=self.resize), np.where(valid, target, 0), valid)

    def check(self) -> None:
        """Read every label and every image's header; an error names the first bad file.

        Images are not decoded: one that is cut off is found when its scene is read.
        """
        for pair in self.items:
            self._target(pair)

    def _target(self, pair: Pair) -> Target:
        """The classes in a label file, at its own size, IGNORE where it says nothing."""
        raw = read_label(pair.label)
        size = image_size(pair.image)
        if raw.shape != size:
            raise InputError(
                f"{pair.label} is {raw.shape[0]} x {raw.shape[1]} pixels, but {pair.image} is {size[0]} x {size[1]}: "
                "a label needs its image's size"
            )
        return decode(raw, self.codes, where=lambda _: f"{pair.label}")

    def _details(self) -> str:
        return f", resized to {self.resize[0]} x {self.resize[1]}" if self.resize else ""
