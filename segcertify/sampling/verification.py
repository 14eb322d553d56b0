"""Verification: some draws of the first batch of each size are asked again, and nothing may have changed.

They are asked a few at a time. A copy of the network on CUDA is asked for three and three beside the batch, on a stream
of its own, since small batches keep a GPU waiting for the next kernel, while a large one fills it. Any other model may
use its memory again, and is asked for pairs, one thing at a time.

Where a batch as large follows, they are asked there too, among other draws and at other places. The same kernels round
alike, so that nothing at all should have changed. If so, that is enough from then on: a few at a time a model is asked
once for each kind of input. Nobody waits for what is found before the draws are used (`Verification.settle`).

Draws that fit into one batch stay there if a few at a time have left no doubt so far, and all are asked a few at a time
where kernels round by an entry's place, so that other places tell nothing (`Experience`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import torch

from segcertify.sampling.cross_talk import (
    FINE,
    MORE,
    NONE,
    Answers,
    Changes,
    Comparison,
    Tolerance,
    changes,
    chosen_entries,
    compared,
    halves,
    many_changes,
    pairs,
    tolerance_of,
)
from segcertify.sampling.identity import is_copy
from segcertify.sampling.outputs import Outputs
from segcertify.sampling.probe import dependent_answers, dependent_noise
from segcertify.sampling.stages import stage
from segcertify.sampling.streams import Address, DrawStream

if TYPE_CHECKING:
    from segcertify.sampling.draws import Draws


@dataclass
class Experience:
    """What second answers have shown of a model so far."""

    doubt: bool | None = None
    """Whether those to a few at a time ever left doubt; None if nobody looked yet."""
    by_place: bool = False
    """Whether they changed at other places of a batch as large, but not beside other draws."""

    def note(self, changed: Changes) -> None:
        """Remember what few at a time have shown."""
        self.doubt = bool(self.doubt) or changed.doubtful


class Verification:
    """The second answers to some draws of a batch, given by the addresses of all its draws.

    With ``later`` a batch of the same size is to follow, in which they are asked again (`among_others`).
    """

    def __init__(self, draws: Draws, batch: Sequence[Address], *, later: bool = False) -> None:
        self._draws, self._batch = draws, batch
        self._ahead: dict[int, Answers] = {}
        self._among: Comparison | None = None
        self._asks_few = not (later and len(batch) in draws.probe.sizes)
        self._own = draws.x.is_cuda and is_copy(draws.model)
        """Whether the model's answers lie in memory of their own: it does not use that again."""
        asked_now = self._own and self._asks_few
        self._before = torch.cuda.current_stream(draws.x.device).record_event() if asked_now else None

    @property
    def again(self) -> list[Address]:
        """The draws that are asked again, in their order."""
        return [self._batch[entry] for entry in self._entries]

    @property
    def size(self) -> int:
        """Of the batch."""
        return len(self._batch)

    @property
    def asked_among_others(self) -> bool:
        """Whether `among_others` was told what they say."""
        return self._among is not None

    def first(self, drawn: Outputs) -> Outputs:
        """Note the batch's own answers; the same outputs, where they outlast what is asked from here on."""
        self._first = drawn.at(self._entries)
        if self._before is not None:
            self._ask_beside(self._before)
            _ = self._of_few  # on their way before the device has done anything
        return drawn if self._own else drawn.kept()

    def among_others(self, answers: Answers) -> None:
        """Compare with the answers to all of them in another batch of the same size, without waiting for the device."""
        everything = [list(range(len(self._entries)))]
        self._among = self._compared(lambda _: answers, everything, NONE)
        self._kept = answers  # as long as the other stream may read them

    def compare(self, drawn: Outputs) -> Outputs:
        """`settle` at once; the outputs, where the model left them alone."""
        changed = self._of_few.changes
        drawn = drawn.kept() if changed.doubtful else drawn
        self.settle()
        if found := self._more(drawn, changed):
            raise dependent_answers(self._draws.model, found)
        return drawn

    def settle(self) -> None:
        """Refuse a model or a noise whose draws influence each other."""
        among = None if self._among is None else self._among.changes
        if among is not None and among.noise:
            raise dependent_noise(self._draws.noise)
        alike = among is not None and not among.found
        if self._asks_few or not alike:
            self._settle_few(alike=alike, asked=among is not None)
        self._draws.probe.sizes.add(self.size)

    def _settle_few(self, *, alike: bool, asked: bool) -> None:
        """The same by what few were asked at a time.

        Where that leaves doubt, or nothing was ``alike`` among others that were ``asked``, copies are put beside them.
        """
        draws, changed = self._draws, self._of_few.changes
        draws.require_finite(*self._batch[0])
        draws.experience.note(changed)
        if changed.noise:
            raise dependent_noise(draws.noise)
        if changed.found and not changed.doubtful:
            raise dependent_answers(draws.model, changed.found)
        if not alike and (asked or changed.doubtful):
            groups = halves(len(self._entries))
            changed = changes(self._first, draws.read_input, self._among_copies, groups, FINE)
            if changed.found:
                raise dependent_answers(draws.model, changed.found)
            draws.experience.by_place |= asked

    @cached_property
    def _of_few(self) -> Comparison:
        """What changed where few are asked at a time."""
        tolerance = tolerance_of(self._draws.model, self._first.output)
        if self._before is None:
            return compared(self._first, self._draws.read_input, self._ask, pairs(len(self._entries)), tolerance)
        return self._compared(lambda group: self._ahead[group[0]], halves(len(self._entries)), tolerance)

    def _compared(
        self, ask: Callable[[list[int]], Answers], groups: Sequence[list[int]], tolerance: Tolerance
    ) -> Comparison:  # fmt: skip
        """Compare with the first answers; on CUDA on the stream of the second ones, while draws are counted."""
        x = self._draws.read_input
        if not x.is_cuda:
            return compared(self._first, x, ask, groups, tolerance)
        beside = _beside(x.device)
        beside.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(beside):
            return compared(self._first, x, ask, groups, tolerance)

    @cached_property
    def _entries(self) -> list[int]:
        """The entries that are asked again."""
        return self._chosen()

    def _chosen(self, *count: int) -> list[int]:
        draws, size = self._draws, len(self._batch)
        return chosen_entries(size, DrawStream(draws.seed, draws.input_id, "verify", size), *count)

    def _ask_beside(self, before: Any) -> None:
        """Ask each half while the batch is on its way: from ``before``, an event, on."""
        beside = _beside(self._draws.x.device)
        beside.wait_event(before)
        with stage("checks", whole=True), torch.cuda.stream(beside):
            self._ahead = {group[0]: self._ask(group) for group in halves(len(self._entries))}

    def _ask(self, positions: list[int]) -> Answers:
        """New answers to some of the entries, in a batch of these alone."""
        return self._draws.made([self._batch[self._entries[position]] for position in positions]).answers()

    def _among_copies(self, positions: list[int]) -> Answers:
        """New answers to some of the entries, each at its place in a batch as large, among copies of another draw."""
        places = [self._entries[position] for position in positions]
        other: Address = ("neighbour", places[0])
        batch = [address if place in places else other for place, address in enumerate(self._batch)]
        return self._draws.made(batch).at(places)

    def _more(self, drawn: Outputs, changed: Changes) -> str:
        """What changed in the labels of more entries, where six leave it open; empty if nothing."""
        if not changed.open or len(self._batch) <= len(self._entries):
            return ""
        more = self._chosen(MORE)

        def ask(positions: list[int]) -> Answers:
            return self._draws.made([self._batch[more[position]] for position in positions]).answers()

        return many_changes(drawn.labels[more], ask)


@cache
def _beside(device: torch.device) -> torch.cuda.Stream:
    """The stream of the second answers: its small kernels go first, or each would wait for a large one."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
