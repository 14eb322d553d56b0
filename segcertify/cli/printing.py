"""What commands print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from segcertify.certificate import radius_text

if TYPE_CHECKING:
    from segcertify.certificate import Certificate
    from segcertify.report.table import Table as ReportTable

console = Console()


def escape(text: str) -> str:
    """Text whose brackets rich leaves alone."""
    return text.replace("[", "\\[")


def print_certificate(certificate: Certificate, files: Sequence[Path]) -> None:
    """What was proved, in one sentence and a small table."""
    console.print(escape(certificate.claim))
    certified = f"{certificate.certified:,} of {certificate.N:,} ({certificate.certified / certificate.N:.1%})"
    print_rows(
        {
            "radius R": f"{radius_text(certificate.radius, 4)} ({certificate.noise.threat(certificate.norm)})",
            "certified": certified,
            "abstained": f"{1 - certificate.certified / certificate.N:.1%}",
            "noise": str(certificate.noise),
            "tau, n0, n": f"{certificate.tau:g}, {certificate.n0:,}, {certificate.n:,}",
            "alpha, correction": f"{certificate.alpha:g}, {certificate.correction}",
        }
    )
    print_files(files)


def print_rows(rows: dict[str, str]) -> None:
    """Names and values, two columns."""
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)


def print_table(table: ReportTable) -> None:
    """A report's table, with its notes."""
    shown = _Layout(table.heads, table.rows)
    if shown.narrowest > console.width:
        heads, *rows = zip(table.heads, *table.rows, strict=True)  # a row of the table becomes a column
        shown = min(shown, _Layout(heads, rows), key=lambda each: each.narrowest)
    console.print(shown.table(table.title, console.width))
    for note in table.notes:
        console.print(f"- {escape(note)}")


class _Layout:
    """A table's columns: as wide as their text where there is room, at least as wide as their longest word."""

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.heads, self.rows = heads, rows
        columns = list(zip(heads, *rows, strict=True))
        self.words = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns]
        self.texts = [max(cell_len(cell) for cell in column) for column in columns]

    @property
    def narrowest(self) -> int:
        """The width in which no word is broken; a column has two spaces and a line more."""
        return sum(self.words) + 3 * len(self.words) + 1

    def table(self, title: str, width: int) -> Table:
        """The table in a screen's width; where that breaks words, a number is broken, never cut."""
        room = width - self.narrowest
        shown = Table(title=escape(title))
        for head, word, text in zip(self.heads, self.words, self.texts, strict=True):
            more = min(max(room, 0), text - word)
            room -= more
            shown.add_column(head, overflow="fold", width=None if room < 0 else word + more)
        for row in self.rows:
            shown.add_row(*(escape(cell) for cell in row))
        return shown


@contextmanager
def resumable() -> Iterator[None]:
    """Work that Ctrl-C may stop."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("stopped: the same command goes on with it")
        raise


def print_files(files: Sequence[Path]) -> None:
    """One line for each file written."""
    for file in files:
        console.print(f"wrote {escape(str(file))}", soft_wrap=True)
