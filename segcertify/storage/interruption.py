"""Interruption: work that is asked to stop comes to a good place first, where its state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPS: dict[int, Callable[[], BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: lambda: SystemExit(128 + signal.SIGTERM),
}
"""What Ctrl-C and a cluster's wish to end a job raise, once there is time for it."""

USUAL = (signal.default_int_handler, signal.SIG_DFL)


@contextmanager
def interruption() -> Iterator[Callable[[], BaseException | None]]:
    """A function that gives what to raise, if a signal asked to stop; at the end it is raised, if it was not before.

    A second signal does what it always does. Signals that a caller handles or ignores stay so; outside the main
    thread, where Python has none, nothing asks.
    """
    asked: list[BaseException] = []
    usual: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(STOPS[number]())
        restore()

    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in STOPS}
        usual = {number: handler for number, handler in handlers.items() if handler in USUAL}
    try:
        for number in usual:
            signal.signal(number, note)
        yield lambda: asked[0] if asked else None
    finally:
        restore()
    if asked:
        raise asked[0]
