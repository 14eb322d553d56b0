"""Cross-talk: entries of a batch that influence each other, found by asking for some of them again.

A certificate counts draws as independent, so a model's answer to an entry must depend on that entry alone (and on
its seed, if the model is random), and so must the noise. Some entries of a batch are asked again in pairs, at other
places and beside other neighbours. Rounding in a batch of another size moves answers a little; another entry's
noise moves them a lot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch

from segcertify.sampling.segmenter import to_labels
from segcertify.sampling.streams import DrawStream

ENTRIES = 6
"""How many entries of a batch are asked again: the first, the last, and four that the model cannot predict."""
ALLOWED = 1 / 32
"""How much answers may change, as a share of what noise changes. One wrong entry of six changes 1/6.

Entries of which a share w is common to the batch change by w / sqrt(2) and have a correlation of about w^2: at this
bound the variance of a count of 100 draws has grown by a fifth, beside what rounding hides.
"""
ROUNDING = 2.0**-8
"""A change of logits that is no more than rounding, as a share of their class's range: a bit of bfloat16.

Measured on an H200 at sigma 0.01 to 0.25: what is beyond it, in the bundled networks in float32, bfloat16 and float16,
is at most 0.005 of what noise changes.
"""
TIES = 0.002
"""A change of labels that is no more than rounding, as a share of all labels."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Noisy inputs (B, *x.shape), and a model's answers: as it gave them, and as labels."""

    batch: torch.Tensor
    output: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, output: torch.Tensor, batch: torch.Tensor) -> Self:
        """From a model's output for a batch."""
        return cls(batch, output, to_labels(output, batch))

    def at(self, entries: Sequence[int]) -> Self:
        """Those of some entries, in memory of their own: a model may use its own again."""
        chosen = torch.tensor(list(entries), device=self.batch.device)
        return type(self)(*(each.index_select(0, chosen) for each in (self.batch, self.output, self.labels)))


@dataclass(frozen=True)
class Changes:
    """How the second answers to some entries differ from the first."""

    noise: bool
    """Whether the noisy inputs themselves differ, or are all the same."""
    logits: float
    """The change of the logits, as a share of what noise changes, in the class where it is largest."""
    labels: int
    labels_by_noise: int
    of_labels: int
    exact: bool
    """Whether the model gives labels: from logits, one label may be a tie that rounding decides."""

    @property
    def found(self) -> str:
        """What changed by more than rounding explains; empty if nothing did."""
        if self.logits > ALLOWED:
            return f"logits changed by {self.logits:.2g} of what noise changes"
        if self.labels > ALLOWED * self.labels_by_noise + TIES * self.of_labels + (not self.exact):
            return f"{self.labels} of {self.of_labels} labels changed"
        return ""


def chosen_entries(size: int, stream: DrawStream) -> list[int]:
    """The first, the last and four random entries of a batch (all of a smaller one), the last first."""
    if size <= ENTRIES:
        return list(range(size))[::-1]
    between = stream.rng.choice(size - 2, ENTRIES - 2, replace=False) + 1
    return sorted((0, size - 1, *between.tolist()), reverse=True)


def changes(first: Answers, x: torch.Tensor, ask: Callable[[list[int]], Answers]) -> Changes:
    """Compare ``first``, answers to chosen entries of a batch, with the answers to them in smaller batches.

    ``ask`` is called with positions in ``first``, two at a time (of two entries one at a time), and gives new answers.
    The last entry of the batch comes first in its pair and the first one last, so that each has another place.
    """
    count = len(first.labels)
    step = 1 if count == 2 else 2
    groups = [list(range(max(stop - step, 0), stop)) for stop in range(count, 0, -step)]
    exact = not first.output.is_floating_point()
    noise, logits, labels = _all_equal(first.batch, x), torch.zeros(1), 0
    for group in groups:
        again = ask(group)
        noise = noise or inputs_differ(first.batch[group], again.batch, x)
        labels += _unequal(first.labels[group], again.labels)
        logits = logits if exact else logits + _change(first.output, group, again.output)
    by_noise = _unequal(first.labels, first.labels.roll(1, 0))
    return Changes(noise, float(logits.max()), labels, by_noise, first.labels.numel(), exact)


def inputs_differ(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether two draws of the same noise at x differ by more than rounding."""
    noise, rounding = float((a - x).abs().max()), torch.finfo(a.dtype).eps * float(a.abs().max())
    return float((a - b).abs().max()) > 0.01 * noise + 4 * rounding


def _all_equal(batch: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether noise did something, but the same to each of several entries."""
    return len(batch) > 2 and bool((batch == batch[:1]).all()) and not torch.equal(batch[0], x.to(batch.dtype))


def _unequal(a: torch.Tensor, b: torch.Tensor) -> int:
    return int((a != b).sum()) if a.shape == b.shape else a.numel()


def _change(output: torch.Tensor, group: list[int], again: torch.Tensor) -> torch.Tensor:
    """What each class's logits changed in a group of entries, over what noise changes in all entries: (classes,).

    Each class is measured alone, so that neither an offset nor another class hides a change.
    """
    if output.shape[1:] != again.shape[1:]:
        return torch.ones(1)
    axes = [axis for axis in range(output.ndim) if axis != 1]
    low, high = output.amin(axes, keepdim=True), output.amax(axes, keepdim=True)
    rounding = ROUNDING * (high - low) + torch.finfo(output.dtype).eps * torch.maximum(high.abs(), low.abs())
    change = ((output[group] - again).abs() - rounding).clamp(min=0).double().sum(axes).cpu()
    by_noise = (output - output.roll(1, 0)).abs().double().sum(axes).cpu()
    return torch.where(change > 0, change / by_noise, 0.0)
