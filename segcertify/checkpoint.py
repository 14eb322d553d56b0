"""A sampling run's state on disk, so that a killed run goes on where it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from segcertify import archive
from segcertify.arrays import Array
from segcertify.errors import InputError, require_finite

_VERSION = 1
_KIND = "checkpoint"

State = tuple[dict[str, Any], dict[str, Array]]


class Checkpoint:
    """One file, rewritten whole at most every ``every`` seconds; with no path it does nothing.

    ``run`` describes the run in plain values: a file of another run is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, run: Mapping[str, Any], *, every: float) -> None:
        self._path = None if path is None else Path(path)
        self._run = dict(run)
        self._every = require_finite("checkpoint_every", every)
        self._saved = time.monotonic()

    def load(self) -> State | None:
        """The header and arrays last saved, or None if there are none."""
        if self._path is None or not self._path.exists():
            return None
        header, arrays = archive.read(self._path, kind=_KIND, version=_VERSION)
        run = header.get("run", {})
        for name, value in self._run.items():
            if run.get(name) != value:
                raise InputError(
                    f"{self._path} belongs to another run: its {name} is {run.get(name)!r}, this run's is {value!r}. "
                    "Resume with the same settings, model and input, or delete the file to start anew."
                )
        return header, arrays

    def save(self, state: Callable[[], State], *, now: bool = False) -> None:
        """Write the state if it is time, or ``now``."""
        if self._path is None or not (now or time.monotonic() - self._saved >= self._every):
            return
        header, arrays = state()
        archive.write(self._path, kind=_KIND, version=_VERSION, header={**header, "run": self._run}, arrays=arrays)
        self._saved = time.monotonic()
