"""Counting labels over draws, a batch at a time: memory does not grow with the number of draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from segcertify.arrays import Array
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import Checkpoint, State
from segcertify.sampling.draws import Draws
from segcertify.sampling.streams import Phase
from segcertify.votes import Votes

After = Callable[[int, torch.Tensor], None]
"""Called after each batch with the index of the next draw and the counts so far."""


def _nothing(*arguments: object) -> None:
    pass


def class_counts(
    draws: Draws,
    phase: Phase,
    n: int,
    *,
    start: int = 0,
    counts: Array | None = None,
    advance: Advance = _nothing,
    after: After = _nothing,
) -> torch.Tensor:
    """How often each class came up, (classes, *components); draws before ``start`` are in ``counts`` already."""
    total = _begin(draws, counts, (1, *draws.components))
    for stop, labels in draws.batches(phase, start, n, advance=advance):
        missing = int(labels.max()) + 1 - len(total)
        if missing > 0:
            total = torch.cat([total, total.new_zeros((missing, *draws.components))])
        total.scatter_add_(0, labels, torch.ones_like(labels, dtype=total.dtype))
        after(stop, total)
    return total


def agreement(
    draws: Draws,
    labels: torch.Tensor,
    start: int,
    stop: int,
    *,
    agree: Array | None = None,
    ends: Sequence[int] = (),
    advance: Advance = _nothing,
    after: After = _nothing,
) -> torch.Tensor:
    """How many of the "agree" draws start .. stop - 1 gave each component its label in ``labels``."""
    total = _begin(draws, agree, draws.components)
    for index, drawn in draws.batches("agree", start, stop, ends=ends, advance=advance):
        total += (drawn == labels).sum(0)
        after(index, total)
    return total


def two_passes(
    draws: Draws,
    saved: Checkpoint,
    *,
    n: int,
    n0: int,
    first: int = 0,
    prefixes: Sequence[int] = (),
    progress: bool | Advance | None = None,
) -> Votes:
    """Candidates from n0 draws, and their agreement with n fresh draws from ``first`` on [Fischer2021, Sample]."""
    state = saved.load() or State("candidate", 0, draws.batch_size, {})
    draws.batch_size = state.batch_size  # resuming keeps the batch partition
    with saved.watching(), progress_bar(n0 + n, "sampling", show=progress) as advance:
        advance(state.done + (n0 if state.phase == "agree" else 0))
        if state.phase == "candidate":
            counts = class_counts(
                draws, "candidate", n0, start=state.done, counts=state.arrays.get("counts"), advance=advance,
                after=lambda stop, counts: saved.save_if_due(
                    lambda: State("candidate", stop, draws.batch_size, {"counts": counts.cpu().numpy()})
                ),
            )  # fmt: skip
            candidate = counts.argmax(0)  # top index; the lowest label among equals
            state = State("agree", 0, draws.batch_size, {})
        else:
            candidate = torch.from_numpy(state.arrays["candidate"]).to(draws.x.device)
        earlier = {m: state.arrays[f"agree_{m}"] for m in prefixes if m <= state.done}

        def after(stop: int, agree: torch.Tensor) -> None:
            if stop - first in prefixes:
                earlier[stop - first] = agree.cpu().numpy().copy()
            arrays = {f"agree_{m}": counts for m, counts in earlier.items()}
            saved.save_if_due(
                lambda: State(
                    "agree", stop - first, draws.batch_size,
                    arrays | {"candidate": candidate.cpu().numpy(), "agree": agree.cpu().numpy()},
                ),
                last=stop == first + n,
            )  # fmt: skip

        agree = agreement(
            draws, candidate, first + state.done, first + n, agree=state.arrays.get("agree"),
            ends=[first + m for m in prefixes], advance=advance, after=after,
        )  # fmt: skip
    votes = draws.record(candidate.cpu().numpy(), agree.cpu().numpy(), n=n, n0=n0)
    return replace(votes, draws=((first, first + n),), earlier=earlier)


def _begin(draws: Draws, counts: Array | None, shape: tuple[int, ...]) -> torch.Tensor:
    """Counts to go on with, on the draws' device."""
    start = torch.zeros(shape, dtype=torch.int32) if counts is None else torch.from_numpy(counts)
    return start.to(draws.x.device)
