"""Rotations of point clouds that change a segmentation."""

import math
from dataclasses import dataclass

import torch

from segcertify.attacks.balls import L2
from segcertify.attacks.gradient_ascent import Attack, GradientAscent
from segcertify.data.clouds.rotation import rotation_matrices
from segcertify.errors import InputError, require_positive
from segcertify.noise import AxisRotation, Stream
from segcertify.noise.rotation import AXES, rotated_columns
from segcertify.progress import Advance
from segcertify.sampling.segmenter import Segmenter

Axis = str | tuple[float, ...]


@dataclass(frozen=True)
class Rotations:
    """Rotations by at most ``radius`` about any axis, or about one; a shift is axis times angle (B, 3), or (B, 1).

    Clouds are (B, points, 3 vectors + features): the first ``vectors`` triples of
    columns rotate (coordinates, then normals). By default 3 columns hold one and 6 hold two.
    """

    radius: float
    axis: Axis | None = None
    vectors: int | None = None

    def __post_init__(self) -> None:
        if require_positive("radius", self.radius) > math.pi:
            raise InputError(f"no rotation is farther than pi, but the radius is {self.radius:g}: use pi for all")
        if self.axis is not None:
            AxisRotation(1.0, self.axis)  # raises if it is no axis

    def start(self, x: torch.Tensor, stream: Stream) -> torch.Tensor:
        """Any axis, any angle up to the radius, in double precision."""
        like = x.new_empty((1, 3 if self.axis is None else 1), dtype=torch.float64)
        return L2(self.radius).start(like, stream).repeat(len(x), 1)

    def apply(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The rotated clouds; rotations are computed in double precision."""
        columns = rotated_columns(tuple(x.shape[1:]), self.vectors)
        points = x[:, :, :columns].reshape(len(x), -1, 3)
        matrices = rotation_matrices(self._vectors(shift)).to(x)
        points = (points[:, :, None, :] * matrices[:, None, :, :]).sum(-1)  # not matmul, which may round to TF32
        return torch.cat([points.reshape(len(x), -1, columns), x[:, :, columns:]], 2)

    def step(self, x: torch.Tensor, shift: torch.Tensor, gradient: torch.Tensor, size: float) -> torch.Tensor:
        """A step along the loss's gradient in the shift, then back to the largest angle where beyond."""
        with torch.enable_grad():
            shift = shift.detach().requires_grad_(True)
            (of_shift,) = torch.autograd.grad(self.apply(x, shift), shift, gradient)
        ball = L2(self.radius)
        return ball.project(shift.detach() + size * ball.direction(of_shift))

    def _vectors(self, shift: torch.Tensor) -> torch.Tensor:
        """Axis times angle (B, 3), in double precision."""
        if self.axis is None:
            return shift.double()
        numbers = AXES[self.axis] if isinstance(self.axis, str) else self.axis
        return shift.double() * torch.tensor(numbers, dtype=torch.float64, device=shift.device) / math.hypot(*numbers)


def rotate_clouds(
    model: Segmenter, clouds: torch.Tensor, labels: torch.Tensor, radius: float, *, axis: Axis | None = None,
    vectors: int | None = None, valid: torch.Tensor | None = None, steps: int = 20, step_size: float | None = None,
    loss: str = "cross-entropy", restarts: int = 10, seed: int = 0, progress: bool | Advance | None = None,
) -> Attack:  # fmt: skip
    """Rotate clouds (B, points, columns) by at most ``radius`` (radians) so that the model's labels change.

    ``axis`` is ``x``, ``y``, ``z``, three numbers or None for any. Normals rotate
    too (``vectors``: as for `Rotation` noise). The loss has many local maxima over so few
    angles: several ``restarts`` do more than many steps. Other arguments are those of `pgd`.
    """
    rotated_columns(tuple(clouds.shape[1:]), vectors)
    ascent = GradientAscent(steps, step_size, loss, restarts, seed)
    return ascent(model, clouds, labels, Rotations(radius, axis, vectors), valid=valid, progress=progress)
