"""A progress bar with the time left, on standard error, for long work; a line a minute where there is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from segcertify.names import visible

Advance = Callable[[int], None]
LINE_EVERY = 60.0
"""Seconds between two lines of a log: work that is shorter leaves none."""


@contextmanager
def progress_bar(
    total: int,
    description: str,
    *,
    news: Callable[[], str] = str,
    show: bool | Advance | None = None,
    expected: float = 0.0,
) -> Iterator[Advance]:
    """Gives a function to call with the amount of work just done. By default the bar shows on a terminal only.

    Elsewhere a line a minute says how far the work is, and the time left; with ``show=False`` nothing does.
    ``news`` is called at each step and gives the text at the bar's end. Work of which a minute or more is ``expected``,
    in seconds, says so in a line of its own before it begins. If ``show``
    is a function, it is called instead of drawing a bar; the caller draws its own.
    """
    if callable(show):
        yield show
        return
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False)
    shown = console.is_terminal if show is None else show
    if show is not False and expected >= LINE_EVERY:
        console.print(f"{visible(description)}: {total} draws, about {_duration(expected)} on this machine")
    if show is None and not shown:
        yield _lines(total, description, news)
        return
    done = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    first, last = (bars.TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[news]}"))
    tidy = console.is_terminal  # leave nothing behind on a terminal, one line in a log
    with bars.Progress(first, *done, last, console=console, transient=tidy, disable=not shown) as bar:
        task = bar.add_task(visible(description), total=total, news=news())
        yield lambda step: bar.update(task, advance=step, news=news())


def _lines(total: int, description: str, news: Callable[[], str]) -> Advance:
    """Writes a line to standard error, at most once in `LINE_EVERY` seconds, for logs of batch systems and pipes."""
    start = said = time.monotonic()
    done = before = 0

    def advance(step: int) -> None:
        nonlocal done, before, said
        done, now = done + step, time.monotonic()
        if now - start < 1:
            before = done  # of a run that goes on from where another stopped
        if now - said < LINE_EVERY or done == before:
            return
        said, left = now, (now - start) / (done - before) * max(0, total - done)
        parts = (f"{done}/{total}", f"{_duration(now - start)} passed", f"about {_duration(left)} left", news())
        sys.stderr.write(visible(f"{description}: {', '.join(part for part in parts if part)}") + "\n")
        sys.stderr.flush()

    return advance


def _duration(seconds: float) -> str:
    """A time in words, rounded to minutes above one.

    >>> _duration(42), _duration(150), _duration(2 * 3600 + 300)
    ('42 s', '2 min', '2 h 5 min')
    """
    minutes = round(seconds / 60)
    if minutes < 1 or seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
