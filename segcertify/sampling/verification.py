"""Verification: some draws of the first batch of each size are asked again, and nothing may have changed.

Of a faster copy on CUDA they are asked beside the batch, on a stream of their own: small batches keep a GPU waiting for
the next kernel, while a large one fills it. Any other model may use its memory again, and is asked one thing at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from segcertify.sampling.cross_talk import (
    FINE,
    MORE,
    Answers,
    Changes,
    changes,
    chosen_entries,
    halves,
    many_changes,
    pairs,
    tolerance_of,
)
from segcertify.sampling.identity import EXECUTION, Execution
from segcertify.sampling.outputs import Outputs
from segcertify.sampling.probe import dependent_answers, dependent_noise
from segcertify.sampling.stages import stage
from segcertify.sampling.streams import Address, DrawStream

if TYPE_CHECKING:
    from segcertify.sampling.draws import Draws


class Verification:
    """The second answers to some draws of a batch, given by the addresses of all its draws."""

    def __init__(self, draws: Draws, batch: Sequence[Address]) -> None:
        self._draws, self._batch = draws, batch
        self._entries = self._chosen()
        self._ahead: dict[int, Answers] = {}
        beside = draws.x.is_cuda and isinstance(getattr(draws.model, EXECUTION, None), Execution)
        self._before = torch.cuda.current_stream(draws.x.device).record_event() if beside else None

    def first(self, drawn: Outputs) -> Outputs:
        """Note the batch's own answers; the same outputs, where they outlast what is asked from here on."""
        self._first = drawn.at(self._entries)
        if self._before is None:
            return drawn.kept()
        self._ask_beside(self._before)
        return drawn

    def compare(self, drawn: Outputs) -> Outputs:
        """Refuse a model or a noise whose draws influence each other; the outputs, where the model left them alone."""
        draws, x = self._draws, self._draws.read_input
        if self._before is not None:
            torch.cuda.current_stream(x.device).wait_stream(_beside(x.device))
        tolerance = tolerance_of(draws.model, self._first.output)
        changed = changes(self._first, x, self._again, pairs(len(self._entries)), tolerance)
        draws.require_finite(*self._batch[0])
        if changed.noise:
            raise dependent_noise(draws.noise)
        if changed.doubtful:
            drawn = drawn.kept()
            changed = changes(self._first, x, self._among_others, halves(len(self._entries)), FINE)
        if found := changed.found or self._more(drawn, changed):
            raise dependent_answers(draws.model, found)
        return drawn

    def _chosen(self, *count: int) -> list[int]:
        draws, size = self._draws, len(self._batch)
        return chosen_entries(size, DrawStream(draws.seed, draws.input_id, "verify", size), *count)

    def _ask_beside(self, before: Any) -> None:
        """Ask each pair while the batch is on its way: from ``before``, an event, on."""
        beside = _beside(self._draws.x.device)
        beside.wait_event(before)
        with stage("checks", whole=True), torch.cuda.stream(beside):
            self._ahead = {group[0]: self._ask(group) for group in pairs(len(self._entries))}

    def _again(self, positions: list[int]) -> Answers:
        return self._ahead.pop(positions[0]) if self._ahead else self._ask(positions)

    def _ask(self, positions: list[int]) -> Answers:
        """New answers to some of the entries, in a batch of these alone."""
        return self._draws.made([self._batch[self._entries[position]] for position in positions]).answers()

    def _among_others(self, positions: list[int]) -> Answers:
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
