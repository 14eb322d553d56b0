"""Worker: the driver's end of a process that holds the model. It may be lost at any time."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any, Protocol

from segcertify.errors import InputError, ModelError
from segcertify.sampling.tasks import Task


class WorkerLostError(Exception):
    """A worker died, hung or was taken away. What it was asked is asked of another one."""


class Worker(Protocol):
    """What a `segcertify.engines.pool.Pool` asks of a worker. Each method may raise `WorkerLostError`."""

    def start(self) -> dict[str, Any]:
        """Load the model; returns its identity. What is wrong with the model is an `InputError`."""

    def ask(self, task: Task, arrays: Sequence[Any], patience: float) -> Any:
        """The answer to a task, or what the task raised. A worker that gives none within ``patience`` is lost."""

    def stop(self) -> None:
        """End it, whatever it does."""


def portable(error: BaseException) -> Exception:
    """An error as it can travel to the driver: one that cannot is told in words."""
    try:
        pickle.dumps(error)
        if isinstance(error, Exception) and type(copy.copy(error)) is type(error):  # made anew as on arrival
            return error
    except Exception:
        pass
    return ModelError.of(error)


def lost_too_often(reason: str, times: int) -> InputError:
    """The end of a run whose workers are lost again and again."""
    return ModelError(
        f"{times} workers were lost at the same work (the last one {reason}). If memory runs out, use a smaller "
        "batch_size or fewer workers; if a batch takes so long, allow more time (--patience)"
    )
