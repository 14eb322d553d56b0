"""A sampling run's state on disk, so that a killed run goes on where it was."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segcertify.arrays import Array
from segcertify.errors import InputError, ModelError, require_finite, require_integer
from segcertify.sampling.at_input import InputAnswers
from segcertify.sampling.draws import Draws
from segcertify.sampling.seeds import Seed
from segcertify.sampling.segmenter import LARGEST_LABEL
from segcertify.sampling.streams import Phase
from segcertify.storage import archive, sparse
from segcertify.storage.atomic import require_writable
from segcertify.storage.interruption import interruption
from segcertify.storage.reading import is_there
from segcertify.storage.same_run import difference, require_same_run
from segcertify.votes import same_answers

_VERSION = 3
_KIND = "checkpoint"
COUNTS = "counts"
_LABELS = "labels_of_probes"
_SHARE = 0.03
"""The share of the time that saving may take."""


@dataclass(frozen=True, eq=False)
class State:
    """How far a run is: draws done in this phase, and what they gave so far, as a file holds it."""

    phase: Phase
    done: int
    batch_size: int
    arrays: Mapping[str, Array]

    def goes_on(self, name: str, zeros: torch.Tensor) -> torch.Tensor:
        """The array of that name in the type and on the device of ``zeros``, which a new phase begins with."""
        if not self.done:
            return zeros
        if name not in self.arrays:
            raise InputError(f"the checkpoint has no {name!r}: delete it to start anew")
        components = zeros.shape[1:] if name.startswith(COUNTS) else zeros.shape
        return torch.from_numpy(self._required(name, self.arrays[name], tuple(components))).to(zeros)

    def counts(self, zeros: torch.Tensor, name: str = COUNTS, *, draws: int | None = None) -> torch.Tensor:
        """The counts of all classes, a plane for each, likewise; of ``draws``, by default those done in this phase."""
        classes, components = sparse.packed_planes(name, self.arrays), tuple(zeros.shape[1:])
        if not classes:
            return self.goes_on(name, zeros)  # none yet, or of format versions 1 and 2
        counts = zeros.new_zeros((classes, *components))
        for count, plane in zip(counts, sparse.unpacked(name, self.arrays, components), strict=True):
            count.copy_(torch.from_numpy(self._required(name, plane, components, draws)))
        return counts

    def _required(self, name: str, array: Array, components: tuple[int, ...], draws: int | None = None) -> Array:
        """The array, if it holds labels of components, or counts of them that the draws can have given."""
        most = LARGEST_LABEL if name == "candidate" else self.done if draws is None else draws
        fits = array.dtype.kind in "iu" and array.shape[array.ndim - len(components) :] == components
        if not (fits and array.size and array.min() >= 0 and array.max() <= most):
            raise InputError(
                f"the checkpoint's {name!r} is not of {self.done} draws for components of shape {components}: "
                "delete it to start anew"
            )
        return array


class Checkpoint:
    """One file, rewritten whole at most every ``every`` seconds, and less often where a save takes long.

    With ``every`` = 0 it is rewritten after every batch; without a path nothing is saved.

    ``run`` describes the run in plain values. The model is described by its identity and by
    its answers to a few noisy copies of the input. A file of another run or model is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, draws: Draws, run: Mapping[str, Any], *, every: float
    ) -> None:
        self._path = None if path is None else require_writable(path)
        self._draws, self._run = draws, {} if self._path is None else {**draws.describe(), **run}
        self._every = require_finite("checkpoint_every", every)
        self._due = time.monotonic() + self._every
        self._asked_to_stop: Callable[[], BaseException | None] = lambda: None
        self._last: tuple[Phase, int, Mapping[str, torch.Tensor]] | None = None

    @cached_property
    def _answers(self) -> InputAnswers:
        return self._draws.answers_at_input()

    @cached_property
    def _model(self) -> dict[str, Any]:
        return self._draws.identity

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, a signal to stop, or a model's failure, makes a state due, and is raised once it is saved."""
        if self._path is None:
            yield
            return
        _ = self._answers  # asked for now: a model that has failed may answer nothing more
        with interruption() as self._asked_to_stop:
            try:
                yield
            except ModelError as error:
                if self._last is None:
                    raise
                self._write(self._path, *self._last)
                kept = f"The {self._last[1]} draws before it are kept in {self._path}, for a run that goes on"
                raise ModelError(f"{error}. {kept}") from error

    def load(self) -> State | None:
        """The state last saved, or None if there is none."""
        if self._path is None or not is_there(self._path):
            return None
        header, arrays = _read(self._path)
        require_same_run(header["run"], self._run, where=self._path)
        labels = arrays.pop(_LABELS, None)
        try:
            theirs, model = header["fingerprint"], header["model"]
            if header["phase"] not in ("candidate", "agree"):
                raise InputError(f"its phase is {header['phase']!r:.40}")
            done, batch_size = (require_integer(name, header[name]) for name in ("done", "batch_size"))
            state = State(header["phase"], done, batch_size, arrays)
        except KeyError as error:
            raise InputError(f"{self._path} is not a complete checkpoint (no {error}): delete it") from None
        except InputError as error:
            raise InputError(f"{self._path} is not a complete checkpoint ({error}): delete it") from None
        what = ""
        if model is not None and (found := difference({"model": model}, {"model": self._model})):
            what = f"its {next(iter(found))} differs"
        elif not (same_answers(theirs, self._answers.fingerprint) and self._same_labels(labels)):
            what = "its answers to the same probes differ"
        if what:
            raise InputError(
                f"{self._path} was written with another model: {what}. "
                "Resume with the same model, or delete the file to start anew."
            )
        return state

    def _same_labels(self, stored: Array | None) -> bool:
        """Whether all labels are the stored ones, up to rounding. Files of format version 1 have none."""
        if stored is None or np.array_equal(stored, self._answers.labels):
            return True
        return self._draws.may_give(stored)  # asks again: logits take too much memory to be kept

    def note(self, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor]) -> None:
        """Remember a state, to be written if the model fails before the next: counts go on in the same memory."""
        self._last = phase, done, arrays

    def save_if_due(self, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor], *, last: bool = False) -> None:
        """Write the state if it is the last, if ``every`` seconds have passed, or if the process is asked to stop."""
        self.note(phase, done, arrays)
        if self._path is None or not (last or time.monotonic() >= self._due or self._asked_to_stop()):
            return
        self._write(self._path, phase, done, arrays)
        if stop := self._asked_to_stop():
            raise stop

    def _write(self, path: Path, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor]) -> None:
        began = time.monotonic()
        self._draws.settle(phase, done)
        header = {
            "phase": phase, "done": done, "batch_size": self._draws.batch_size,
            "run": self._run, "seed_given": self._draws.seed_given, "model": self._model,
            "fingerprint": self._answers.fingerprint,
        }  # fmt: skip
        content = {_LABELS: self._answers.labels}
        for name, array in arrays.items():
            if name.startswith(COUNTS):
                content |= sparse.packed(name, (plane.cpu().numpy() for plane in array))
            else:
                plain = array.cpu().numpy()
                content[name] = plain if array.is_floating_point() else archive.smallest_integers(plain)
        archive.write(path, kind=_KIND, version=_VERSION, header=header, arrays=content)
        now = time.monotonic()
        self._due = now + max(self._every, (now - began) / _SHARE if self._every else 0.0)


def recorded_seed(path: str | os.PathLike[str] | None) -> Seed | None:
    """The seed of the run that left a checkpoint; None if there is no file."""
    if path is None or not is_there(path):
        return None
    header, _ = _read(path)
    seed = header["run"].get("seed")
    return None if seed is None else Seed(seed, given=header["seed_given"])


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header, in which what is needed to tell whose run it is has its type, and the arrays."""
    migrations: dict[int, archive.Migration] = {1: _from_version_1, 2: dict}  # 2: counts of all classes, zeros too
    header, arrays = archive.read(path, kind=_KIND, version=_VERSION, migrations=migrations)
    run, numbers = header.get("run", {}), header.get("fingerprint", [])
    described = isinstance(run, dict) and isinstance(header.get("model", {}), dict | None)
    answers = isinstance(numbers, list) and all(isinstance(each, int | float) for each in numbers)
    if not (described and answers and isinstance(header.get("seed_given"), bool)):
        raise InputError(f"{path} is not a complete checkpoint (its run, model or answers are not readable): delete it")
    return {**header, "run": run}, arrays


def _from_version_1(header: dict[str, Any]) -> dict[str, Any]:
    """Then every seed was given, and only about 512 of the model's answers described it: all of these must agree."""
    return {**header, "seed_given": True, "model": None}
