"""Workers that are processes of this machine, each with its own model and a fixed number of threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import torch

from segcertify.engines.source import Source, pickled
from segcertify.engines.worker import WorkerLostError, portable
from segcertify.errors import InputError
from segcertify.sampling.tasks import Host, Task

_STARTING = threading.Lock()
START_PATIENCE = 600.0
"""How many seconds a worker may take to import torch and load its model."""


class ProcessWorker:
    """A process of its own, started afresh: a copy (fork) of one that has used torch may hang."""

    def __init__(self, source: Source, device: str, sent: bytes = b"") -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, source, device, bool(sent)), daemon=True)
        self._theirs, self._sent, self._stopped, self._late = theirs, sent, False, ""

    def start(self) -> dict[str, Any]:
        """Start the process; returns the identity of its model."""
        if multiprocessing.current_process().daemon:
            raise InputError(
                "this process belongs to a pool of multiprocessing, where it may start no workers: leave workers out"
            )
        try:
            with _STARTING, nullcontext() if self._sent else _program_hidden():
                self.process.start()
        except OSError as error:
            raise WorkerLostError(f"could not start: {error}") from None
        finally:
            self._theirs.close()  # so that the pipe ends with the process
        if self._stopped:  # meanwhile
            self.stop()
        try:
            with self._patient(START_PATIENCE):
                if self._sent:
                    self._send(self._sent)
                found: dict[str, Any] = self._answer(START_PATIENCE)
        except WorkerLostError as error:
            raise WorkerLostError(
                f"{error}, and what it printed is above. A Python script that uses workers must do its work under "
                '`if __name__ == "__main__":`, since each worker imports it'
            ) from None
        return found

    def ask(self, task: Task, arrays: Sequence[Any], patience: float) -> Any:
        """Send a task and wait."""
        message = pickled((task, arrays), "what a task needs, such as a metric,")
        with self._patient(patience):
            self._send(message)
            return self._answer(patience)

    def stop(self) -> None:
        """Kill it. Any thread may: the pipe is left to the one that waits at it, and closed with this object."""
        self._stopped = True
        if self.process.pid is not None:
            self.process.kill()
            self.process.join(10)

    @contextmanager
    def _patient(self, seconds: float) -> Iterator[None]:
        """Within, the process is killed when the time is over: also one that hangs while a message is on its way."""

        def end() -> None:
            self._late = _late(seconds)
            self.process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _send(self, message: bytes) -> None:
        try:
            self._pipe.send_bytes(message)
        except OSError:
            raise self._lost() from None

    def _answer(self, patience: float) -> Any:
        try:
            if not self._pipe.poll(patience):
                raise WorkerLostError(_late(patience))
            error, found = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if error is not None:
            raise error
        return found

    def _lost(self) -> WorkerLostError:
        if self._stopped:
            return WorkerLostError("was stopped")
        if self._late:
            return WorkerLostError(self._late)
        self.process.join(10)
        code = self.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return WorkerLostError(how)


def _late(seconds: float) -> str:
    return f"gave no answer for {seconds:g} s"


@contextmanager
def _program_hidden() -> Iterator[None]:
    """Within, a new process does not import the program that runs here, of which only a model from Python needs parts.

    It may be a script that works when it is imported.
    """
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def serve(pipe: Connection, source: Source, device: str, sent: bool) -> None:
    """The work of the process: it loads the model or has it sent, then answers tasks. It ends with its driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal: the driver decides
    threading.Thread(target=_end_with_the_driver, name="driver", daemon=True).start()
    with suppress(EOFError, OSError):
        try:
            torch.set_num_interop_threads(1)
            host, described = source.host(device, _received(pipe) if sent else None)
        except Exception as error:
            pipe.send((portable(error), None))
            return
        pipe.send((None, described))
        while True:
            pipe.send(_answered(host, pipe))


def _answered(host: Host, pipe: Connection) -> tuple[Exception | None, Any]:
    """The answer to the driver's next task, or the error. Raises `EOFError` or `OSError` if the driver is gone."""
    try:
        task, arrays = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:
        return portable(error), None
    try:
        return None, task(host, *arrays)
    except Exception as error:
        return portable(error), None


def _end_with_the_driver() -> None:
    """End this process at once when its driver is gone, in the middle of a task too."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)


def _received(pipe: Connection) -> Any:
    """The model that the driver sent: its own user's object."""
    try:
        return pipe.recv()
    except Exception as error:
        raise InputError(
            f"the model does not arrive in another process ({type(error).__name__}: {error}): define its class or "
            "function at the top of a module that can be imported there, or leave workers out"
        ) from None
