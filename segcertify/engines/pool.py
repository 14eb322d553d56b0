"""A pool of workers: it hands out tasks, replaces workers that are lost, and has what they left done again.

A task's answer depends on nothing but the task, and is used once: work that is done twice counts once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from segcertify.engines.worker import Worker, WorkerLostError, lost_too_often
from segcertify.errors import InputError, ModelError
from segcertify.numerals import counted
from segcertify.sampling.tasks import Task

TRIES = 3
"""How often a task is given to a worker before the run ends, if each worker is lost."""
PATIENCE = 600.0
"""How many seconds a task may take: one is cut to take a few, or is a single batch."""
START_AGAIN = 1.0
"""Seconds before a worker is replaced that was lost at its start: more from time to time, up to `LONGEST_WAIT`."""
LONGEST_WAIT = 60.0


@dataclass(eq=False)
class _Job:
    task: Task
    arrays: tuple[Any, ...]
    about: str
    order: int
    future: Future[Any] = field(default_factory=Future)
    tries: int = 0


class Pool:
    """Workers of one model, one thread of this process for each: `segcertify.engines.Engine.started` makes it.

    Tasks about one input stay with a worker that has worked on it, since that need not check the model there again.
    Others come when they have nothing else to do.
    """

    def __init__(
        self, hire: Callable[[int], Worker], slots: int, *, device: str, put: Callable[[Any], Any] = lambda x: x,
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.device, self.put, self.patience = device, put, patience
        self._hire, self._changed = hire, threading.Condition()
        self._jobs: list[_Job] = []
        self._at_work: Counter[str] = Counter()
        self._workers: dict[int, Worker] = {}
        self._ready: set[int] = set()
        self._identity: Future[dict[str, Any]] = Future()
        self._order = self.replaced = self._failed_starts = 0
        self._ended: Exception | None = None
        self._threads: list[threading.Thread] = []
        self.grow(slots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def slots(self) -> int:
        """How many workers there are to be."""
        return len(self._threads)

    @property
    def share(self) -> int:
        """How many workers there are for each input that somebody works on: many inputs need not be cut."""
        with self._changed:
            inputs = {job.about for job in self._jobs} | set(self._at_work)
        return -(-self.slots // max(1, len(inputs)))

    @property
    def identity(self) -> dict[str, Any]:
        """The model as it runs in the workers; waits for the first of them."""
        return self._identity.result()

    @property
    def news(self) -> str:
        """The workers in words, for a display."""
        lost = f", {self.replaced} replaced" if self.replaced else ""
        return f"{counted(len(self._ready), 'worker')}{lost}"

    def grow(self, slots: int) -> None:
        """Let there be so many workers, if there are fewer."""
        for index in range(len(self._threads), slots):
            thread = threading.Thread(target=self._serve, args=(index,), name=f"worker {index}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, task: Task, *arrays: Any, about: str = "") -> Future[Any]:
        """Have a task done by a worker."""
        with self._changed:
            self._order += 1
            job = _Job(task, arrays, about, self._order)
            if self._ended is not None:
                job.future.set_exception(self._ended)
                return job.future
            self._jobs.append(job)
            self._changed.notify_all()
        return job.future

    def close(self) -> None:
        """End all workers. Whoever waits for an answer gets a `ModelError`."""
        self._end(ModelError("the workers were stopped"))
        for worker in list(self._workers.values()):
            worker.stop()
        for thread in self._threads:
            thread.join(30)

    def _end(self, error: Exception) -> None:
        with self._changed:
            self._ended = self._ended or error
            jobs, self._jobs = self._jobs, []
            self._changed.notify_all()
        for job in jobs:
            _fail(job.future, error)
        _fail(self._identity, error)

    def _serve(self, index: int) -> None:
        """The life of one slot. Whatever goes wrong in it, nobody waits for an answer that cannot come."""
        try:
            self._work(index)
        except BaseException as error:
            self._end(ModelError.of(error))
            raise

    def _work(self, index: int) -> None:
        """A worker, its tasks, and the next worker when it is lost."""
        worker, last = None, ""
        while self._ended is None:
            if worker is None and (worker := self._started(index)) is None:
                continue
            if (job := self._next(last)) is None:
                break
            last = job.about
            try:
                found = worker.ask(job.task, job.arrays, self.patience)
            except WorkerLostError as error:
                self._drop(index, worker)
                worker = None
                self._again(job, str(error))
            except Exception as error:
                _fail(job.future, error)
            else:
                job.future.set_result(found)
            finally:
                with self._changed:
                    self._at_work[job.about] -= 1
                    self._at_work += Counter()  # without those that nobody works on
            del job  # its arrays, until the next comes
        if worker is not None:
            self._drop(index, worker)

    def _started(self, index: int) -> Worker | None:
        """A new worker with its model; None if it was lost at once."""
        worker = None
        try:
            worker = self._workers[index] = self._hire(index)
            described = worker.start()
        except Exception as error:
            if worker is not None:
                self._drop(index, worker)
            self._not_started(error)
            return None
        with self._changed:
            self._ready.add(index)
            self._failed_starts = 0
            with suppress(InvalidStateError):  # an earlier worker's, or the end
                self._identity.set_result(described)
        if self._ended is not None:  # meanwhile
            self._drop(index, worker)
            return None
        return worker

    def _not_started(self, error: Exception) -> None:
        """End the run if a start is refused, or if `TRIES` in a row fail and no worker is left; else wait a little."""
        with self._changed:
            self._failed_starts += 1
            failed, alone = self._failed_starts, not self._ready
        if not isinstance(error, WorkerLostError):
            self._end(error)
        elif failed >= TRIES and alone:
            self._end(InputError(f"no worker can start: the last one {error}"))
        else:
            with self._changed:
                self._changed.wait_for(lambda: self._ended is not None, min(START_AGAIN * failed, LONGEST_WAIT))

    def _drop(self, index: int, worker: Worker) -> None:
        self._workers.pop(index, None)
        self._ready.discard(index)
        worker.stop()

    def _next(self, last: str) -> _Job | None:
        """The next task for a worker whose last one was about this input; None at the end."""
        with self._changed:
            while self._ended is None:
                self._jobs = [job for job in self._jobs if not job.future.cancelled()]
                if self._jobs:
                    job = min(self._jobs, key=lambda each: (each.about != last, self._at_work[each.about], each.order))
                    self._jobs.remove(job)
                    if job.future.running() or job.future.set_running_or_notify_cancel():
                        self._at_work[job.about] += 1
                        return job
                    continue
                self._changed.wait()
        return None

    def _again(self, job: _Job, reason: str) -> None:
        """Give a task to another worker, unless too many were lost at it."""
        job.tries += 1
        with self._changed:
            self.replaced += self._ended is None
            if self._ended is None and job.tries < TRIES:
                self._jobs.append(job)
                self._changed.notify_all()
                return
        _fail(job.future, self._ended or lost_too_often(reason, job.tries))


def _fail(future: Future[Any], error: Exception) -> None:
    """Give a future its error, unless it is done or cancelled."""
    with suppress(InvalidStateError):
        future.set_exception(error)
