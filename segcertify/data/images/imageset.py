"""ImageSet: images and label images in files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from segcertify.data.dataset import DataSet
from segcertify.data.images.reading import ImageFiles, image_size, read_image, read_target, require_size
from segcertify.data.images.resize import Resize, Size
from segcertify.data.label_codes import IGNORE, Target, require_codes
from segcertify.data.scene import Scene
from segcertify.errors import require_integer
from segcertify.preprocessing import Preprocessing, of_image
from segcertify.resampling import ANTIALIASED


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(DataSet):
    """Images with ground truth, in a fixed order, each read from its files when asked for.

    That the files are there was checked when this was made; what is in them is
    checked when a scene is read, or for all of them by `check`.

    ``codes`` give the class, or IGNORE, of each value that a label file may hold; any
    other value is an error. ``resize`` is the size (height, width) that scenes are
    brought to, or the number of pixels on their shorter side (`Resize`), at most so many
    with ``shrinks``.
    """

    items: tuple[ImageFiles, ...]
    codes: Mapping[int, int]
    resize: Size | int | None = None
    shrinks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_codes(self.name, self.codes, len(self.classes))

    @classmethod
    def of_colours(
        cls, name: str, colours: Mapping[str, tuple[int, int, int]], items: tuple[ImageFiles, ...], *, ignore: int
    ) -> Self:
        """Images whose label values 0, 1, ... are the classes that have these colours; the value ``ignore`` is none."""
        codes = {value: value for value in range(len(colours))} | {ignore: IGNORE}
        return cls(name, tuple(colours), np.array([*colours.values()], np.uint8), items, codes)

    def __getitem__(self, index: int) -> Scene:
        """Read one scene."""
        pair = self.items[index]
        target = self._target(pair)
        resize = self._change(target.shape)
        x = read_image(pair.image, resize=resize)
        preprocessing = of_image(target.shape)
        if resize is not None:
            preprocessing = of_image(target.shape, resize.after, resize.method)
            target = resize.labels(target)
        valid = target != IGNORE
        return Scene(pair.id, x, np.where(valid, target, 0), valid, preprocessing=preprocessing)

    @property
    def preprocessing(self) -> Preprocessing:
        """Every image is divided by 255, and perhaps resized."""
        return of_image(None, self.resize, ANTIALIASED) | ({"shrinks": True} if self.shrinks else {})

    def shape(self, index: int) -> tuple[int, ...]:
        """Height and width of a scene, from the headers of its two files; their pixels are not read."""
        pair = self.items[index]
        size = image_size(pair.image)
        require_size(pair.label, image_size(pair.label), image=pair.image, size=size)
        resize = self._change(size)
        return size if resize is None else resize.after

    def check(self) -> None:
        """Read every label and every image's header; an error names the first bad file.

        Images are not decoded: one that is cut off is found when its scene is read.
        """
        for pair in self.items:
            self._target(pair)

    def resized(self, short_side: int) -> Self:
        """The same scenes with ``short_side`` pixels on their shorter side.

        Images are resized as `Resize` does by default, labels to the nearest pixel.
        """
        require_integer("short_side", short_side)
        size = Resize.to_short_side(self.resize, short_side).after if isinstance(self.resize, tuple) else short_side
        return replace(self, name=f"{self.name} at short side {short_side}", resize=size, shrinks=False)

    def shrunk(self, short_side: int) -> Self:
        """The same scenes with at most ``short_side`` pixels on their shorter side: smaller ones stay as they are."""
        found = self.resized(short_side)
        if isinstance(self.resize, tuple):
            return found if min(self.resize) > short_side else self
        return replace(found, name=f"{self.name} at short side up to {short_side}", shrinks=True)

    def _target(self, pair: ImageFiles) -> Target:
        """The classes in a label file, at its own size, IGNORE where it says nothing."""
        return read_target(pair.label, self.codes, image=pair.image, size=image_size(pair.image))

    def _change(self, size: Size) -> Resize | None:
        """How a scene of this size is resized."""
        if isinstance(self.resize, int):
            fits = self.shrinks and min(size) <= self.resize
            return None if fits else Resize.to_short_side(size, self.resize)
        return None if self.resize is None else Resize(size, self.resize)

    def _details(self) -> str:
        return f", resized to {self.resize[0]} x {self.resize[1]}" if isinstance(self.resize, tuple) else ""
