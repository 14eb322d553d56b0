"""Draws that workers make: the driver cuts them into ranges, adds up what comes back in order, and needs no model.

A draw's noise depends on (seed, input id, index) alone, so any split gives the same draws. Ranges are cut where a run
in one process would cut its batches, so that every batch holds the same draws there and here: on one kind of device,
with as many threads, the votes are equal bit for bit.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.noise import Noise
from segcertify.progress import Advance
from segcertify.sampling.at_input import InputAnswers
from segcertify.sampling.draws import Counts, Draws
from segcertify.sampling.inputs import Input, as_floats, input_digest, require_input
from segcertify.sampling.metrics import MetricRecorder
from segcertify.sampling.running import Begin
from segcertify.sampling.seeds import Seed, seed_of_run
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.smooth import Smooth
from segcertify.sampling.streams import Phase
from segcertify.sampling.tasks import AnswerAtInput, Compare, Count, Part, Prepare, Prepared, Subject, Watch, Workers

Smoothing = Callable[..., Smooth]
"""From a model, a noise and the arguments of `Smooth`, and perhaps a category, to a smoothed model."""

RANGE_SECONDS = 5.0
"""About how long a worker draws before it answers: what a lost worker costs, and how often a run can be saved."""


def alone(model: Segmenter, noise: Noise, *, category: str = "", **options: Any) -> Smooth:
    """A smoothed model whose draws this process makes; ``model`` is that of the category."""
    return Smooth(model, noise, **options)


class SharedSmooth(Smooth):
    """A smoothed model whose draws workers make, who hold the model: it need not be on their device here.

    Every worker probes the model for each shape of inputs, and looks for cross-talk, as `Smooth` does.
    """

    def __init__(
        self, workers: Workers, model: Segmenter, noise: Noise, *, seed: int | Seed | None = None,
        batch_size: int | None = None, device: str | torch.device | None = None, category: str = "",
    ) -> None:  # fmt: skip
        """``device`` is not asked for: the workers have theirs."""
        super().__init__(model, noise, seed=seed, batch_size=batch_size, device="cpu")
        self.workers, self.category = workers, category
        self._prepared: dict[tuple[torch.Size, torch.dtype], Future[Prepared]] = {}
        self._preparing = threading.Lock()
        self.pace: dict[torch.Size, float] = {}
        """The seconds of a draw at inputs of each shape, as last measured."""

    def draws(
        self, x: Input, input_id: str = "", *, recorded: Seed | None = None, begin: Begin | None = None
    ) -> Draws:  # fmt: skip
        """The addressed draws at one input, after a worker's checks of the model. None is begun here."""
        given = as_floats(x)
        x = require_input(given, torch.device("cpu"))
        self.noise.check(tuple(x.shape))
        seed = seed_of_run(self._seed, recorded)
        subject = Subject(str(input_id), input_digest(x), self.noise, seed.value, self.category, self.batch_size)
        array = self.workers.put(x.contiguous().numpy())
        kind = x.shape, x.dtype
        with self._preparing:
            if new := kind not in self._prepared:
                self._prepared[kind] = self.workers.submit(Prepare(subject), array, about=subject.input_id)
        prepared = self._prepared[kind].result()
        self._running.described = prepared.identity
        for said in prepared.warnings if new else ():
            warnings.warn(said, stacklevel=2)
        draws = SharedDraws(self, subject, x, array=array, prepared=prepared, seed=seed)
        draws.even = self.batch_size is None
        return draws


class SharedDraws(Draws):
    """The draws of one input, made by workers. `SharedSmooth.draws` makes them."""

    def __init__(
        self, smooth: SharedSmooth, subject: Subject, x: torch.Tensor, *, array: Any, prepared: Prepared, seed: Seed
    ) -> None:
        super().__init__(
            smooth.model, smooth.noise, x, prepared.probe, seed=seed.value, seed_given=seed.given,
            input_id=subject.input_id,
        )  # fmt: skip
        self._workers, self._pace, self._array = smooth.workers, smooth.pace, array
        self._subject = replace(subject, first=prepared)
        self._identity = prepared.identity

    @property
    def identity(self) -> dict[str, Any]:
        """The model as it runs in the workers."""
        return self._identity

    def describe(self) -> dict[str, Any]:
        """As if one process drew, on the workers' device: its checkpoints go on here, and these there."""
        return {**super().describe(), "device": self._workers.device}

    def answers_at_input(self) -> InputAnswers:
        """What tells the workers' model from others at this input."""
        found: InputAnswers = self._ask(AnswerAtInput(self._subject)).result()
        return found

    def may_give(self, labels: Array) -> bool:
        """Whether stored labels may be the model's, up to rounding."""
        return bool(self._ask(Compare(self._subject), labels).result())

    def class_counts(
        self, phase: Phase, start: int, stop: int, counts: torch.Tensor, classes: int | None = None, *,
        ends: Sequence[int] = (), advance: Advance = lambda step: None,
    ) -> Counts:  # fmt: skip
        """As `Draws.class_counts`, a range at a time."""
        task = partial(Count, classes=classes)
        for end, part in self._parts(task, phase, start, stop, ends=ends, advance=advance):
            found = torch.from_numpy(part.counts.copy()).to(counts.dtype)
            if len(found) > len(counts):
                counts = torch.cat([counts, counts.new_zeros((len(found) - len(counts), *counts.shape[1:]))])
            counts[: len(found)] += found
            yield end, counts

    def agreement(
        self, phase: Phase, start: int, stop: int, labels: torch.Tensor, agree: torch.Tensor, *,
        ends: Sequence[int] = (), advance: Advance = lambda step: None,
    ) -> Counts:  # fmt: skip
        """As `Draws.agreement`, a range at a time."""
        array = self._workers.put(labels.numpy())
        for end, part in self._parts(Count, phase, start, stop, array, ends=ends, advance=advance):
            agree += torch.from_numpy(part.counts.copy()).to(agree.dtype)
            yield end, agree

    def watched(
        self, phase: Phase, start: int, stop: int, *, advance: Advance = lambda step: None
    ) -> Iterator[int]:  # fmt: skip
        """As `Draws.watched`, a range at a time."""
        for end, _ in self._parts(Watch, phase, start, stop, advance=advance):
            yield end

    def outputs(self, *arguments: Any, **more: Any) -> Iterator[Any]:
        """The label maps stay in the workers, whatever would take them here."""
        raise InputError("the draws of workers are counted there: to look at label maps, sample without workers")

    def _ask(self, task: Any, *arrays: Any) -> Future[Any]:
        return self._workers.submit(task, self._array, *arrays, about=self.input_id)

    def _parts(
        self, task: Callable[..., Count], phase: Phase, start: int, stop: int, *arrays: Any, ends: Sequence[int] = (),
        advance: Advance,
    ) -> Iterator[tuple[int, Part]]:  # fmt: skip
        """The parts of draws start .. stop - 1 in order, and where each ends: only a few ranges are asked for ahead."""
        waiting: deque[tuple[int, int, Future[Part]]] = deque()
        if not isinstance(self.watch, MetricRecorder | None):
            raise InputError("workers measure metrics, and call no other function: sample without workers to watch")
        recorder = self.watch if phase == "agree" else None
        metrics = None if recorder is None else self._workers.put(recorder.metrics)
        try:
            while start < stop or waiting:
                while start < stop and len(waiting) <= self._workers.share:
                    limit = min(end for end in (*ends, stop) if end > start)
                    end = min(start + self._range(stop - start), limit)
                    wanted = task(self._subject, phase, start, end, self.batch_size)
                    waiting.append((start, end, self._ask(wanted, metrics, *arrays)))
                    start = end
                begin, end, future = waiting.popleft()
                part = future.result()
                self.batch_size = min(self.batch_size, part.batch_size)
                self._pace[self.x.shape] = part.seconds / (end - begin)
                if recorder is not None and part.values is not None:
                    recorder.note(begin, part.values)
                advance(end - begin)
                yield end, part
        finally:
            for _, _, future in waiting:
                future.cancel()

    def _range(self, left: int) -> int:
        """How many draws a worker makes next: whole batches, of about `RANGE_SECONDS`, some for each that helps."""
        batches = int(RANGE_SECONDS / max(self._pace.get(self.x.shape, RANGE_SECONDS) * self.batch_size, 1e-9))
        share = -(-left // (self._workers.share * self.batch_size))
        return max(1, min(batches, share)) * self.batch_size
