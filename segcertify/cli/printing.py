"""What commands print: results on standard output, notes on standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from segcertify.errors import InputError
from segcertify.names import visible
from segcertify.noise.names import described
from segcertify.numerals import NOTHING, exact, percent, radius_text
from segcertify.storage.interruption import Stop
from segcertify.votes import seed_text

if TYPE_CHECKING:
    from segcertify.certificate import Certificate
    from segcertify.metrics.certificate import MetricCertificate
    from segcertify.radii import RadiusMap
    from segcertify.report.table import Table as ReportTable
    from segcertify.sets.certificate import SetCertificate
    from segcertify.votes import Votes

    AnyCertificate = Certificate | SetCertificate | MetricCertificate | RadiusMap

console = Console(markup=False, emoji=False)  # names are data: their brackets and colons mean nothing
notes = Console(stderr=True, markup=False, emoji=False)


def print_note(kind: str, text: str, style: str = "yellow") -> None:
    """Print a line on standard error that begins with its kind: note, warning or error."""
    notes.print(Text.assemble((f"{kind}:", style), " ", visible(text)), soft_wrap=True)


@dataclass(frozen=True)
class Printer:
    """How a command speaks.

    With ``json``, standard output holds one JSON object and nothing else: the values that `result` gets. With
    ``quiet``, the command prints its result only: no progress, no notes, no list of files.
    """

    json: bool = False
    quiet: bool = False

    @property
    def progress(self) -> bool | None:
        """What a library function takes as ``progress``: None shows a bar on a terminal."""
        return False if self.quiet else None

    def say(self, text: str, *, wrap: bool = True) -> None:
        """Print a part of the result in words, by default wrapped at the screen's width."""
        if not self.json:
            console.print(visible(text), soft_wrap=not wrap)

    def table(self, table: ReportTable) -> None:
        """Print a table of the result."""
        if not self.json:
            print_table(table)

    def facts(self, facts: Mapping[str, str]) -> None:
        """Print names and values in two columns."""
        if not self.json:
            table = Table(show_header=False)
            table.add_column()
            table.add_column(overflow="fold")  # a digest goes over two lines, but none is cut
            for name, value in facts.items():
                table.add_row(visible(name), visible(value))
            console.print(table)

    def certificate(self, certificate: Certificate) -> None:
        """Print what a certificate proves, in words and a small table."""
        self.claim(certificate)
        self.facts(certificate_facts(certificate))

    def claim(self, found: AnyCertificate, *, before: str = "") -> None:
        """Print what a certificate proves, in plain words, and the exact claim below."""
        if not found.sentence:
            self.say(f"{before}{found.claim}")
            return
        self.say(f"{before}{found.sentence}")
        if found.claim.startswith("With"):  # not of nothing, which both say
            self.say(f"Exactly: {found.claim}")

    def detail(self, text: str) -> None:
        """Print a line that belongs to no result, such as how long it took."""
        if not (self.json or self.quiet):
            console.print(visible(text), soft_wrap=True)

    def files(self, files: Sequence[Path], *, again: Sequence[Path] = ()) -> None:
        """Print a line for each file written, or taken as it was: ``again``."""
        for file in files:
            self.detail(f"{'taken again, unchanged:' if file in again else 'wrote'} {file}")

    def note(self, text: str | None) -> None:
        """Print a note for the user on standard error, if there is one."""
        if text and not self.quiet:
            print_note("note", text)

    def result(self, **values: Any) -> None:
        """Print the result as JSON, if ``--json`` was given."""
        if self.json:
            print(json.dumps(plain(values), indent=2))


def plain(value: Any) -> Any:
    """A value as JSON has it: paths as texts, tables as lists of objects, null instead of infinity and NaN."""
    if hasattr(value, "heads"):
        return _table_values(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def certificate_facts(certificate: Certificate) -> dict[str, str]:
    """What a certificate proves, and from which draws, for `Printer.facts`."""
    share, claimed = certificate.certified / certificate.N, certificate.claimed
    labelled = f"{certificate.certified:,} of {certificate.N:,}"
    budget = f" (k = {certificate.k:,})" if certificate.guarantee == "k-fwer" else ""
    return {
        **radius_facts(certificate, proven=claimed.proven),
        "certified" if claimed.certifies else "labelled, not certified": f"{labelled} ({percent(share)})",
        "abstained": percent(1 - share),
        "noise": described(certificate.noise),
        "tau, n0, n": f"{exact(certificate.tau)}, {certificate.n0:,}, {certificate.n:,}",
        "alpha, correction": f"{exact(certificate.alpha)}, {certificate.correction}{budget}",
        "seed": seed_fact(certificate),
    }


def radius_facts(found: AnyCertificate, *, proven: bool = True) -> dict[str, str]:
    """The radius: in the units of the file and at the network's input, where these differ."""
    threat, in_file, name = found.noise.threat(found.norm), found.file_radius, "radius R"
    if not proven:
        return {name: NOTHING}
    radius = f"{radius_text(found.radius, 4)} ({threat})"
    if in_file is None:
        return {name: radius}
    known = f"{radius_text(in_file, 4)} ({threat}, in the units of the file)"
    return {name: known, "R at the network's input": radius}


def seed_fact(found: AnyCertificate | Votes) -> str:
    """A seed, and who chose it."""
    if found.seed is None:
        return "none: counted elsewhere"
    return f"{seed_text(found.seed)} ({'given' if found.seed_given else 'from the operating system'})"


def certificate_values(certificate: Certificate) -> dict[str, Any]:
    """A certificate without its labels, for JSON."""
    names = (
        "sentence", "claim", "radius", "input_radius", "norm", "tau", "alpha", "correction", "guarantee", "k", "n0",
        "n", "N",
        "seed", "seed_given", "input_id", "input_shape", "input_digest", "model", "preprocessing", "units", "version",
        "date", "command", "looks", "saved",
    )  # fmt: skip
    values = {name: getattr(certificate, name) for name in names} | {"noise": described(certificate.noise)}
    values |= {"threat": certificate.claimed.threat, "proven": certificate.claimed.proven}
    return values | {"certified": certificate.certified, "abstained": int(certificate.abstained.sum())}


def _table_values(table: ReportTable) -> list[dict[str, Any]]:
    """The rows of a table by their heads, numbers as numbers."""
    return [{head: _number(cell) for head, cell in zip(table.heads, row, strict=True)} for row in table.rows]


def _number(cell: str) -> Any:
    """A cell as JSON has it: null where a table has no number."""
    if cell in ("", NOTHING):
        return None
    try:
        return plain(float(cell))
    except ValueError:
        return cell


def print_table(table: ReportTable) -> None:
    """A report's table, with its notes."""
    heads, *rows = ([visible(cell) for cell in row] for row in (table.heads, *table.rows))
    title, layout = visible(table.title), _Layout(heads, rows)
    layouts = [layout] if layout.narrowest <= console.width else _turned(heads, rows, console.width)
    for i, each in enumerate(layouts):
        console.print(each.table(title if i == 0 else f"{title} (continued)", console.width))
    for note in table.notes:
        console.print(f"- {visible(note)}")


def _turned(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[_Layout]:
    """The table with a column for each row, in as many parts as a screen's width asks for: no number is broken."""

    def part(rows: Sequence[Sequence[str]]) -> _Layout:
        first, *others = zip(heads, *rows, strict=True)
        return _Layout(first, others)

    parts: list[list[Sequence[str]]] = []
    for row in rows:
        if parts and part([*parts[-1], row]).narrowest <= width:
            parts[-1].append(row)
        else:
            parts.append([row])
    return [part(rows) for rows in parts]


class _Layout:
    """A table's columns: as wide as their text if there is room, at least as wide as their longest word."""

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.heads, self.rows = heads, rows
        columns = list(zip(heads, *rows, strict=True))
        self.words = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns]
        self.texts = [max(cell_len(cell) for cell in column) for column in columns]

    @property
    def narrowest(self) -> int:
        """The width in which no word is broken: each column adds two spaces and a line."""
        return sum(self.words) + 3 * len(self.words) + 1

    def table(self, title: str, width: int) -> Table:
        """The table in a screen's width. If that is too narrow, long words go over several lines, but none is cut."""
        room = width - self.narrowest
        shown = Table(title=title)
        for head, word, text in zip(self.heads, self.words, self.texts, strict=True):
            more = min(max(room, 0), text - word)
            room -= more
            shown.add_column(head, overflow="fold", width=None if room < 0 else word + more)
        for row in self.rows:
            shown.add_row(*row)
        return shown


@contextmanager
def resumable(kept: Callable[[], str]) -> Iterator[None]:
    """Work that a signal may stop, and that the same command resumes; ``kept`` says in words what is kept by then."""
    try:
        yield
    except (KeyboardInterrupt, Stop) as stop:
        name = stop.signal if isinstance(stop, Stop) else "SIGINT"
        if isinstance(stop, Stop):
            stop.said = True
        print_note(f"stopped by {name}", f"{kept()}. The same command goes on from there")
        raise


@contextmanager
def noted(printer: Printer, what: str) -> Iterator[None]:
    """Work at the end of a command without which its result is whole: if it fails, a note says why."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        printer.note(f"{what} ({kind}{' '.join(str(error).split())[:300]}); all else is kept")
