"""Where the time of sampling goes: named stages, which a `Stopwatch` measures while it is running.

Without a stopwatch a stage costs one look at a variable, so marks can stay in the sampler. On CUDA a stage is timed by
events on the stream, without waiting for the device; elsewhere by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import torch

_running: ContextVar[Stopwatch | None] = ContextVar("running", default=None)


@contextmanager
def stage(name: str, *, whole: bool = False) -> Iterator[None]:
    """Work that belongs to a stage. Its time excludes stages inside it, unless it is taken ``whole``."""
    if (watch := _running.get()) is None:
        yield
        return
    watch.begin(name, whole=whole)
    try:
        yield
    finally:
        watch.end()


class Stopwatch:
    """Measures the stages of all work within ``with Stopwatch(device) as watch``, for `seconds` to tell.

    >>> with Stopwatch(torch.device("cpu")) as watch:
    ...     with stage("noise"):
    ...         pass
    >>> list(watch.seconds())
    ['noise']
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._open: list[tuple[str, Any, bool] | None] = []
        self._spans: list[tuple[str, str | None, Any, Any]] = []

    def __enter__(self) -> Self:
        self._token = _running.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.reset(self._token)

    def begin(self, name: str, *, whole: bool = False) -> None:
        """A stage begins. Inside one that is taken whole it is not looked at."""
        ignored = bool(self._open) and (self._open[-1] is None or self._open[-1][2])
        self._open.append(None if ignored else (name, self._now(), whole))

    def end(self) -> None:
        """The stage that began last ends."""
        if (begun := self._open.pop()) is not None:
            around = self._open[-1][0] if self._open and self._open[-1] else None
            self._spans.append((begun[0], around, begun[1], self._now()))

    def seconds(self) -> dict[str, float]:
        """The time of each stage, without that of the stages inside it."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        total: dict[str, float] = {}
        for name, around, start, stop in self._spans:
            took = stop - start if isinstance(start, float) else start.elapsed_time(stop) / 1000
            total[name] = total.get(name, 0.0) + took
            if around is not None:
                total[around] = total.get(around, 0.0) - took
        return total

    def _now(self) -> Any:
        """A mark in time: an event on CUDA's stream, or the clock."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event
