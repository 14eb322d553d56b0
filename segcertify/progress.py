"""A progress bar with the time left, on standard error, for long work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from segcertify.names import visible

Advance = Callable[[int], None]


@contextmanager
def progress_bar(
    total: int, description: str, *, news: Callable[[], str] = str, show: bool | Advance | None = None
) -> Iterator[Advance]:
    """Gives a function to call with the amount of work just done. By default the bar shows on a terminal only.

    ``news`` is called at each step and gives the text at the bar's end. If ``show``
    is a function, it is called instead of drawing a bar; the caller draws its own.
    """
    if callable(show):
        yield show
        return
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False)
    shown = console.is_terminal if show is None else show
    done = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    first, last = (bars.TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[news]}"))
    tidy = console.is_terminal  # leave nothing behind on a terminal, one line in a log
    with bars.Progress(first, *done, last, console=console, transient=tidy, disable=not shown) as bar:
        task = bar.add_task(visible(description), total=total, news=news())
        yield lambda step: bar.update(task, advance=step, news=news())
