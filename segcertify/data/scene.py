"""Scene: one image or point cloud with its ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segcertify.arrays import BoolArray
from segcertify.data.label_codes import Target
from segcertify.errors import InputError


@dataclass(frozen=True, eq=False)
class Scene:
    """An image or a point cloud, and its ground truth.

    ``x`` of an image (3, height, width) holds floats in [0, 1], of a cloud
    (points, columns) a row for each point: x, y, z, then what else is known of
    it. ``target``, (height, width) or (points,), holds a class for each pixel
    or point; ``valid`` is False where the ground truth says "ignore"
    (``target`` is 0 there, and metrics leave the component out). ``category``
    is what a cloud shows, where the data set knows: ``"Airplane"``.
    """

    id: str
    x: npt.NDArray[np.float32]
    target: Target
    valid: BoolArray
    category: str = ""

    def __post_init__(self) -> None:
        extent = {3: self.x.shape[1:], 2: self.x.shape[:1]}.get(self.x.ndim)
        if not extent == self.target.shape == self.valid.shape:
            raise InputError(
                f"scene {self.id!r}: x must be (3, height, width) with target and valid (height, width), "
                "or (points, columns) with target and valid (points,), "
                f"but got {self.x.shape}, {self.target.shape} and {self.valid.shape}"
            )

    def __repr__(self) -> str:
        size = " x ".join(str(side) for side in self.target.shape)
        what = f"{size} {'points' if self.target.ndim == 1 else 'pixels'}"
        kind = f"{self.category}, " if self.category else ""
        return f"Scene({self.id!r}: {kind}{what}, {self.valid.mean():.1%} with ground truth)"
