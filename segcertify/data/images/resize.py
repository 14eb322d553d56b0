"""Resize: an image and its labels at another size, by Pillow."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from PIL import Image

from segcertify.data.label_codes import Target
from segcertify.errors import require_integer

Size = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class Resize:
    """The change of an image from one size to another.

    It is part of what is certified: a radius speaks of the resized image.
    """

    before: Size
    after: Size

    @classmethod
    def to_short_side(cls, before: Size, short_side: int) -> Self:
        """The change that gives the shorter side ``short_side`` pixels and keeps the ratio of the sides.

        >>> Resize.to_short_side((300, 451), 160)
        Resize(before=(300, 451), after=(160, 241))
        """
        factor = require_integer("short_side", short_side) / min(before)
        return cls(before, (max(1, round(before[0] * factor)), max(1, round(before[1] * factor))))

    def image(self, image: Image.Image) -> Image.Image:
        """An image, resized bilinearly."""
        return image.resize(self.after[::-1], Image.Resampling.BILINEAR)

    def labels(self, labels: Target) -> Target:
        """Labels (height, width): those of the nearest pixels."""
        return np.asarray(Image.fromarray(labels).resize(self.after[::-1], Image.Resampling.NEAREST))
