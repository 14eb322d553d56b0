"""Gradient ascent on the loss of a segmentation, inside what a threat allows: the loop that all attacks share."""

from dataclasses import dataclass
from typing import Protocol

import torch

from segcertify.attacks.balls import per_entry
from segcertify.attacks.loss_and_gradient import LossAndGradient, NoisyCopies, attackable
from segcertify.attacks.losses import require_loss
from segcertify.errors import LARGEST, LARGEST_SEED, InputError, require_integer, require_positive
from segcertify.noise import Stream
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.segmenter import Segmenter, require_ready
from segcertify.sampling.streams import DrawStream

_Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Inputs, shifts, how many components moved, and their mean cross-entropy, for each entry of a batch."""


class Threat(Protocol):
    """What an attacker may do to a batch of inputs x (B, ...): a shift (B, ...) for each, of a shape of its own."""

    @property
    def radius(self) -> float:
        """The largest shift."""

    def start(self, x: torch.Tensor, stream: Stream) -> torch.Tensor:
        """A random shift, the same for every entry, so that none depends on the others of its batch."""

    def apply(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The shifted inputs."""

    def step(self, x: torch.Tensor, shift: torch.Tensor, gradient: torch.Tensor, size: float) -> torch.Tensor:
        """The shift after a step of that size along the loss's gradient at the shifted inputs, within the radius."""


@dataclass(frozen=True, eq=False)
class Attack:
    """What an attack found: for each entry of a batch the input that moved most components, and how many.

    Among inputs that move as many, the one with the highest cross-entropy.
    """

    x: torch.Tensor
    shift: torch.Tensor
    """What was done to each entry: a difference, or a rotation as axis times angle."""
    moved: torch.Tensor
    """Valid components whose label is no longer the attacked one (B,)."""
    losses: tuple[float, ...]
    """The mean loss before every step and after the last, of the last restart."""


@dataclass(frozen=True)
class GradientAscent:
    """An attack's options; see `segcertify.attacks.pgd`."""

    steps: int = 100
    step_size: float | None = None
    loss: str = "cross-entropy"
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("steps", 1, LARGEST), ("restarts", 1, LARGEST), ("seed", 0, LARGEST_SEED)):
            object.__setattr__(self, name, require_integer(name, getattr(self, name), at_least=least, at_most=most))
        require_loss(self.loss)
        if self.step_size is not None:
            require_positive("step_size", self.step_size)

    def __call__(
        self,
        model: Segmenter,
        x: torch.Tensor,
        labels: torch.Tensor,
        threat: Threat,
        *,
        valid: torch.Tensor | None = None,
        copies: NoisyCopies | None = None,
        progress: bool | Advance | None = None,
    ) -> Attack:
        """Search the shifts of a threat for those that change the labels (B, *components).

        With ``copies`` the smoothed model is attacked: losses and gradients are means over noisy copies.
        """
        size = 10 * threat.radius / self.steps if self.step_size is None else self.step_size
        x = _require_batch(x)
        require_ready(model, x.device)
        labels, valid = _require_labels(labels, valid, x)
        best, losses = None, list[float]()
        with progress_bar(self.restarts * self.steps, "attack", show=progress) as advance, attackable(model):
            values_at = LossAndGradient(model, labels, valid, require_loss(self.loss), copies, self.seed)
            values_at.probe(x)
            for restart in range(self.restarts):
                shift = threat.start(x, DrawStream(self.seed, "attack", "candidate", restart))
                losses = []
                for step in range(self.steps + 1):
                    shifted = threat.apply(x, shift)
                    values = values_at(shifted, number=restart * (self.steps + 1) + step, done=step / self.steps)
                    best = _better(best, (shifted, shift, values.moved, values.cross_entropy))
                    losses.append(float(values.loss.mean()))
                    if step < self.steps:
                        shift = threat.step(x, shift, values.gradient, size)
                        advance(1)
        assert best is not None
        return Attack(*best[:3], tuple(losses))


def _better(best: _Found | None, found: _Found) -> _Found:
    """For each entry the one that moved more components; among equal numbers, the one of higher cross-entropy."""
    if best is None:
        return found
    *_, most, highest = best
    *_, moved, entropy = found
    better = (moved > most) | ((moved == most) & (entropy > highest))
    x, shift, moved, entropy = (torch.where(per_entry(better, b), b, a) for a, b in zip(best, found, strict=True))
    return x, shift, moved, entropy


def _require_batch(x: torch.Tensor) -> torch.Tensor:
    """A batch of finite floats, in single or double precision."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2 or not x.numel():
        kind = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise InputError(f"x must be a batch (B, ...) of floats, but got {kind}: for one input use x[None]")
    if not bool(torch.isfinite(x).all()):
        raise InputError("x has entries that are NaN or infinite: clean it before attacking")
    return x.detach() if x.dtype == torch.float64 else x.detach().float()


def _require_labels(
    labels: torch.Tensor, valid: torch.Tensor | None, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels, 0 where they do not count, and which count."""
    for name, tensor in (("labels", labels), ("valid", valid)):
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise InputError(f"{name} must be a tensor, but got {type(tensor).__name__}: use torch.as_tensor")
    valid = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid.bool()
    if labels.is_floating_point() or labels.shape != valid.shape or len(labels) != len(x):
        raise InputError(
            f"x, labels and valid must be of one batch, and labels integers, but got {tuple(x.shape)}, "
            f"{tuple(labels.shape)} ({labels.dtype}) and {tuple(valid.shape)}"
        )
    labels, valid = labels.to(x.device).long(), valid.to(x.device)
    labels = torch.where(valid, labels, 0)
    if int(labels.min()) < 0:
        raise InputError(f"a label is {int(labels.min())}, which is no class: leave such components out with valid=")
    return labels, valid
