"""The paper's axis-angle noise, whose radius proves nothing: only for setting our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from segcertify.errors import require_positive
from segcertify.noise.base import P, Stream, Tensor, above_half, concise, require_norm, round_down
from segcertify.noise.rotation import rotation_matrix, turn, turned_vectors

CAVEAT = "proves nothing: 3-D rotations do not add up"


@dataclass(frozen=True, repr=False)
class UnprovenAxisAngle:
    """A rotation about and by a vector of N(0, sigma^2 I), as in the paper [Fischer2021, app. B]. **No certificate.**

    The theorem that the paper uses needs two rotations in a row to be the
    rotation by the sum of their vectors. In three dimensions they are not, and
    labels of probability above p do change within the radius that is claimed here
    (the test of this module has one). For true certificates use `Rotation`, or
    `AxisRotation` about one axis. Votes and certificates with this noise cannot be saved.
    """

    additive: ClassVar[bool] = False
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", require_positive("sigma", self.sigma))

    __repr__ = concise

    @property
    def norm(self) -> str:
        """Not a distance between rotations."""
        return "axis-angle"

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        """What the paper claims, sigma Phi^-1(p) in the norm of the vector; it is not proved, and not true."""
        require_norm(self, norm)
        return round_down(self.sigma * special.ndtri(above_half(p)), p)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        """Copies of x, each turned about and by a vector of its own."""
        vectors = [self.sigma * stream.rng.standard_normal(3) for stream in streams]
        return turn(x, [rotation_matrix(vector, float(np.linalg.norm(vector))) for vector in vectors])

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Points (points, 3), or with normals (points, 6)."""
        turned_vectors(input_shape)

    def threat(self, norm: str) -> str:
        """What a claim with this noise must say."""
        return f"{norm} rotation vector (the paper's claim; it {CAVEAT})"
