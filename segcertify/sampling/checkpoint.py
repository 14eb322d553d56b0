"""A sampling run's state on disk, so that a killed run goes on where it was."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from segcertify.errors import InputError, require_finite
from segcertify.sampling.draws import Draws
from segcertify.sampling.streams import Phase
from segcertify.storage import archive
from segcertify.storage.atomic import require_writable
from segcertify.storage.interruption import interruption
from segcertify.storage.same_run import require_same_run
from segcertify.votes import same_answers

_VERSION = 1
_KIND = "checkpoint"


@dataclass(frozen=True, eq=False)
class State:
    """How far a run is: draws done in this phase, and what they gave so far."""

    phase: Phase
    done: int
    batch_size: int
    arrays: Mapping[str, torch.Tensor]


class Checkpoint:
    """One file, rewritten whole at most every ``every`` seconds; without a path nothing is saved.

    ``run`` describes the run in plain values, a fingerprint the model by a few of its
    outputs near the input: a file of another run or model is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, draws: Draws, run: Mapping[str, Any], *, every: float
    ) -> None:
        self._path = None if path is None else require_writable(path)
        self._draws, self._run = draws, {**draws.describe(), **run}
        self._every = require_finite("checkpoint_every", every)
        self._saved = time.monotonic()
        self._asked_to_stop: Callable[[], BaseException | None] = lambda: None

    @cached_property
    def _fingerprint(self) -> tuple[float, ...]:
        return self._draws.fingerprint_at_input()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, a signal to stop makes a state due, and is raised once that is saved."""
        if self._path is None:
            yield
            return
        with interruption() as self._asked_to_stop:
            yield

    def load(self) -> State | None:
        """The state last saved, or None if there is none."""
        if self._path is None or not self._path.exists():
            return None
        header, arrays = archive.read(self._path, kind=_KIND, version=_VERSION)
        require_same_run(header.get("run", {}), self._run, where=self._path)
        try:
            theirs = header["fingerprint"]
            tensors = {name: torch.from_numpy(array).to(self._draws.x.device) for name, array in arrays.items()}
            state = State(header["phase"], header["done"], header["batch_size"], tensors)
        except KeyError as error:
            raise InputError(f"{self._path} is not a complete checkpoint (no {error}): delete it") from None
        if not same_answers(theirs, self._fingerprint):
            raise InputError(
                f"{self._path} was written with another model: its answers to the same probes differ. "
                "Resume with the same model, or delete the file to start anew."
            )
        return state

    def save_if_due(self, phase: Phase, done: int, arrays: Mapping[str, torch.Tensor], *, last: bool = False) -> None:
        """Write the state if it is the last, if ``every`` seconds have passed, or if the process is asked to stop."""
        late = time.monotonic() - self._saved >= self._every
        if self._path is None or not (last or late or self._asked_to_stop()):
            return
        header = {
            "phase": phase, "done": done, "batch_size": self._draws.batch_size,
            "run": self._run, "fingerprint": self._fingerprint,
        }  # fmt: skip
        content = {name: array.cpu().numpy() for name, array in arrays.items()}
        archive.write(self._path, kind=_KIND, version=_VERSION, header=header, arrays=content)
        self._saved = time.monotonic()
        if stop := self._asked_to_stop():
            raise stop
