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
from segcertify.errors import InputError, ModelError, require_finite
from segcertify.sampling.draws import Draws
from segcertify.sampling.identity import identity
from segcertify.sampling.probe import fingerprint
from segcertify.sampling.seeds import Seed
from segcertify.sampling.segmenter import to_labels, upsampled
from segcertify.sampling.streams import Phase
from segcertify.storage import archive
from segcertify.storage.atomic import require_writable
from segcertify.storage.interruption import interruption
from segcertify.storage.same_run import difference, require_same_run
from segcertify.votes import ROUNDING, same_answers

_VERSION = 2
_KIND = "checkpoint"
_LABELS = "labels_of_probes"


@dataclass(frozen=True, eq=False)
class State:
    """How far a run is: draws done in this phase, and what they gave so far."""

    phase: Phase
    done: int
    batch_size: int
    arrays: Mapping[str, torch.Tensor]


class Checkpoint:
    """One file, rewritten whole at most every ``every`` seconds; without a path nothing is saved.

    ``run`` describes the run in plain values. The model is described by its identity and by
    its answers to a few noisy copies of the input. A file of another run or model is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, draws: Draws, run: Mapping[str, Any], *, every: float
    ) -> None:
        self._path = None if path is None else require_writable(path)
        self._draws, self._run = draws, {**draws.describe(), **run}
        self._every = require_finite("checkpoint_every", every)
        self._saved = time.monotonic()
        self._asked_to_stop: Callable[[], BaseException | None] = lambda: None
        self._last: tuple[Phase, int, Mapping[str, torch.Tensor]] | None = None

    @cached_property
    def _answers(self) -> tuple[tuple[float, ...], Array]:
        """About 512 of the model's numbers at noisy copies of the input, and all of its labels there."""
        output, batch = self._draws.outputs_at_input()
        return fingerprint(output), archive.smallest_integers(to_labels(output, batch).cpu().numpy())

    @cached_property
    def _model(self) -> dict[str, Any]:
        return identity(self._draws.model)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, a signal to stop, or a model's failure, makes a state due, and is raised once that is saved."""
        if self._path is None:
            yield
            return
        assert self._answers  # asked for now: a model that has failed may answer nothing more
        with interruption() as self._asked_to_stop:
            try:
                yield
            except ModelError as error:
                if self._last is None:
                    raise
                self._write(*self._last)
                kept = f"The {self._last[1]} draws before it are kept in {self._path}, for a run that goes on"
                raise ModelError(f"{error}. {kept}") from error

    def load(self) -> State | None:
        """The state last saved, or None if there is none."""
        if self._path is None or not self._path.exists():
            return None
        header, arrays = _read(self._path)
        require_same_run(header.get("run", {}), self._run, where=self._path)
        labels = arrays.pop(_LABELS, None)
        try:
            theirs, model = header["fingerprint"], header["model"]
            tensors = {name: torch.from_numpy(array).to(self._draws.x.device) for name, array in arrays.items()}
            state = State(header["phase"], header["done"], header["batch_size"], tensors)
        except KeyError as error:
            raise InputError(f"{self._path} is not a complete checkpoint (no {error}): delete it") from None
        what = ""
        if model is not None and (found := difference({"model": model}, {"model": self._model})):
            what = f"its {next(iter(found))} differs"
        elif not (same_answers(theirs, self._answers[0]) and self._same_labels(labels)):
            what = "its answers to the same probes differ"
        if what:
            raise InputError(
                f"{self._path} was written with another model: {what}. "
                "Resume with the same model, or delete the file to start anew."
            )
        return state

    def _same_labels(self, stored: Array | None) -> bool:
        """Whether all labels are the stored ones, or such as rounding may put in their place.

        Files of format version 1 have none. A model that gives labels has no rounding. Of one that gives logits, those
        of both labels must be nearly equal.
        """
        labels = self._answers[1]
        if stored is None or np.array_equal(stored, labels):
            return True
        output, batch = self._draws.outputs_at_input()  # again: logits take too much memory to be kept
        if stored.shape != labels.shape or not output.is_floating_point() or stored.max() >= output.shape[1]:
            return False
        logits = upsampled(output, batch)
        before = torch.from_numpy(stored).to(logits.device, torch.int64)[:, None]
        gaps = logits.amax(1) - logits.gather(1, before)[:, 0]  # 0 where the label is the same
        return float(gaps.max()) <= ROUNDING * float(logits.max() - logits.min())

    def save_if_due(self, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor], *, last: bool = False) -> None:
        """Write the state if it is the last, if ``every`` seconds have passed, or if the process is asked to stop."""
        late = time.monotonic() - self._saved >= self._every
        self._last = phase, done, arrays
        if self._path is None or not (last or late or self._asked_to_stop()):
            return
        self._write(phase, done, arrays)
        if stop := self._asked_to_stop():
            raise stop

    def _write(self, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor]) -> None:
        header = {
            "phase": phase, "done": done, "batch_size": self._draws.batch_size,
            "run": self._run, "seed_given": self._draws.seed_given, "model": self._model,
            "fingerprint": self._answers[0],
        }  # fmt: skip
        content = {name: array.cpu().numpy() for name, array in arrays.items()}
        content[_LABELS] = self._answers[1]
        if self._path is not None:
            archive.write(self._path, kind=_KIND, version=_VERSION, header=header, arrays=content)
        self._saved = time.monotonic()


def recorded_seed(path: str | os.PathLike[str] | None) -> Seed | None:
    """The seed of the run that left a checkpoint; None if there is no file."""
    if path is None or not Path(path).is_file():
        return None
    header, _ = _read(path)
    seed = header.get("run", {}).get("seed")
    return None if seed is None else Seed(seed, given=header["seed_given"])


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    return archive.read(path, kind=_KIND, version=_VERSION, migrations={1: _from_version_1})


def _from_version_1(header: dict[str, Any]) -> dict[str, Any]:
    """Then every seed was given, and only about 512 of the model's answers described it: all of these must agree."""
    return {**header, "seed_given": True, "model": None}
