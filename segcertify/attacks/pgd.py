"""Projected gradient ascent on segmentations [Fischer2021, App. C], with its two slips repaired.

The paper steps along the raw gradient and scales every iterate to the sphere.
Here the gradient is normalised, so that a step has the stated length, and an
iterate is brought back only when it has left the ball: points inside it are
allowed, and often better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from segcertify.attacks.balls import Ball
from segcertify.attacks.losses import require_loss
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.progress import Advance, progress_bar
from segcertify.segmenter import Segmenter, upsampled

Box = tuple[float, float]
Perturb = Callable[[torch.Tensor], Iterator[torch.Tensor]]
"""The batches that the model is asked at, for one step: several draws of noise, or the batch itself."""


@dataclass(frozen=True, eq=False)
class Attack:
    """What an attack found for each entry of a batch: the input that moved most components, and how many."""

    x: torch.Tensor
    moved: torch.Tensor
    """Valid components whose label is no longer the attacked one (B,)."""
    losses: tuple[float, ...]
    """The mean loss before every step, of the last restart."""


def pgd(
    model: Segmenter,
    x: torch.Tensor,
    labels: torch.Tensor,
    ball: Ball,
    *,
    valid: torch.Tensor | None = None,
    steps: int = 100,
    step_size: float | None = None,
    loss: str = "cross-entropy",
    restarts: int = 1,
    box: Box | None = (0.0, 1.0),
    perturb: Perturb | None = None,
    seed: int = 0,
    progress: bool | Advance | None = None,
) -> Attack:
    """Move a batch x (B, ...) inside a ball so that the model's labels (B, *components) change.

    ``valid`` are the components that count (all by default); ``step_size`` is
    10 R / steps by default, as in the paper; of ``restarts`` from random places the
    best is kept, for each entry by itself. ``box`` are the bounds of every number
    of an input, None for none. ``perturb`` makes it an attack on a smoothed model:
    the batches to ask the model at, over which gradients are averaged.
    """
    steps, restarts = require_integer("steps", steps), require_integer("restarts", restarts)
    size = 10 * ball.radius / steps if step_size is None else require_positive("step_size", step_size)
    valid = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid
    _require_inputs(x, labels, valid, box)
    measure = require_loss(loss)
    generator = torch.Generator(x.device).manual_seed(require_integer("seed", seed, at_least=0))
    best, most, losses = x.clone(), torch.full((len(x),), -1, device=x.device), list[float]()

    def inside(shift: torch.Tensor) -> torch.Tensor:
        """The input at a shift, in the ball and in the box; clamping an input in the box only shortens its shift."""
        moved = x + ball.project(shift)
        return moved if box is None else moved.clamp(*box)

    with progress_bar(restarts * steps, "attack", show=progress) as advance, _frozen(model):
        for _ in range(restarts):
            at, losses = inside(ball.start(x, generator)), []
            for step in range(steps + 1):
                now = partial(measure, labels=labels, valid=valid, done=step / steps)
                ascent, value, wrong = _look(model, at, labels, valid, loss=now, perturb=perturb)
                better = wrong > most
                best[better], most[better] = at[better], wrong[better]
                losses.append(value)
                if step < steps:
                    at = inside(at + size * ball.direction(ascent) - x)
                    advance(1)
    return Attack(best, most, tuple(losses))


def _look(
    model: Segmenter,
    at: torch.Tensor,
    labels: torch.Tensor,
    valid: torch.Tensor,
    *,
    loss: Callable[[torch.Tensor], torch.Tensor],
    perturb: Perturb | None,
) -> tuple[torch.Tensor, float, torch.Tensor]:
    """The loss's gradient and mean at a place, and how many valid components have another label there."""
    gradient, total, count = torch.zeros_like(at), 0.0, 0
    votes: torch.Tensor | None = None
    for batch in (at,) if perturb is None else perturb(at):
        asked = batch.detach().requires_grad_(True)
        with torch.enable_grad():
            logits = upsampled(model(asked), asked).float()
            value = loss(logits).sum()
        (slope,) = torch.autograd.grad(value, asked)
        gradient += slope
        total += float(value.detach()) / len(at)
        chances = logits.detach().softmax(1)
        votes = chances if votes is None else votes + chances
        count += 1
    assert votes is not None
    wrong = ((votes.argmax(1) != labels) & valid).flatten(1).sum(1)
    return gradient, total / count, wrong


@contextmanager
def _frozen(model: Segmenter) -> Iterator[None]:
    """A model's weights ask for no gradients, for the time of an attack."""
    weights = [w for w in model.parameters() if w.requires_grad] if isinstance(model, nn.Module) else []
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def _require_inputs(x: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor, box: Box | None) -> None:
    if not x.is_floating_point() or not bool(torch.isfinite(x).all()):
        raise InputError("an attack needs finite floats: x holds NaN, infinities or integers")
    if labels.shape != valid.shape or len(labels) != len(x):
        raise InputError(
            f"x, labels and valid must be of one batch, but got {tuple(x.shape)}, {tuple(labels.shape)} and "
            f"{tuple(valid.shape)}"
        )
    if box is not None and not (box[0] <= float(x.min()) and float(x.max()) <= box[1]):
        raise InputError(
            f"x spans {float(x.min()):g} .. {float(x.max()):g}, outside the box {box}: give the box of your inputs, or "
            "box=None for none"
        )
