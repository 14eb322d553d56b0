"""Interruption: work that is asked to stop finishes its step first, so that its state can be saved."""

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
"""What is raised, once the step is finished: Ctrl-C sends SIGINT, a cluster that ends a job SIGTERM."""

USUAL = (signal.default_int_handler, signal.SIG_DFL)


@contextmanager
def interruption() -> Iterator[Callable[[], BaseException | None]]:
    """Gives a function that returns what to raise if a signal asked to stop, else None.

    If it was not raised by the end of the block, it is raised there. A second signal acts at once, as usual.
    Signals that the caller handles or ignores are left alone. Outside the main thread Python delivers no signals.
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
