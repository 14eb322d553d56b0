"""Scene: one image or point cloud with its ground truth."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segcertify.arrays import BoolArray
from segcertify.data.domain import Domain, domain_of
from segcertify.data.label_codes import IGNORE, Target
from segcertify.errors import InputError
from segcertify.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class Scene:
    """An image or a point cloud, and its ground truth.

    ``x`` of an image (3, height, width) holds floats in [0, 1], of a cloud (points, columns) a row for each point: x,
    y, z, then what else is known of it. ``target``, (height, width) or (points,), holds a class for each pixel or
    point; ``valid`` is False where the ground truth says "ignore" (``target`` is 0 there, and metrics leave the
    component out). ``category`` is what a cloud shows, where the data set knows: ``"Airplane"``; ``preprocessing`` what
    was done to its file's numbers (`segcertify.preprocessing`).
    """

    id: str
    x: npt.NDArray[np.float32]
    target: Target
    valid: BoolArray
    category: str = ""
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        if not self.domain.components(self.x.shape) == self.target.shape == self.valid.shape:
            raise InputError(
                f"scene {self.id!r}: x must be (3, height, width) with target and valid (height, width), "
                "or (points, columns) with target and valid (points,), "
                f"but got {self.x.shape}, {self.target.shape} and {self.valid.shape}"
            )

    @property
    def domain(self) -> Domain:
        """Image or cloud."""
        return domain_of(self.x.shape)

    @property
    def labels(self) -> Target:
        """The target, with IGNORE where the ground truth says nothing."""
        return np.where(self.valid, self.target, IGNORE)

    def __repr__(self) -> str:
        size = " x ".join(str(side) for side in self.target.shape)
        kind = f"{self.category}, " if self.category else ""
        return f"Scene({self.id!r}: {kind}{size} {self.domain.unit}, {self.valid.mean():.1%} with ground truth)"
