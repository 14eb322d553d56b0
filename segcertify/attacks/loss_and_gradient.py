"""The loss of a segmentation and its gradient in the input, averaged over noisy copies for a smoothed model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from segcertify.attacks.losses import Loss, mean_cross_entropy
from segcertify.errors import InputError
from segcertify.models.wrappers.multiscale import MultiScale
from segcertify.noise import Noise
from segcertify.sampling.batch_size import halve_until_it_fits
from segcertify.sampling.model_outputs import scores_in
from segcertify.sampling.segmenter import Segmenter, is_random, model_errors, to_labels, to_model_dtype, upsampled
from segcertify.sampling.streams import DrawStream


@dataclass(frozen=True)
class NoisyCopies:
    """Noisy copies of a batch of one, differentiable in it."""

    noise: Noise
    draws: int
    batch_size: int
    seed: int

    def __call__(self, x: torch.Tensor, number: int) -> Iterator[torch.Tensor]:
        """The draws of evaluation ``number``, ``batch_size`` at a time."""
        first = number * self.draws
        streams = [DrawStream(self.seed, "attack", "agree", first + j) for j in range(self.draws)]
        still = x[0].detach()
        for i in range(0, self.draws, self.batch_size):
            some = streams[i : i + self.batch_size]
            if self.noise.additive:  # noise that is added has no gradient
                yield x[0] + (self.noise.draw(still, some) - still)
            else:
                yield self.noise.draw(x[0], some)


@dataclass(frozen=True, eq=False)
class Values:
    """What a model shows at a batch: the loss, its gradient, the cross-entropy, and how many components moved."""

    loss: torch.Tensor
    gradient: torch.Tensor
    cross_entropy: torch.Tensor
    moved: torch.Tensor


@dataclass(eq=False)
class LossAndGradient:
    """A model's loss for fixed labels (B, *components), where ``valid``. Each entry of a batch has its own."""

    model: Segmenter
    labels: torch.Tensor
    valid: torch.Tensor
    loss: Loss
    copies: NoisyCopies | None
    seed: int
    fitting: int | None = None
    """How many copies fit into memory at once, once it has run out."""

    def __call__(self, x: torch.Tensor, *, number: int, done: float) -> Values:
        """Means over all copies; an entry's component moved if another label is the most frequent among them."""
        x = x.detach().requires_grad_(True)
        gradient, sums, count = torch.zeros_like(x), torch.zeros(2, len(x), device=x.device), 0
        votes: list[torch.Tensor] = []
        with torch.enable_grad():
            for batch in (x,) if self.copies is None else self.copies(x, number):
                each = len(batch) // len(x)
                seeds = self._seeds(number, range(count, count + each)) * len(x)
                losses, entropies, gradients, labels = self._of_copies(batch.detach(), seeds, done)
                gradient += torch.autograd.grad(batch, x, gradients)[0]
                sums += torch.stack([losses, entropies]).view(2, len(x), each).sum(2)
                votes.append(labels.view(len(x), each, *self.labels.shape[1:]))
                count += each
        moved = ((torch.cat(votes, 1).mode(1).values != self.labels) & self.valid).flatten(1).sum(1)
        return Values(sums[0] / count, gradient / count, sums[1] / count, moved)

    def probe(self, x: torch.Tensor) -> None:
        """Refuse a model that gives labels or no gradients, or labels that do not fit, before the work."""
        with torch.enable_grad():
            one = x[:1].detach().requires_grad_(True)
            logits = self._logits(one, self._seeds(0, range(1)))
            found = tuple(to_labels(logits.detach(), one).shape[1:])
            if found != tuple(self.labels.shape[1:]):
                raise InputError(f"labels are of shape {tuple(self.labels.shape[1:])}, but the model's are {found}")
            if int(self.labels.max()) >= logits.shape[1]:
                raise InputError(
                    f"labels must be below {logits.shape[1]}, the model's number of classes, but one is "
                    f"{int(self.labels.max())}: leave such components out with valid="
                )
            _gradient(logits.sum(), one)

    def _of_copies(self, batch: torch.Tensor, seeds: list[int], done: float) -> tuple[torch.Tensor, ...]:
        """Loss, cross-entropy, gradient and labels of each copy, with as many at a time as fit into memory."""
        each, start, parts = len(batch) // len(self.labels), 0, []

        def some(size: int) -> tuple[torch.Tensor, ...]:
            chosen = slice(start, start + size)
            entries = torch.arange(len(batch), device=batch.device)[chosen] // each
            labels, valid = self.labels[entries], self.valid[entries]
            copies = batch[chosen].requires_grad_(True)
            logits = self._logits(copies, seeds[chosen])
            losses = self.loss(logits, labels, valid, done=done)
            gradient = _gradient(losses.sum(), copies)
            logits = logits.detach()
            return losses.detach(), mean_cross_entropy(logits, labels, valid, done=done), gradient, logits.argmax(1)

        while start < len(batch):
            wanted = min(self.fitting or len(batch), len(batch) - start)
            size, part = halve_until_it_fits(some, wanted)
            if size < wanted:
                self.fitting = size
            parts.append(part)
            start += size
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def _seeds(self, number: int, copies: range) -> list[int]:
        """A random model's seeds for copies of an entry."""
        return [DrawStream(self.seed, f"attack, copy {copy}", "probe", number).model_seed for copy in copies]

    def _logits(self, batch: torch.Tensor, seeds: list[int]) -> torch.Tensor:
        """The model's logits at the input's resolution, differentiable."""
        cast = to_model_dtype(self.model, batch)
        with model_errors():
            output = self.model(cast, seeds=seeds) if is_random(self.model) else self.model(cast)  # type: ignore[call-arg]
        output = scores_in(output)
        if not output.is_floating_point():
            raise InputError(
                f"an attack follows gradients and needs logits, but the model gave {output.dtype}: return logits"
            )
        if not output.requires_grad:
            raise InputError(_NO_GRADIENT)
        return upsampled(output, batch).float()


_NO_GRADIENT = (
    "the model's logits have no gradient in its input: an attack needs one. Models run by another program (onnx:) have "
    "none; in your own, leave out torch.no_grad(), detach() and conversions to NumPy"
)


def _gradient(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(value, x, allow_unused=True)
    if gradient is None:
        raise InputError(_NO_GRADIENT)
    if not bool(torch.isfinite(gradient).all()):
        raise InputError("the gradient of the model's logits is NaN or infinite: check its weights and precision")
    return gradient


@contextmanager
def attackable(model: Segmenter) -> Iterator[None]:
    """Within, weights need no gradients, and `MultiScale` with one scale gives logarithms.

    With one scale it gives exponentials, whose softmax is nearly flat. With the same
    scale twice it gives logarithms, which have the same arg-max.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    weights = [w for module in modules for w in module.parameters(recurse=False) if w.requires_grad]
    scaled = [m for m in modules if isinstance(m, MultiScale) and len(m.scales) == 1 and not m.unchanged]
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
