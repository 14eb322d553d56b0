"""Resize: an image and its labels at another size."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from segcertify.data.label_codes import Target
from segcertify.errors import InputError, require_integer
from segcertify.resampling import ANTIALIASED, resampled, resize_norm
from segcertify.storage import limits

Size = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class Resize:
    """The change of an image from one size to another, by one of `segcertify.resampling.METHODS`.

    It is part of the function that is certified: a linear map before the noise. A change of the file by so much
    becomes one of at most `norm` times as much.
    """

    before: Size
    after: Size
    method: str = ANTIALIASED

    def __post_init__(self) -> None:
        if self.after[0] * self.after[1] > limits.PIXELS or max(self.after) > limits.SIDE:
            size = f"{self.after[0]} x {self.after[1]} pixels, but at most {limits.PIXELS:,} pixels"
            raise InputError(
                f"an image would be resized to {size}, and {limits.SIDE:,} on a side, are read: ask for a smaller size"
            )

    @classmethod
    def to_short_side(cls, before: Size, short_side: int, method: str = ANTIALIASED) -> Self:
        """The change that gives the shorter side ``short_side`` pixels and keeps the ratio of the sides.

        >>> Resize.to_short_side((300, 451), 160)
        Resize(before=(300, 451), after=(160, 241), method='antialiased')
        """
        if require_integer("short_side", short_side) > limits.PIXELS:
            raise InputError(f"short_side must be at most {limits.PIXELS:,} pixels, but got {short_side!r:.40}")
        factor = short_side / min(before)
        return cls(before, (max(1, round(before[0] * factor)), max(1, round(before[1] * factor))), method)

    def norm(self, norm: str = "l2") -> float:
        """The factor by which perturbations grow at most, rounded up."""
        return resize_norm(self.before, self.after, self.method, norm)

    def image(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Colours (height, width, 3) of 8 bits in [0, 1], resized, as (3, height, width).

        They are resized in double precision, and only the result is rounded to single: 8 bits would put steps into
        the function, which no norm bounds.
        """
        colours = resampled(pixels, self.after, self.method)
        colours /= 255
        return np.ascontiguousarray(colours.transpose(2, 0, 1), np.float32)

    def labels(self, labels: Target) -> Target:
        """Labels (height, width): those of the nearest pixels."""
        return np.asarray(Image.fromarray(labels).resize(self.after[::-1], Image.Resampling.NEAREST))
