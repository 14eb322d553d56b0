"""The paper's axis-angle noise, whose radius proves nothing: only for setting our numbers beside the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.noise.base import P, Stream
from segcertify.noise.rotation import RandomRotation, rotation_matrix

CAVEAT = "proves nothing: 3-D rotations do not add up"


@dataclass(frozen=True, repr=False)
class UnprovenAxisAngle(RandomRotation):
    """A rotation about and by a vector of N(0, sigma^2 I), as in the paper [Fischer2021, app. B]. **No certificate.**

    The theorem that the paper uses needs two rotations in a row to be the rotation by the sum of their vectors. In
    three dimensions they are not, and labels of probability above p do change within the radius that is claimed here
    (the test of this module has one). For true certificates use `Rotation`, or `AxisRotation` about one axis. Votes
    and certificates with this noise cannot be saved.
    """

    norm = "axis-angle"  # not a distance between rotations
    sigma: float

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        """What the paper claims, sigma Phi^-1(p) in the norm of the vector; it is not proved, and not true."""
        return super().radius(p, norm)

    def matrices(self, streams: Sequence[Stream]) -> list[FloatArray]:
        """A rotation about and by a random vector, for each stream."""
        vectors = [self.sigma * stream.rng.standard_normal(3) for stream in streams]
        return [rotation_matrix(vector, float(np.linalg.norm(vector))) for vector in vectors]

    def threat(self, norm: str) -> str:
        """What a claim with this noise must say."""
        return f"{norm} rotation vector (the paper's claim; it {CAVEAT})"
