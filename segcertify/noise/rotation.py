"""Random rotations of point clouds: about one axis, and in three dimensions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from segcertify.arrays import FloatArray
from segcertify.errors import InputError, require_finite, require_integer
from segcertify.noise.base import ScaledNoise, Stream, Tensor, gaussian_worst

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


class RandomRotation(ScaledNoise):
    """What random rotations share: they rotate the first ``vectors`` triples of columns, in a frozen dataclass."""

    additive = False
    norm = "angle"
    unit_radius = staticmethod(special.ndtri)
    unit_worst = staticmethod(gaussian_worst)
    vectors: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors is not None:
            require_integer("vectors", self.vectors)

    def matrices(self, streams: Sequence[Stream]) -> list[FloatArray]:
        """A random rotation for each stream."""
        raise NotImplementedError

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        return rotate(x, self.matrices(streams), self.vectors)

    def check(self, input_shape: tuple[int, ...]) -> None:
        rotated_columns(input_shape, self.vectors)

    def threat(self, norm: str) -> str:
        axis = f"the axis {self.axis}" if isinstance(self, AxisRotation) else "any axis"
        columns = "all column triples" if self.vectors is None else f"of the columns, the first {3 * self.vectors}"
        return f"rotation angle (radians) about {axis} through the origin ({columns} turn)"


@dataclass(frozen=True, repr=False)
class AxisRotation(RandomRotation):
    """A rotation about one fixed axis by an angle from N(0, sigma^2), in radians.

    Rotations about one axis add up, so the Gaussian theorem holds in the angle
    [Fischer2020]: a label of probability above p stays the most likely one for
    every rotation about this axis by at most sigma Phi^-1(p).

    Inputs are (points, 3) or (points, 3 vectors + features): the first
    ``vectors`` triples rotate (coordinates, then normals), the rest stays. By
    default 3 columns hold one vector and 6 hold two.
    """

    sigma: float
    axis: str | tuple[float, ...] = "z"
    vectors: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.axis, str) and self.axis in AXES):
            numbers = self.axis if isinstance(self.axis, Iterable) and not isinstance(self.axis, str) else ()
            axis = tuple(require_finite("axis", number) for number in numbers)
            if len(axis) != 3 or not any(axis):
                raise InputError(f"axis must be 'x', 'y', 'z' or three numbers, not all 0, but got {self.axis!r}")
            object.__setattr__(self, "axis", axis)

    def matrices(self, streams: Sequence[Stream]) -> list[FloatArray]:
        axis = np.asarray(AXES[self.axis] if isinstance(self.axis, str) else self.axis, float)
        return [rotation_matrix(axis, self.sigma * stream.rng.standard_normal()) for stream in streams]


@dataclass(frozen=True, repr=False)
class Rotation(RandomRotation):
    """A random 3-D rotation from the heat kernel on SO(3) at time sigma^2 / 2.

    Three-dimensional rotations do not add up, so axis-angle noise (as in
    [Fischer2021, App. B]) proves nothing about them. The heat kernel does:
    SO(3), with the rotation angle as distance, has Ricci curvature 1/2, and on
    such a manifold Phi^-1 of a smoothed probability is Lipschitz with constant
    1 / sqrt(2 (exp(sigma^2 / 2) - 1)) [BakryLedoux1996]. So a label of
    probability above p stays the most likely one for every rotation by an angle
    of at most sqrt(2 (exp(sigma^2 / 2) - 1)) Phi^-1(p), about any axis.

    Inputs as for `AxisRotation`.
    """

    sigma: float
    vectors: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1e-3 <= self.sigma <= 10:
            raise InputError(
                f"Rotation needs sigma in [0.001, 10], but got {self.sigma:g}: the heat kernel's series is slow "
                "below, and above the rotations are uniform already"
            )

    @property
    def factor(self) -> float:
        return math.sqrt(2 * math.expm1(self.sigma**2 / 2))

    def matrices(self, streams: Sequence[Stream]) -> list[FloatArray]:
        axes = [stream.rng.standard_normal(3) for stream in streams]  # their directions are uniform
        angles = heat_kernel_angle(np.array([stream.rng.random() for stream in streams]), self.sigma)
        return [rotation_matrix(axis, angle) for axis, angle in zip(axes, angles, strict=True)]


def rotation_matrix(axis: FloatArray, angle: float) -> FloatArray:
    """The rotation by ``angle`` about ``axis`` (Rodrigues' formula), as a 3 x 3 matrix."""
    axis = axis / np.abs(axis).max()  # so that the norm neither overflows nor vanishes
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    matrix: FloatArray = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
    return matrix


def heat_kernel_cdf(angle: float | FloatArray, sigma: float) -> FloatArray:
    """P(rotation angle <= ``angle``) under the heat kernel on SO(3) at time sigma^2 / 2.

    The density (1 - cos a)/pi sum_l (2l + 1) exp(-l (l + 1) sigma^2 / 2) sin((l + 1/2) a) / sin(a / 2)
    equals 1/pi sum_l (2l + 1) exp(-l (l + 1) sigma^2 / 2) (cos(l a) - cos((l + 1) a)), integrated term by term.
    """
    a = np.asarray(angle, float)[..., None]
    l = np.arange(1, 2 + math.ceil(9.2 / sigma))  # noqa: E741  (beyond, terms are below 1e-18)
    weight = (2 * l + 1) * np.exp(-l * (l + 1) * sigma**2 / 2)
    terms = weight * (np.sin(l * a) / l - np.sin((l + 1) * a) / (l + 1))
    return np.asarray((angle - np.sin(angle) + terms.sum(-1)) / math.pi)


def heat_kernel_angle(u: float | FloatArray, sigma: float) -> FloatArray:
    """The angle at which `heat_kernel_cdf` reaches u, by bisection to the last bit that matters."""
    low, high = np.zeros(np.shape(u)), np.full(np.shape(u), math.pi)
    for _ in range(50):  # pi / 2^50 < 3e-15
        middle = (low + high) / 2
        below = heat_kernel_cdf(middle, sigma) < u
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def rotated_columns(input_shape: tuple[int, ...], vectors: int | None = None) -> int:
    """How many columns rotate: those of the first ``vectors`` triples, by default of all."""
    if len(input_shape) != 2:
        raise InputError(f"rotations need inputs of shape (points, columns), but got {input_shape}")
    columns = input_shape[1]
    if vectors is None and columns not in (3, 6):
        raise InputError(f"{columns} columns: say how many leading triples turn with vectors=1 (or 2 with normals)")
    rotated = columns if vectors is None else 3 * vectors
    if rotated > columns:
        raise InputError(f"vectors={vectors} needs {rotated} columns, but the input has {columns}")
    return rotated


def rotate(x: Tensor, rotations: Sequence[FloatArray], vectors: int | None = None) -> Tensor:
    """x with its leading triples rotated by each matrix: (len(rotations), *x.shape)."""
    columns = rotated_columns(tuple(x.shape), vectors)
    batch = x.repeat(len(rotations), 1, 1)
    matrices = x.new_tensor(np.stack(rotations))  # (B, 3, 3)
    points = batch[:, :, :columns].reshape(len(rotations), -1, 3)
    rotated = (points[:, :, None, :] * matrices[:, None, :, :]).sum(-1)  # not matmul, which may round to TF32
    batch[:, :, :columns] = rotated.reshape(len(rotations), -1, columns)
    return batch
