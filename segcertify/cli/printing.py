"""What commands print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from segcertify.certificate import radius_text

if TYPE_CHECKING:
    from segcertify.certificate import Certificate
    from segcertify.report.table import Table as ReportTable

console = Console()

WIDEST = 400
"""No table is wider, in characters."""


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
    shown = _as_shown(table.title, table.heads, table.rows)
    needed = console.measure(shown, options=console.options.update(width=WIDEST)).minimum
    if needed > console.width and len(table.rows) + 1 < len(table.heads):
        heads, *rows = zip(table.heads, *table.rows, strict=True)  # a row of the table becomes a column
        shown = _as_shown(table.title, heads, rows)
    console.print(shown)
    for note in table.notes:
        console.print(f"- {escape(note)}")


def _as_shown(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    shown = Table(title=escape(title))
    for head in heads:
        shown.add_column(head, overflow="fold")  # on a narrow screen a number is broken, never cut
    for row in rows:
        shown.add_row(*(escape(cell) for cell in row))
    return shown


def print_files(files: Sequence[Path]) -> None:
    """One line for each file written."""
    for file in files:
        console.print(f"wrote {escape(str(file))}", soft_wrap=True)
