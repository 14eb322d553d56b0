"""Interruption: a run that is asked to stop ends its step first, so that its state can be saved."""

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


@contextmanager
def interruption() -> Iterator[Callable[[], BaseException | None]]:
    """A function that gives what to raise, if a signal asked to stop. A second signal does what it always does.

    Signals that are ignored stay so; outside the main thread, where Python has none, nothing asks.
    """
    asked: list[BaseException] = []
    usual: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(STOPS[number]())
        signal.signal(number, usual[number])

    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in STOPS}
        usual = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in usual:
            signal.signal(number, note)
        yield lambda: asked[0] if asked else None
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
