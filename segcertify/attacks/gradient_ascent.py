"""Gradient ascent on the loss of a segmentation, inside what a threat allows: the loop that all attacks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from segcertify.attacks.losses import Loss, mean_cross_entropy, require_loss
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.models.wrappers.multiscale import MultiScale
from segcertify.noise import Stream
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.batch_size import as_many_as_fit
from segcertify.sampling.segmenter import Segmenter, as_weights, is_random, require_ready, to_labels, upsampled
from segcertify.sampling.streams import DrawStream


class Threat(Protocol):
    """What an attacker may do to a batch of inputs x (B, ...): a shift (B, ...) for each, of a shape of its own."""

    @property
    def radius(self) -> float:
        """The largest shift."""

    def start(self, x: torch.Tensor, stream: Stream) -> torch.Tensor:
        """A random shift, the same for every entry, so that none depends on its batch mates."""

    def apply(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The shifted inputs."""

    def climb(self, x: torch.Tensor, shift: torch.Tensor, slope: torch.Tensor, size: float) -> torch.Tensor:
        """A step of that size to a higher loss, whose slope at the shifted inputs is known, and back inside."""


Ask = Callable[[torch.Tensor, int], Iterator[torch.Tensor]]
"""From inputs (B, ...) and the step's number to batches, each with one or several (perturbed) copies an entry."""


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


def ascend(
    model: Segmenter,
    x: torch.Tensor,
    labels: torch.Tensor,
    threat: Threat,
    *,
    valid: torch.Tensor | None = None,
    steps: int = 100,
    step_size: float | None = None,
    loss: str = "cross-entropy",
    restarts: int = 1,
    copies: Ask | None = None,
    seed: int = 0,
    progress: bool | Advance | None = None,
) -> Attack:
    """Search the shifts of a threat for those that change the labels (B, *components): see `pgd`.

    ``copies`` makes it an attack on a smoothed model: where the model is asked, and gradients are averaged.
    """
    steps, restarts = require_integer("steps", steps), require_integer("restarts", restarts)
    size = 10 * threat.radius / steps if step_size is None else require_positive("step_size", step_size)
    seed, measure = require_integer("seed", seed, at_least=0), require_loss(loss)
    x = require_input(x)
    require_ready(model, x.device)
    labels, valid = _require_labels(labels, valid, x)
    best = _Best(x)
    losses: list[float] = []
    with progress_bar(restarts * steps, "attack", show=progress) as advance, _ready(model):
        look = _Look(model, labels, valid, measure, copies=copies, seed=seed)
        look.probe(x)
        for restart in range(restarts):
            shift = threat.start(x, DrawStream(seed, "attack", "candidate", restart))
            losses = []
            for step in range(steps + 1):
                at = threat.apply(x, shift)
                seen = look(at, number=restart * (steps + 1) + step, done=step / steps)
                best.offer(at, shift, seen)
                losses.append(float(seen.loss.mean()))
                if step < steps:
                    shift = threat.climb(x, shift, seen.slope, size)
                    advance(1)
    return Attack(best.x, best.shift, best.moved, tuple(losses))


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a model shows at a batch: the loss, its slope, the cross-entropy, and how many components moved."""

    loss: torch.Tensor
    slope: torch.Tensor
    entropy: torch.Tensor
    moved: torch.Tensor


class _Best:
    """The best input of each entry so far."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x.clone()
        self.shift = torch.empty(0)
        self.moved = torch.full((len(x),), -1, device=x.device)
        self.entropy = torch.full((len(x),), -torch.inf, device=x.device)

    def offer(self, x: torch.Tensor, shift: torch.Tensor, seen: _Seen) -> None:
        """Keep the entries that are better."""
        if not self.shift.numel():
            self.shift = shift.clone()
        better = (seen.moved > self.moved) | ((seen.moved == self.moved) & (seen.entropy > self.entropy))
        self.x[better], self.shift[better] = x[better], shift[better]
        self.moved[better], self.entropy[better] = seen.moved[better], seen.entropy[better]


class _Look:
    """A model's loss for given labels, and its slope."""

    def __init__(
        self,
        model: Segmenter,
        labels: torch.Tensor,
        valid: torch.Tensor,
        loss: Loss,
        *,
        copies: Ask | None,
        seed: int,
    ) -> None:
        self.model, self.labels, self.valid, self.loss = model, labels, valid, loss
        self.copies, self.seed = copies or (lambda at, number: iter((at,))), seed
        self.fitting: int | None = None
        """How many copies fit into memory at once, since it ran out."""

    def __call__(self, at: torch.Tensor, *, number: int, done: float) -> _Seen:
        """Means over all copies; an entry's component moved if another label is the most frequent among them."""
        place = at.detach().requires_grad_(True)
        slope, sums, asked = torch.zeros_like(at), torch.zeros(2, len(at), device=at.device), 0
        votes: list[torch.Tensor] = []
        with torch.enable_grad():
            for batch in self.copies(place, number):
                each = len(batch) // len(at)
                seeds = self._seeds(number, range(asked, asked + each)) * len(at)
                values, entropies, slopes, labels = self._ask(batch.detach(), seeds, done)
                slope += torch.autograd.grad(batch, place, slopes)[0]
                sums += torch.stack([values, entropies]).view(2, len(at), each).sum(2)
                votes.append(labels.view(len(at), each, *self.labels.shape[1:]))
                asked += each
        moved = ((torch.cat(votes, 1).mode(1).values != self.labels) & self.valid).flatten(1).sum(1)
        return _Seen(sums[0] / asked, slope / asked, sums[1] / asked, moved)

    def _ask(self, batch: torch.Tensor, seeds: list[int], done: float) -> tuple[torch.Tensor, ...]:
        """Loss, cross-entropy, the loss's slope and labels of each copy, of as many at a time as fit into memory."""
        each, start, parts = len(batch) // len(self.labels), 0, []

        def ask(size: int) -> tuple[torch.Tensor, ...]:
            rows = slice(start, start + size)
            entries = torch.arange(len(batch), device=batch.device)[rows] // each
            labels, valid = self.labels[entries], self.valid[entries]
            copies = batch[rows].requires_grad_(True)
            logits = self._logits(copies, seeds[rows])
            values = self.loss(logits, labels, valid, done=done)
            slope = _gradient(values.sum(), copies)
            logits = logits.detach()
            return values.detach(), mean_cross_entropy(logits, labels, valid, done=done), slope, logits.argmax(1)

        while start < len(batch):
            wanted = min(self.fitting or len(batch), len(batch) - start)
            size, part = as_many_as_fit(ask, wanted)
            if size < wanted:
                self.fitting = size
            parts.append(part)
            start += size
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def probe(self, x: torch.Tensor) -> None:
        """Refuse a model that gives labels or no gradients, or labels that do not fit, before the work."""
        with torch.enable_grad():
            place = x[:1].detach().requires_grad_(True)
            logits = self._logits(place, self._seeds(0, range(1)))
            found = tuple(to_labels(logits.detach(), place).shape[1:])
            if found != tuple(self.labels.shape[1:]):
                raise InputError(f"labels are of shape {tuple(self.labels.shape[1:])}, but the model's are {found}")
            if int(self.labels.max()) >= logits.shape[1]:
                raise InputError(
                    f"labels must be below {logits.shape[1]}, the model's number of classes, but one is "
                    f"{int(self.labels.max())}: leave such components out with valid="
                )
            _gradient(logits.sum(), place)

    def _seeds(self, number: int, copies: range) -> list[int]:
        """A random model's seeds for copies of an entry."""
        return [DrawStream(self.seed, f"attack, copy {copy}", "probe", number).model_seed for copy in copies]

    def _logits(self, batch: torch.Tensor, seeds: list[int]) -> torch.Tensor:
        """The model's logits at the input's resolution, differentiable."""
        given = as_weights(self.model, batch)
        output = self.model(given, seeds=seeds) if is_random(self.model) else self.model(given)  # type: ignore[call-arg]
        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            kind = output.dtype if isinstance(output, torch.Tensor) else type(output).__name__
            raise InputError(f"an attack follows gradients and needs logits, but the model gave {kind}: return logits")
        if not output.requires_grad:
            raise InputError(_NO_GRADIENT)
        return upsampled(output, batch).float()


_NO_GRADIENT = (
    "the model's logits have no gradient in its input: an attack needs one. Models run by another program (onnx:) have "
    "none; in your own, leave out torch.no_grad(), detach() and conversions to NumPy"
)


def _gradient(value: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(value, place, allow_unused=True)
    if slope is None:
        raise InputError(_NO_GRADIENT)
    if not bool(torch.isfinite(slope).all()):
        raise InputError("the gradient of the model's logits is NaN or infinite: check its weights and precision")
    return slope


@contextmanager
def _ready(model: Segmenter) -> Iterator[None]:
    """For the time of an attack weights ask for no gradients, and scores of one scale come as logarithms.

    `MultiScale` gives exponentials where it has one scale, and their softmax is nearly flat; the same scale
    twice gives logarithms, with the same arg-max.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    weights = [w for module in modules for w in module.parameters(recurse=False) if w.requires_grad]
    scaled = [m for m in modules if isinstance(m, MultiScale) and len(m.scales) == 1]
    scaled = [m for m in scaled if m.scales != (1.0,) or m.flip or m.tile]  # without any, it is the model itself
    try:
        for weight in weights:
            weight.requires_grad_(False)
        for module in scaled:
            module.scales *= 2
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
        for module in scaled:
            module.scales = module.scales[:1]


def require_input(x: torch.Tensor) -> torch.Tensor:
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
