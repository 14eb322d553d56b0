"""Interruption: work that is asked to stop finishes its step first, so that its state can be saved.

Ctrl-C sends SIGINT, a cluster that ends a job SIGTERM, a terminal that is closed SIGHUP.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any


class Stop(SystemExit):
    """The exit that a signal asks for. Its code is 128 and the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number).name
        self.said = False
        """Whether the user was told already."""


STOPS: dict[int, Callable[[], BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    **{number: partial(Stop, number) for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))},
}
"""What is raised, once the step is finished. Windows has no SIGHUP."""


def _at_once(number: int, frame: FrameType | None) -> None:
    raise Stop(number)


USUAL = (signal.default_int_handler, signal.SIG_DFL, _at_once)


@contextmanager
def stoppable() -> Iterator[None]:
    """Within, the signals of `STOPS` raise `Stop`, where they would end the process without a word or with a traceback.

    Signals that the caller handles or ignores (as nohup does SIGHUP) are left alone.
    """
    usual = _usual()
    for number in usual:
        signal.signal(number, _at_once)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _usual() -> dict[int, Any]:
    """The signals that nobody handles, and what they do now. Outside the main thread Python delivers none."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in STOPS}
    return {number: handler for number, handler in handlers.items() if handler in USUAL}


@contextmanager
def interruption() -> Iterator[Callable[[], BaseException | None]]:
    """Gives a function that returns what to raise if a signal asked to stop, else None.

    If it was not raised by the end of the block, it is raised there. A second signal acts at once, as usual.
    Signals that the caller handles or ignores are left alone. Outside the main thread Python delivers no signals.
    """
    asked: list[BaseException] = []
    usual = _usual()

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(STOPS[number]())
        restore()

    try:
        for number in usual:
            signal.signal(number, note)
        yield lambda: asked[0] if asked else None
    finally:
        restore()
    if asked:
        raise asked[0]
