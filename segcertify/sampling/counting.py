"""Counting labels over draws, a batch at a time: memory does not grow with the number of draws."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from segcertify.arrays import IntArray
from segcertify.chunks import copied, handed_over
from segcertify.class_counts import from_planes
from segcertify.errors import InputError, require_integer
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import COUNTS, Checkpoint, State
from segcertify.sampling.draws import Counts, Draws, count_type
from segcertify.sampling.segmenter import LARGEST_LABEL
from segcertify.votes import Votes

_BLOCK = 2**20

Arrays = Mapping[str, torch.Tensor]
"""What a checkpoint keeps of a run, by name."""
PILOT = f"{COUNTS}_of_pilot"
Stop = Callable[[int, torch.Tensor, Mapping[int, torch.Tensor]], bool]
"""Whether to end a run: from the draws done, the candidates, and the agreement at each prefix so far."""


def most_frequent(counts: torch.Tensor) -> torch.Tensor:
    """The class of the largest count (the lowest of equals), (*components): in blocks, as indices take 64 bits."""
    blocks = torch.split(counts.reshape(len(counts), -1), _BLOCK, 1)
    return torch.cat([block.argmax(0).to(count_type(LARGEST_LABEL)) for block in blocks]).view(counts.shape[1:])


def last(counts: Counts) -> torch.Tensor:
    """The counts of all draws."""
    *_, (_, total) = counts
    return total


@dataclass(frozen=True)
class Kept:
    """What is kept of the classes' counts: ``counts`` says whether, ``classes`` is their number where known."""

    counts: bool = False
    classes: int | None = None

    @classmethod
    def of(cls, draws: Draws, counts: bool, classes: int | None) -> Self:
        """With as many classes as the model's logits have, or as the caller says."""
        if classes is not None and draws.classes not in (None, require_integer("classes", classes)):
            raise InputError(f"the model's logits have {draws.classes} classes, but classes={classes}: leave it out")
        return cls(counts, draws.classes or classes)


def require_prefixes(prefixes: Sequence[int], looks: Sequence[int], *, n: int, n0: int) -> list[int]:
    """After how many draws counts are also kept, rising: those asked for, and all looks before the last draw."""
    if not isinstance(prefixes, Iterable):
        raise InputError(f"prefixes must be a sequence of numbers such as (100, 300), but got {prefixes!r}")
    rising = sorted({require_integer("a prefix", m) for m in (*prefixes, *looks)} - {n})
    if rising and rising[-1] > n:
        raise InputError(f"prefixes must not exceed n={n}, but got {rising[-1]}")
    if rising and not n0:
        raise InputError("prefixes are for votes with a pilot (n0 >= 1): sample each n anew")
    return rising


def sampled(
    draws: Draws, saved: Checkpoint, *, n: int, n0: int, first: int = 0, prefixes: Sequence[int] = (),
    kept: Kept, progress: bool | Advance | None = None, stops: Stop = lambda done, candidate, counts: False,
    about: Mapping[str, Any],
) -> Votes:  # fmt: skip
    """Candidates from n0 draws, and their agreement with n fresh draws from ``first`` on [Fischer2021, Sample].

    Without a pilot (n0 = 0) the n draws choose the candidates too. With one, ``stops`` is asked after each prefix, and
    may end the run there. ``about`` are more fields of the votes.
    """
    state = saved.load() or State("candidate" if n0 else "agree", 0, draws.batch_size, {})
    draws.batch_size = state.batch_size  # resuming keeps the batch partition
    done = state.done + (n0 if state.phase == "agree" else 0)
    expected = draws.seconds * (n0 + n - done)
    with saved.watching(), progress_bar(n0 + n, "sampling", show=progress, expected=expected) as advance:
        advance(done)
        candidate = None
        pilot: Arrays = {}
        if state.phase == "candidate":
            draws.ahead = range(first, first + min((*prefixes, n)))
            candidate, counts = _candidates(draws, saved, state, n0, known=kept.classes, advance=advance)
            draws.ahead = range(0)
            pilot = {"candidate": candidate} | ({PILOT: counts.cpu()} if kept.counts else {})
            state = State("agree", 0, draws.batch_size, {})
        elif n0:
            candidate = state.goes_on("candidate", draws.zeros(LARGEST_LABEL))
            zeros = draws.zeros(n0, kept.classes or 1).cpu()
            pilot = {"candidate": candidate} | ({PILOT: state.counts(zeros, PILOT, draws=n0)} if kept.counts else {})
        if candidate is None or kept.counts:
            return _counted(
                draws, saved, state, pilot, n=n, n0=n0, first=first, prefixes=prefixes, kept=kept, advance=advance,
                about=about,
            )  # fmt: skip
        return _agreed(
            draws, saved, state, candidate, n=n, n0=n0, first=first, prefixes=prefixes, advance=advance, stops=stops,
            about=about,
        )  # fmt: skip


def _candidates(
    draws: Draws, saved: Checkpoint, state: State, n0: int, *, known: int | None, advance: Advance
) -> tuple[torch.Tensor, torch.Tensor]:
    """The most frequent label of n0 draws, and the counts of all classes in them."""
    counts = state.counts(draws.zeros(n0, known or 1))
    for stop, counts in draws.class_counts("candidate", state.done, n0, counts, known, advance=advance):  # noqa: B020
        saved.save_if_due("candidate", stop, {COUNTS: counts})
    return most_frequent(counts), counts  # top index


def _agreed(
    draws: Draws, saved: Checkpoint, state: State, candidate: torch.Tensor, *, n: int, n0: int, first: int,
    prefixes: Sequence[int], advance: Advance, stops: Stop, about: Mapping[str, Any],
) -> Votes:  # fmt: skip
    """How many of n draws agree with the candidates, also after fewer draws, of which one may be the last."""
    agree, candidate_leaving = state.goes_on("agree", draws.zeros(n)), _leaving(candidate)
    earlier = {m: state.goes_on(f"agree_{m}", agree) for m in prefixes if m <= state.done}
    ends, done = [first + m for m in prefixes], state.done
    n = done if done in earlier and stops(done, candidate, earlier) else n  # a run that had ended, resumed
    counted = draws.agreement("agree", first + state.done, first + n, candidate, agree, ends=ends, advance=advance)
    for stop, agree in counted:
        if stop in ends:
            earlier[stop - first] = agree.clone()
        done = stop - first
        arrays = {"candidate": candidate, "agree": agree} | {f"agree_{m}": each for m, each in earlier.items()}
        saved.note("agree", done, arrays)
        n = done if stop in ends and stops(done, candidate, earlier) else n
        saved.save_if_due("agree", done, arrays, last=done == n)
        if done == n:
            break
    earlier.pop(n, None)
    labels = handed_over(copied(candidate_leaving(), np.int32)[0])  # while a GPU may still be counting
    others = {"earlier": {m: _leaving(each)() for m, each in earlier.items()}, "draws": ((first, first + n),)}
    tally = torch.bincount(agree.flatten().int(), minlength=n + 1) if agree.is_cuda else None
    votes = draws.record(labels, _leaving(agree)(), n=n, n0=n0, others={**about, **others})
    if tally is not None and votes.mask is None:
        votes.keep_histogram(tally.cpu().numpy())
    return votes


def _counted(
    draws: Draws, saved: Checkpoint, state: State, pilot: Arrays, *, n: int, n0: int, first: int,
    prefixes: Sequence[int], kept: Kept, advance: Advance, about: Mapping[str, Any],
) -> Votes:  # fmt: skip
    """How often each class came up in n draws, also after fewer; without candidates, the most frequent ones."""
    candidate = pilot.get("candidate")
    seen = 0 if candidate is None else int(candidate.max())  # no draw may give a label that the pilot gave
    if kept.classes is not None and seen >= kept.classes:
        raise InputError(f"the candidate labels reach {seen}, but there are {kept.classes} classes")
    zeros, ends = draws.zeros(n, kept.classes or seen + 1), [first + m for m in prefixes]
    counts = state.counts(zeros)
    earlier = {
        f"{COUNTS}_{m}": state.counts(zeros.cpu(), f"{COUNTS}_{m}", draws=m) for m in prefixes if m <= state.done
    }
    start, stop = first + state.done, first + n
    for stop, counts in draws.class_counts(  # noqa: B020
        "agree", start, stop, counts, kept.classes, ends=ends, advance=advance
    ):
        if stop in ends:
            earlier[f"{COUNTS}_{stop - first}"] = counts.cpu().clone()
        saved.save_if_due("agree", stop - first, {COUNTS: counts, **pilot, **earlier}, last=stop == first + n)
    labels = most_frequent(counts) if candidate is None else candidate
    found = {m: earlier[f"{COUNTS}_{m}"] for m in prefixes}
    others = {
        "earlier": {m: _at(each, labels.cpu()) for m, each in found.items()},
        "counts": _planes(counts, n) if kept.counts else None,
        "earlier_counts": {m: _planes(each, m) for m, each in found.items()},
        "pilot_counts": _planes(pilot[PILOT], n0) if PILOT in pilot else None,
        "classes": kept.classes,
        "draws": ((first, first + n),),
    }
    return draws.record(labels.cpu().numpy(), _at(counts, labels), n=n, n0=n0, others={**about, **others})


def _leaving(numbers: torch.Tensor) -> Callable[[], IntArray]:
    """Gives numbers as an array, and waits for nothing that a GPU was asked for since.

    From a GPU they go through page-locked memory, which is several times as fast.
    """
    if not numbers.is_cuda:
        return lambda: np.asarray(numbers.numpy())
    locked = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
    left = torch.cuda.current_stream(numbers.device).record_event()

    def arrived() -> IntArray:
        left.synchronize()
        return np.asarray(locked.numpy())

    return arrived


def _at(counts: torch.Tensor, labels: torch.Tensor) -> IntArray:
    """How often each component's label came up."""
    return np.asarray(counts.gather(0, labels[None].long())[0].cpu().numpy())


def _planes(counts: torch.Tensor, n: int) -> IntArray:
    """The counts of all classes, in the type that votes keep."""
    return from_planes((plane.cpu().numpy() for plane in counts), n)
