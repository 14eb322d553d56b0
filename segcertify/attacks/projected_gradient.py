"""Projected gradient ascent on segmentations [Fischer2021, App. C], with its two slips repaired.

The paper steps along the raw gradient and scales every iterate to the sphere. Here the gradient is normalised, so that
a step has the stated length, and an iterate is brought back only when it has left the ball: points inside it are
allowed, and often better.
"""

from dataclasses import dataclass

import torch

from segcertify.attacks.balls import Ball, per_entry
from segcertify.attacks.gradient_ascent import Attack, GradientAscent
from segcertify.errors import InputError
from segcertify.noise import Stream
from segcertify.progress import Advance
from segcertify.sampling.segmenter import Segmenter

Box = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Shifts:
    """Adds a shift from a ball, and stays in a box: the bounds of every number of an input.

    With ``free``, a mask of an input's shape, only the numbers in it move.
    """

    ball: Ball
    box: Box | None = (0.0, 1.0)
    free: torch.Tensor | None = None

    @property
    def radius(self) -> float:
        """The ball's."""
        return self.ball.radius

    def start(self, x: torch.Tensor, stream: Stream) -> torch.Tensor:
        """A random shift inside the ball, one for all entries. Raises `InputError` if an input is outside the box."""
        low, high = float(x.min()), float(x.max())
        if self.box is not None and not (self.box[0] <= low and high <= self.box[1]):
            raise InputError(
                f"x spans {low:g} .. {high:g}, outside the box {self.box}: give the box of your inputs, or box=None"
            )
        return self.apply(x, self.ball.start(x[:1], stream).expand_as(x)) - x

    def apply(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The inputs in the ball and in the box; clamping an input in the box only shortens its shift.

        A sum of floats is rounded, which may lead out of the ball: the shift is then
        shortened until the difference, in double precision, is inside.
        """
        shift, margin = self.ball.project(self._freed(shift)), 2.0**-24
        while True:
            shifted = x + shift if self.box is None else (x + shift).clamp(*self.box)
            over = self.ball.norm(shifted.double() - x.double()) / self.ball.radius
            if margin > 1 or not bool((over > 1).any()):
                return shifted
            margin *= 2
            shift = shift * per_entry(torch.where(over > 1, max(0.0, 1 - margin) / over, 1).to(shift), x)

    def step(self, x: torch.Tensor, shift: torch.Tensor, gradient: torch.Tensor, size: float) -> torch.Tensor:
        """A step in the ball's best direction, then back into it."""
        return self.apply(x, shift + size * self.ball.direction(self._freed(gradient))) - x

    def _freed(self, shift: torch.Tensor) -> torch.Tensor:
        return shift if self.free is None else shift * self.free


def pgd(
    model: Segmenter, x: torch.Tensor, labels: torch.Tensor, ball: Ball, *, valid: torch.Tensor | None = None,
    steps: int = 100, step_size: float | None = None, loss: str = "cross-entropy", restarts: int = 1,
    box: Box | None = (0.0, 1.0), seed: int = 0, progress: bool | Advance | None = None,
) -> Attack:  # fmt: skip
    """Move a batch x (B, ...) inside a ball so that the model's labels (B, *components) change.

    Parameters
    ----------
    model : callable
        From a batch to logits (B, classes, *components), differentiable and in evaluation mode.
    labels : integer tensor
        What the attack moves away from: the ground truth, or the model's own labels.
    ball : L2, Linf or L1
        How far an input may move.
    valid : bool tensor, optional
        The components that count; all by default.
    step_size : float, optional
        10 R / steps by default, as in the paper.
    loss : str
        ``cross-entropy`` (the paper's), ``segpgd`` or ``cospgd``.
    restarts : int
        How many random starts; the best input is kept, for each entry by itself.
    box : (float, float) or None
        The bounds of every number of an input; None for none.
    """
    if not hasattr(ball, "project"):
        raise InputError(f"ball must be such as L2(0.16), Linf(0.01) or L1(2.0), but got {ball!r}")
    ascent = GradientAscent(steps, step_size, loss, restarts, seed)
    return ascent(model, x, labels, Shifts(ball, box), valid=valid, progress=progress)
