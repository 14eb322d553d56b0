"""Cross-talk: entries of a batch that influence each other, found by asking for some of them again.

A certificate counts draws as independent, so a model's answer to an entry must depend on that entry alone (and on
its seed, if the model is random), and so must the noise. Some entries of a batch are asked again in pairs, at other
places and beside other neighbours. Rounding in a batch of another size moves answers a little; another entry's
noise moves them a lot.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch

from segcertify.sampling.segmenter import Segmenter, in_single_precision, to_labels
from segcertify.sampling.stages import stage
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
OF_ONE = 0.5
"""How much one component's answers may change, as a share of what noise changes there: rounding may hit one hard."""
WORST = 8.0
"""How many times `ROUNDING` the logits of one component may change beside that: the worst of many is looked at."""


@dataclass(frozen=True)
class Tolerance:
    """How much logits may change by rounding alone: shares of what noise changes, beyond a share of their scale.

    The scale is their class's range, or ``own``: each logit's distance from zero or from where most of its class are,
    whichever is less, beside how closely these lie together. No other component's logits make an own scale large.
    """

    allowed: float = ALLOWED
    rounding: float = ROUNDING
    of_one: float = OF_ONE
    own: bool = False
    last_bits: float = 1
    """How many last bits of a logit its own rounding may change."""


COARSE = Tolerance()
"""Of models that may compute in half precision, or in TF32 as GPUs do."""
FINE = Tolerance(allowed=1 / 256, rounding=2.0**-14, of_one=1 / 128, own=True, last_bits=32)
"""Of models that compute in single precision or better, on the CPU."""
NONE = Tolerance(allowed=1 / 256, rounding=0.0, of_one=1 / 128, last_bits=0)
"""Of the same kernels, which round alike: for answers in batches of one size."""


def tolerance_of(model: Segmenter, output: torch.Tensor) -> Tolerance:
    """What rounding may change in logits that a model gave."""
    return FINE if in_single_precision(model, output) else COARSE


TIES = 0.002
"""A change of labels that is no more than rounding, as a share of all labels."""
SAMPLE = 4096
"""Of how many components the usual logits of a class are looked for."""
DOUBT = 4
"""How many times these bounds rounding may still explain, in a deep network: then entries are asked in a batch as large
as the first, where all kernels and so all rounding are the same, and only the neighbours are others."""
HIDDEN = 1 / 4
"""Rounding that is allowed may be this share of what noise changes, in any class: else it hides too much, and entries
are asked in a batch as large as the first too."""
MORE = 64
"""How many entries are asked again where labels of six leave it open."""
FEW, MANY = 64, 10_000
"""Six entries leave it open if they have fewer labels than ``FEW``, if one of fewer than ``MANY`` changed, or if a
component changed twice."""


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
        return type(self)(*(chosen(each, entries) for each in (self.batch, self.output, self.labels)))


def chosen(batch: torch.Tensor, entries: Sequence[int]) -> torch.Tensor:
    """Some entries of a batch, in memory of their own; nothing waits for the device, as it would for their numbers."""
    return torch.stack([batch[entry] for entry in entries])


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
    logits_of_one: int
    """How many logits of one component and class changed by more than rounding allows."""
    most: int
    """How many labels changed in the component where most did."""
    tolerance: Tolerance = COARSE
    hidden: float = 0.0
    """The rounding that is allowed, as a share of what noise changes, in the class where it is largest."""

    @property
    def found(self) -> str:
        """What changed by more than rounding explains; empty if nothing did."""
        if self.logits > self.tolerance.allowed:
            return f"logits changed by {self.logits:.2g} of what noise changes"
        if self.labels > self._labels_by_rounding:
            return f"{self.labels} of {self.of_labels} labels changed"
        if self.logits_of_one:
            return f"{self.logits_of_one} logits of single components changed with other entries beside them"
        return ""

    @property
    def doubtful(self) -> bool:
        """Whether what changed may yet be the rounding of a deep network, or whether that may hide a change."""
        if self.exact or self.tolerance is not COARSE or self.logits_of_one:
            return False
        few = self.logits <= DOUBT * self.tolerance.allowed and self.labels <= DOUBT * self._labels_by_rounding
        return few if self.found else self.hidden > HIDDEN

    @property
    def _labels_by_rounding(self) -> float:
        return ALLOWED * self.labels_by_noise + TIES * self.of_labels + (not self.exact)

    @property
    def open(self) -> bool:
        """Whether labels of so few entries leave it open."""
        return self.exact and (self.of_labels < FEW or self.most > (self.of_labels >= MANY))


def chosen_entries(size: int, stream: DrawStream, count: int = ENTRIES) -> list[int]:
    """The first, the last and random entries of a batch (all of a smaller one), the last first."""
    if size <= count:
        return list(range(size))[::-1]
    between = stream.rng.choice(size - 2, count - 2, replace=False) + 1
    return sorted((0, size - 1, *between.tolist()), reverse=True)


class Comparison:
    """A comparison that is on its way on the device: `changes` waits for it, and for nothing else."""

    def __init__(self, found: Sequence[torch.Tensor], *, of_labels: int, exact: bool, tolerance: Tolerance) -> None:
        self._found = torch.stack([each.to(found[-1].device, torch.float64) for each in found])
        self._of_labels, self._exact, self._tolerance = of_labels, exact, tolerance
        on_cuda = self._found.is_cuda
        self._made = torch.cuda.current_stream(self._found.device).record_event() if on_cuda else None

    @cached_property
    def changes(self) -> Changes:
        """What it found."""
        if self._made is not None:
            self._made.synchronize()
        noise, logits, of_one, hidden, labels, by_noise, most = self._found.tolist()
        return Changes(
            bool(noise), logits, int(labels), int(by_noise), self._of_labels, self._exact,
            logits_of_one=int(of_one), most=int(most), tolerance=self._tolerance, hidden=hidden,
        )  # fmt: skip


@stage("checks", whole=True)
def compared(
    first: Answers, x: torch.Tensor, ask: Callable[[list[int]], Answers], groups: Sequence[list[int]],
    tolerance: Tolerance,
) -> Comparison:  # fmt: skip
    """Compare ``first``, answers to chosen entries of a batch, with the answers to them in other batches.

    ``ask`` is called with each group of positions in ``first``, such as `pairs` or `halves`, and gives new answers.
    """
    exact = not first.output.is_floating_point()
    noise, labels = _all_equal(first.batch, x), []
    logits = None if exact else _Logits(first.output, tolerance)
    for group in groups:
        again, some = ask(group), _as_slice(group)
        noise = noise | _inputs_differ(first.batch[some], again.batch, x)
        labels.append(_unequal(first.labels[some], again.labels))
        if logits is not None:
            logits.compare(some, again.output)
    changed = torch.cat(labels)
    by_noise = _unequal(first.labels, first.labels.roll(1, 0)).sum()
    nothing = torch.zeros(())
    of_logits = (nothing,) * 3 if logits is None else (logits.share, logits.of_one, logits.hidden)
    found = [noise, *of_logits, changed.sum(), by_noise, changed.sum(0).max()]
    return Comparison(found, of_labels=first.labels.numel(), exact=exact, tolerance=tolerance)


def changes(
    first: Answers, x: torch.Tensor, ask: Callable[[list[int]], Answers], groups: Sequence[list[int]],
    tolerance: Tolerance,
) -> Changes:  # fmt: skip
    """What `compared` finds."""
    return compared(first, x, ask, groups, tolerance).changes


@stage("checks", whole=True)
def many_changes(first: torch.Tensor, ask: Callable[[list[int]], Answers]) -> str:
    """What changed in the labels of many entries, (B, *components), by more than rounding explains; empty if nothing.

    In all labels, and in each component: two more may be ties, and the worst of many components shows a few more, as
    counts vary by about their root.
    """
    changed = torch.cat([_unequal(first[group], ask(group).labels) for group in pairs(len(first))])
    by_noise = _unequal(first, first.roll(1, 0))
    total, size = int(changed.sum()), changed.numel()
    if total > ALLOWED * int(by_noise.sum()) + TIES * size + 2:
        return f"{total} of {size} labels changed"
    ties, noisy = 2 + math.log2(first[0].numel()) / 4, by_noise.sum(0)
    wrong = changed.sum(0) > OF_ONE * noisy + noisy.sqrt() + ties
    return f"{int(wrong.sum())} components changed as noise changes them" if wrong.any() else ""


def pairs(count: int) -> list[list[int]]:
    """Positions in pairs, from the last; of two, each alone.

    Of entries as `chosen_entries` gives them each gets another place: the last one of the batch comes first in its
    pair, and the first one last.
    """
    step = 1 if count == 2 else 2
    return [list(range(max(stop - step, 0), stop)) for stop in range(count, 0, -step)]


def halves(count: int) -> list[list[int]]:
    """Every other position, then the rest: no batch holds all entries that were chosen, such as the first and last."""
    return [list(range(start, count, 2)) for start in (0, 1)]


def _as_slice(group: list[int]) -> slice:
    """Positions at equal distances as a slice, which takes no copies."""
    return slice(group[0], group[-1] + 1, group[1] - group[0] if len(group) > 1 else 1)


def inputs_differ(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether two draws of the same noise at x differ by more than rounding."""
    return bool(_inputs_differ(a, b, x))


def _inputs_differ(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    noise, rounding = (a - x).abs().max().double(), torch.finfo(a.dtype).eps * a.abs().max().double()
    return (a - b).abs().max().double() > 0.01 * noise + 4 * rounding


def _all_equal(batch: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Whether noise did something, but the same to each of several entries."""
    if len(batch) <= 2:
        return torch.zeros((), dtype=torch.bool, device=batch.device)
    return (batch == batch[:1]).all() & (batch[0] != x.to(batch.dtype)).any()


def _unequal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a != b if a.shape == b.shape else torch.ones_like(a, dtype=torch.bool)


class _Logits:
    """How second answers to some entries differ from the first logits, (B, classes, *components)."""

    def __init__(self, output: torch.Tensor, allowed: Tolerance) -> None:
        self._output, self._allowed = output, allowed
        self._axes = [axis for axis in range(output.ndim) if axis != 1]
        self._rounding = _by_own_scale(output, allowed) if allowed.own else _by_range(output, allowed, self._axes)
        self._by_noise = _wide((output - output.roll(1, 0)).abs())
        self._noise_of_classes = _sum(self._by_noise, self._axes)
        self._change = self._of_one = torch.zeros((), dtype=torch.float64, device=output.device)
        self._other_shape = False

    def compare(self, group: slice, again: torch.Tensor) -> None:
        """Note the second answers to a group of entries."""
        if self._output.shape[1:] != again.shape[1:]:
            self._other_shape = True
            return
        change = (self._output[group] - again).abs()
        self._change = self._change + _share(_sum(self._beyond(change, group, 1.0), self._axes), self._noise_of_classes)
        self._of_one = self._of_one + self._beyond(change, group, WORST).sum(0)

    def _beyond(self, change: torch.Tensor, group: slice, times: float) -> torch.Tensor:
        """A change of a group's logits, beyond some times their rounding."""
        return _wide((change - self._rounding(group, times)).clamp(min=0))

    @property
    def share(self) -> torch.Tensor:
        """What logits changed, over what noise changes in all entries, in the class where it is most.

        Each class is measured alone, so that neither an offset nor another class hides a change.
        """
        return self._change.new_ones(()) if self._other_shape else self._change.max()

    @property
    def of_one(self) -> torch.Tensor:
        """How many logits of one component and class changed by more than rounding explains."""
        return (self._of_one > self._allowed.of_one * self._by_noise.sum(0)).sum()

    @property
    def hidden(self) -> torch.Tensor:
        """The rounding that is allowed, as a share of what noise changes, in the class where it is most."""
        allowed = _sum(self._rounding(slice(None), 1.0).expand_as(self._output), self._axes)
        return torch.where(self._noise_of_classes > 0, allowed / self._noise_of_classes, 0.0).max()


Rounding = Callable[[slice, float], torch.Tensor]
"""The rounding of a group's logits, some times what it usually is at most."""


def _by_range(output: torch.Tensor, allowed: Tolerance, axes: Sequence[int]) -> Rounding:
    """A share of the range of each class."""
    low, high = output.amin(list(axes), keepdim=True), output.amax(list(axes), keepdim=True)
    last_bits = allowed.last_bits * torch.finfo(output.dtype).eps * torch.maximum(high.abs(), low.abs())
    return lambda group, times: times * allowed.rounding * (high - low) + last_bits


def _by_own_scale(output: torch.Tensor, allowed: Tolerance) -> Rounding:
    """A share of each logit's own scale."""
    centre, width = _densest(output)
    bits = allowed.last_bits * torch.finfo(output.dtype).eps

    def rounding(group: slice, times: float) -> torch.Tensor:
        logits = output[group]
        size = logits.abs()
        return times * allowed.rounding * (torch.minimum(size, (logits - centre).abs()) + width) + bits * size

    return rounding


def _densest(output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The centre and the width of the shortest interval that holds a quarter of each class's logits."""
    flat = output.reshape(*output.shape[:2], -1)
    some = flat[..., :: max(1, flat.shape[2] // SAMPLE)].transpose(0, 1).flatten(1).sort(1).values
    step = some.shape[1] // 4
    widths, first = (some[:, step:] - some[:, : some.shape[1] - step]).min(1, keepdim=True)
    shape = 1, len(some), *[1] * (output.ndim - 2)
    return (some.gather(1, first) + widths / 2).reshape(shape), widths.reshape(shape)


def _wide(numbers: torch.Tensor) -> torch.Tensor:
    """The same in single precision at least: a sum of a few is exact enough, and takes half the time of double."""
    return numbers if numbers.dtype == torch.float64 else numbers.float()


def _sum(numbers: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """A sum of very many."""
    return numbers.sum(list(axes), dtype=torch.float64)


def _share(change: torch.Tensor, by_noise: torch.Tensor) -> torch.Tensor:
    return torch.where(change > 0, change / by_noise, 0.0)
