"""Counting labels over draws, a batch at a time: memory does not grow with the number of draws."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import COUNTS, Checkpoint, State
from segcertify.sampling.draws import Draws, count_type
from segcertify.sampling.segmenter import LARGEST_LABEL
from segcertify.votes import Votes

_BLOCK = 2**20

Counts = Iterator[tuple[int, torch.Tensor]]
"""After each batch the index of the next draw, and its label maps or the counts so far."""


def class_counts(batches: Counts, counts: torch.Tensor) -> Counts:
    """How often each class came up, (classes, *components), from batches of label maps; goes on from ``counts``."""
    for stop, labels in batches:
        missing = int(labels.max()) + 1 - len(counts)
        if missing > 0:
            counts = torch.cat([counts, counts.new_zeros((missing, *counts.shape[1:]))])
        counts.scatter_add_(0, labels, counts.new_ones(()).expand(labels.shape))
        yield stop, counts


def agreement(batches: Counts, labels: torch.Tensor, agree: torch.Tensor) -> Counts:
    """How many draws gave each component its label in ``labels``, (*components); goes on from ``agree``."""
    for stop, drawn in batches:
        agree += (drawn == labels).sum(0, dtype=agree.dtype)
        yield stop, agree


def most_frequent(counts: torch.Tensor) -> torch.Tensor:
    """The class of the largest count (the lowest of equals), (*components): in blocks, as indices take 64 bits."""
    blocks = torch.split(counts.reshape(len(counts), -1), _BLOCK, 1)
    return torch.cat([block.argmax(0).to(count_type(LARGEST_LABEL)) for block in blocks]).view(counts.shape[1:])


def last(counts: Counts) -> torch.Tensor:
    """The counts of all draws."""
    *_, (_, total) = counts
    return total


def two_passes(
    draws: Draws, saved: Checkpoint, *, n: int, n0: int, first: int = 0, prefixes: Sequence[int] = (),
    progress: bool | Advance | None = None,
) -> Votes:  # fmt: skip
    """Candidates from n0 draws, and their agreement with n fresh draws from ``first`` on [Fischer2021, Sample]."""
    state = saved.load() or State("candidate", 0, draws.batch_size, {})
    draws.batch_size = state.batch_size  # resuming keeps the batch partition
    with saved.watching(), progress_bar(n0 + n, "sampling", show=progress) as advance:
        advance(state.done + (n0 if state.phase == "agree" else 0))
        if state.phase == "candidate":
            counts = state.counts(draws.zeros(n0, draws.classes))
            batches = draws.batches("candidate", state.done, n0, advance=advance)
            for stop, counts in class_counts(batches, counts):  # noqa: B020
                saved.save_if_due("candidate", stop, {COUNTS: counts})
            candidate = most_frequent(counts)  # top index
            del counts
            state = State("agree", 0, draws.batch_size, {})
        else:
            candidate = state.goes_on("candidate", draws.zeros(LARGEST_LABEL))
        agree = state.goes_on("agree", draws.zeros(n))
        earlier = {m: state.goes_on(f"agree_{m}", agree) for m in prefixes if m <= state.done}
        ends = [first + m for m in prefixes]
        batches = draws.batches("agree", first + state.done, first + n, ends=ends, advance=advance)
        for stop, agree in agreement(batches, candidate, agree):  # noqa: B020
            if stop in ends:
                earlier[stop - first] = agree.clone()
            arrays = {"candidate": candidate, "agree": agree} | {f"agree_{m}": each for m, each in earlier.items()}
            saved.save_if_due("agree", stop - first, arrays, last=stop == first + n)
    votes = draws.record(candidate.cpu().numpy(), agree.cpu().numpy(), n=n, n0=n0)
    return replace(votes, draws=((first, first + n),), earlier={m: each.cpu().numpy() for m, each in earlier.items()})
