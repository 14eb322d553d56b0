"""Tasks: what the driver of a run asks the workers that hold its model, and what these answer.

A worker makes draws as a run in one process does, by `Smooth`: with the same probe for each shape of inputs, and the
same search for cross-talk at each size of batches of an input. Every process that draws is checked itself.
"""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from segcertify.arrays import Array, FloatArray, IntArray
from segcertify.errors import InputError
from segcertify.metrics.map_metrics import MapFunction
from segcertify.noise import Noise, described
from segcertify.sampling.at_input import InputAnswers
from segcertify.sampling.counting import last
from segcertify.sampling.draws import Draws
from segcertify.sampling.metrics import MetricRecorder
from segcertify.sampling.probe import Probe
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category
from segcertify.sampling.smooth import Smooth
from segcertify.sampling.streams import Phase
from segcertify.votes import model_difference, same_answers

INPUTS = 4
"""Of how many inputs a worker keeps the draws, for further tasks about them: these then need no new checks."""

Task = Callable[..., Any]
"""Called with the `Host` and with the arrays that were put for it; it travels to the worker, as does its answer."""


class Workers(Protocol):
    """Processes with a model, here or on other machines, that answer tasks."""

    @property
    def slots(self) -> int:
        """How many tasks they do at once."""

    @property
    def share(self) -> int:
        """How many tasks about one input they can do at once, if all inputs are to get as many."""

    @property
    def device(self) -> str:
        """The kind of device that they draw on, such as "cpu"."""

    def put(self, shared: Any) -> Any:
        """What several tasks need, such as an array, as `submit` takes it."""

    def submit(self, task: Task, *arrays: Any, about: str = "") -> Future[Any]:
        """Have a task done. Those about the same input go to the same worker, as long as others have work."""


class Host:
    """A model in a worker. It keeps the draws of the last inputs."""

    def __init__(self, model: Segmenter, device: str | torch.device) -> None:
        self.device = torch.device(device)
        self._model = model
        self._of_category: dict[str, Segmenter] = {"": model}
        self._smooth: dict[tuple[Any, ...], Smooth] = {}
        self._draws: OrderedDict[tuple[Any, ...], Known] = OrderedDict()

    def model(self, category: str) -> Segmenter:
        """The model for inputs of a category."""
        if category not in self._of_category:
            self._of_category[category] = for_category(self._model, category)
        return self._of_category[category]

    def draws(self, subject: Subject, x: Array) -> Draws:
        """The draws that a task is about, of the model that the first worker had. Raises `InputError` of another."""
        found = self._found(subject, x)
        if subject.first is not None:
            _require_same_model(found, subject.first)
        return found.draws

    def prepared(self, subject: Subject, x: Array) -> Prepared:
        """What is known of the model at such inputs, once it has passed the checks."""
        found = self._found(subject, x)
        return Prepared(found.draws.probe, found.draws.identity, found.model, found.warnings)

    def _found(self, subject: Subject, x: Array) -> Known:
        key = subject.input_id, subject.input_digest, *_kind(subject)
        if key not in self._draws:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                smooth = self._smoothed(subject)
                made = smooth.draws(torch.from_numpy(x.copy()), subject.input_id)
            self._draws[key] = Known(made, smooth.identity(made), tuple(str(each.message) for each in caught))
        self._draws.move_to_end(key)
        while len(self._draws) > INPUTS:
            self._draws.popitem(last=False)
        return self._draws[key]

    def _smoothed(self, subject: Subject) -> Smooth:
        kind = _kind(subject)
        if kind not in self._smooth:
            self._smooth[kind] = Smooth(
                self.model(subject.category), subject.noise, seed=subject.seed, batch_size=subject.batch_size,
                device=self.device,
            )  # fmt: skip
        return self._smooth[kind]


@dataclass(frozen=True, eq=False)
class Known:
    """The draws of an input, the model that makes them, as votes keep it, and of what the checks warned."""

    draws: Draws
    model: Mapping[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """The draws that tasks are about: of one input, under one noise. ``batch_size`` is what the caller asked for.

    ``first`` is what the worker found that was asked first: all others must have its model.
    """

    input_id: str
    input_digest: str
    noise: Noise
    seed: int
    category: str = ""
    batch_size: int | None = None
    first: Prepared | None = None


def _kind(subject: Subject) -> tuple[Any, ...]:
    """What smoothed model draws."""
    return subject.category, repr(described(subject.noise)), subject.seed, subject.batch_size


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the probe found, which model draws (also as votes keep it), and of what the checks warned."""

    probe: Probe
    identity: dict[str, Any]
    model: Mapping[str, Any]
    warnings: tuple[str, ...]


def _require_same_model(found: Known, first: Prepared) -> None:
    """Refuse draws of another model, or of the same weights in other code, than the first worker's."""
    other = model_difference(first.model, found.model)
    if not other and not same_answers(first.probe.fingerprint, found.draws.fingerprint):
        other = "their answers to the same probe differ"
    if other:
        raise InputError(
            f"workers have different models ({other}), whose draws cannot be counted together: give each the same "
            "files, and the same versions of all packages"
        )


@dataclass(frozen=True)
class Prepare:
    """Check the model at inputs of this shape."""

    subject: Subject

    def __call__(self, host: Host, x: Array) -> Prepared:
        """What is known of it then."""
        return host.prepared(self.subject, x)


@dataclass(frozen=True)
class Base:
    """The model's own labels of an input, without noise."""

    category: str = ""

    def __call__(self, host: Host, x: Array) -> IntArray:
        """One pass."""
        return base_labels(host.model(self.category), torch.from_numpy(x.copy()).to(host.device))


@dataclass(frozen=True)
class AnswerAtInput:
    """What tells the model from others at an input, for checkpoints."""

    subject: Subject

    def __call__(self, host: Host, x: Array) -> InputAnswers:
        """Two passes."""
        return host.draws(self.subject, x).answers_at_input()


@dataclass(frozen=True)
class Compare:
    """Whether stored labels may be those of `AnswerAtInput`, up to rounding."""

    subject: Subject

    def __call__(self, host: Host, x: Array, labels: Array) -> bool:
        """Two passes."""
        return host.draws(self.subject, x).may_give(labels.copy())


@dataclass(frozen=True, eq=False)
class Part:
    """The counts of a range of draws, the batch size at its end, and how long it took."""

    counts: Array
    batch_size: int
    seconds: float
    values: FloatArray | None = None
    """The metrics of each draw, (metrics, draws), where they are measured."""


@dataclass(frozen=True)
class Count:
    """Count the labels of draws start .. stop - 1, in batches of ``batch_size`` from the first on.

    Of all classes, or, with an array of labels beside the input, how many draws agree with these.
    """

    subject: Subject
    phase: Phase
    start: int
    stop: int
    batch_size: int
    classes: int | None = None

    def __call__(
        self, host: Host, x: Array, metrics: Sequence[MapFunction] | None = None, labels: Array | None = None
    ) -> Part:
        """The counts of the range alone, in the smallest type that holds them, and the metrics of each draw if any."""
        began, draws, n = time.perf_counter(), host.draws(self.subject, x), self.stop - self.start
        draws.batch_size = self.batch_size
        draws.watch = recorder = None if metrics is None else MetricRecorder(metrics, n, first=self.start)
        counts = self._counts(draws, n, labels)
        values = None if recorder is None else recorder.found
        return Part(counts, draws.batch_size, time.perf_counter() - began, values)

    def _counts(self, draws: Draws, n: int, labels: Array | None) -> Array:
        if labels is None:
            zeros = draws.zeros(n, self.classes or draws.classes or 1)
            counted = draws.class_counts(self.phase, self.start, self.stop, zeros, self.classes)
        else:
            wanted = torch.from_numpy(labels.copy()).to(draws.x.device)
            counted = draws.agreement(self.phase, self.start, self.stop, wanted, draws.zeros(n))
        return last(counted).cpu().numpy()


@dataclass(frozen=True)
class Watch(Count):
    """Make the same draws for their metrics alone."""

    def _counts(self, draws: Draws, n: int, labels: Array | None) -> Array:
        for _ in draws.watched(self.phase, self.start, self.stop):
            pass
        return np.zeros(0, np.uint8)
