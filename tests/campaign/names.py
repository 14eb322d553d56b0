"""Hostile names of classes, scenes, files and cards in every output: none acts, and none shares a file with another.

Markdown is read by markdown-it, CSV and HTML by Python's own readers, figures by matplotlib: not by our own functions.
"""

import csv
import io
import random
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from tests.campaign.findings import Tally

HOSTILE = (
    "[red]x[/red]", "[link=http://x]y[/link]", ":smile:", "\\[b]", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\rb",
    "a\nerror: all is lost", "\x9b31m",
    "\u202egnp.exe", "\u2066x\u2069", "a\u200bb", "\u2028", "\x00", "\x7f", "\udcff\udcfe", "\ud800",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "</script><!--", "a|b|c", "`code`", "``", "```\n# x", "[a](javascript:alert(1))", "![a](http://x/y.png)",
    "https://x.example", "www.x.example", "a@b.example", "*a*", "_a_", "__a__", "~~a~~", "# a",
    "- a", "1. a", "> a", "&lt;b&gt;", "&#60;", "$x$", "$\\frac{", "$", "$$x$$", "\\$x$", "_hidden", "\\input{x}",
    "\\write18{x}", "a%b", "a & b", "{", "}", "^^5c", "~", "^", "--", "---",
    "[2pt]", "*[2pt]", "=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1", "=cmd|' /C calc'!A0", "'=1", "\uff1d1",
    "\"=1\"", "a,b", "\"", "'", "...", "..", ".", "", " ", "-rf", "--out", "CON", "nul.txt", "com1", "a/b", "a\\b",
    "a:b", "a*b?", "x" * 240, "x" * 239 + "y", "\u00e9" * 130, "\u4e2d" * 90, "caf\u00e9", "cafe\u0301", "A", "a",
    "\u212b", "\u00c5", "stra\u00dfe", "STRASSE", "a ", " a", "a.", "\U0001f600", "\u4e2d\u6587", "road_sign", "a_b",
    "a b",
    "x\ud83d", "%s%n", "{0}", "{{data}}", "{data}", "%(x)s", "\ufeffx", "a\u0301\u0302\u0303", "ordinary",
    "with space", "0.5", "-", "-0.5", "nan",
)  # fmt: skip
PARTS = (
    *"ab$_|`*<>[]()#=+-@~^&%{}\\/'\":;.,!? ",
    "\x1b[",
    "\u202e",
    "\u200b",
    "\n",
    "\t",
    "\udc80",
    "\u00e9",
    "script",
    "http://",
    "input",
    "x",
    "1",
)
HIDDEN = "\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
Check = Callable[[str], str | None]


def run(tally: Tally, *, count: int = 1000, seed: int = 0, drawings: int = 60) -> None:
    """Try the hostile names, and others made of their parts, in every output; figures and pages take ``drawings``."""
    names = drawn(count, seed)
    for check in (in_tables, in_csv, in_latex, in_cards, on_terminals, in_progress):
        for name in names:
            _add(tally, check, name)
    for check in (in_figures, in_pages):
        for name in names[:: max(1, len(names) // drawings)]:
            _add(tally, check, name)
    for kind, example in in_files(names):
        tally.add(kind, example)


def drawn(count: int, seed: int) -> list[str]:
    """At least the hostile names, and so many in all."""
    chance = random.Random(seed)
    more = ("".join(chance.choices(PARTS, k=chance.randrange(1, 12))) for _ in range(max(0, count - len(HOSTILE))))
    return (
        [*dict.fromkeys((*HOSTILE, *more))][: max(count, 1)]
        if count < len(HOSTILE)
        else [*dict.fromkeys((*HOSTILE, *more))]
    )


def _add(tally: Tally, check: Check, name: str) -> None:
    try:
        found = check(name)
    except Exception as error:
        tally.add("raw", f"{check.__name__} {name[:80]!a}: {error!r}")
    else:
        tally.add("silent" if found else None, f"{check.__name__} {name[:80]!a}: {found}")


def acts_on_a_terminal(text: str) -> str | None:
    """The first character that is no text, if there is one."""
    found = next(
        (c for c in text if (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n") or _turns(c)), None
    )
    return None if found is None else f"holds {found!a}"


def _turns(character: str) -> bool:
    return character in HIDDEN or unicodedata.bidirectional(character) in (
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "LRI",
        "RLI",
        "FSI",
        "PDI",
    )


def read_as(shown: str, name: str) -> str | None:
    """Whether what a person reads is the name: escapes stand for what cannot be seen."""
    plain = "".join(c for c in name if not (acts_on_a_terminal(c) or c == "\n"))
    left = re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", shown)
    wanted = re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", plain)
    return None if "".join(left.split()) == "".join(wanted.split()) else f"reads {shown[:80]!a}"


def _table(name: str):
    from segcertify.report.table import Table

    return Table("title", ("class", "value"), ((name, "0.5"), ("last", "-")), ("a note",))


def in_tables(name: str) -> str | None:
    """A cell in Markdown: it renders as one cell that holds the name and no element."""
    from markdown_it import MarkdownIt

    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(_table(name).markdown())
    read = Cells()
    read.feed(page)
    if read.tags != {"h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}:
        return f"elements {sorted(read.tags)}"
    if len(read.cells) != 6:
        return f"{len(read.cells)} cells"
    return acts_on_a_terminal(read.cells[2]) or read_as(read.cells[2], name)


class Cells(HTMLParser):
    """The elements of a page, and the texts of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


def in_csv(name: str) -> str | None:
    """A cell of CSV: no spreadsheet takes it for a formula."""
    rows = list(csv.reader(io.StringIO(_table(name).csv())))
    if len(rows) != 3:
        return f"{len(rows)} rows"
    cell = rows[1][0]
    number = re.fullmatch(r"[-+]?[\d.]+", cell) or cell == "-"
    if cell.lstrip()[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20") and cell.strip() and not number:
        return f"a formula: {cell!a}"
    return acts_on_a_terminal(cell) or read_as(cell.lstrip("'"), name.lstrip("'"))


def in_latex(name: str) -> str | None:
    """A cell of LaTeX: all that is left of its markup are known commands for single characters."""
    lines = _table(name).latex().splitlines()
    if len(lines) != 12:
        return f"{len(lines)} lines"
    cell = lines[7].strip().removesuffix(r"& 0.5 \\").strip()
    known = (
        r"\\textbackslash\{\}",
        r"\\textasciitilde\{\}",
        r"\\textasciicircum\{\}",
        r"\\textasciigrave\{\}",
        r"\\textless\{\}",
        r"\\textgreater\{\}",
        r"\\textbar\{\}",
        r"\\[&%$#_{}]",
        r"-\{\}",
        r"\A\{[\[*]\}",
    )
    left = re.sub("|".join(known), "", cell)
    if re.search(r"[\\&%$#_{}~^]", left) or re.search(r"--|\A[\[*]", cell):
        return f"markup is left: {cell[:80]!a}"
    return acts_on_a_terminal(cell)


def in_cards(name: str) -> str | None:
    """A model's card: no element and no link that the card of an ordinary name does not have."""
    from markdown_it import MarkdownIt

    from segcertify.models.card import Card

    def rendered(text: str) -> Cells:
        card = Card(
            architecture={"family": "lite", "width": text}, classes=(text, "other"), colours=((0, 0, 0), (1, 1, 1)),
            data=text,
            objective=text, sigma=(0.25,), recipe={text: text}, metrics={text: 0.5}, licence=text, date="2025-01-31",
            version=text,
        )  # fmt: skip
        markdown = card.markdown(f"{text}.safetensors")
        markdown.encode()  # a file can hold it
        read = Cells()
        read.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))
        read.feed(acts_on_a_terminal(markdown) or "")
        return read

    if not name.strip():
        return None  # refused
    found, ordinary = rendered(name), rendered("ordinary")
    if found.tags != ordinary.tags or len(found.cells) != len(ordinary.cells):
        return f"other elements or cells: {sorted(found.tags ^ ordinary.tags)}"
    return next((read_as(cell, name) for cell in (found.cells[-5],)), None)


def on_terminals(name: str) -> str | None:
    """What commands print: results, tables, files, notes and errors."""
    from segcertify.cli import printing

    shown = io.StringIO()
    for each in (printing.console, printing.notes):
        each.file, each.width = shown, 20000
    printer = printing.Printer()
    printer.say(name)
    printer.files([Path(name)])
    printer.note(name)
    printer.facts({"name": name})
    printer.table(_table(name))
    text = shown.getvalue()
    text.encode()
    said = next(iter(text.split("\n")), "")
    return acts_on_a_terminal(text) or (read_as(said, name) if name.strip() else None)


def in_progress(name: str) -> str | None:
    """A progress bar's description."""
    import contextlib

    from segcertify.progress import progress_bar

    with contextlib.redirect_stderr(shown := io.StringIO()), progress_bar(1, name, show=True) as advance:
        advance(1)
    return acts_on_a_terminal(shown.getvalue())


def _votes(shape: tuple[int, ...], name: str):
    import segcertify as sc

    candidate = np.arange(np.prod(shape)).reshape(shape) % 2
    return sc.Votes(
        candidate, np.full(shape, 100), n0=10, n=100, noise=sc.Gaussian(0.25), seed=0, input_id=name,
    )  # fmt: skip


def _certificate(shape: tuple[int, ...], name: str):
    import segcertify as sc

    return sc.certify_votes(_votes(shape, name), tau=0.75, alpha=0.1)


def in_figures(name: str) -> str | None:
    """A figure's legend: drawn, without mathematics, and the name is there."""
    from segcertify.figures.image import certified_figure

    certificate = _certificate((4, 4), name)
    figure = certified_figure(np.zeros((3, 4, 4)), certificate.labels, certificate, names=(name, "other"))
    figure.savefig(io.BytesIO(), dpi=20)
    texts = [text for legend in figure.legends for text in legend.get_texts()]
    if len(texts) != 2:
        return f"{len(texts)} names of 2 in the legend"
    drawn, is_mathematics = texts[0]._preprocess_math(texts[0].get_text())
    if is_mathematics:
        return "mathematics"
    return acts_on_a_terminal(drawn) or (None if len(name) > 30 else read_as(drawn, name))


def in_pages(name: str) -> str | None:
    """The page of a cloud: the same elements whatever the name, and it can be written."""
    from segcertify.figures.cloud_page import save_view

    def tags(text: str) -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            points, votes = np.random.default_rng(0).normal(size=(5, 3)), _votes((5,), text)
            save_view(Path(folder) / "a.html", points, _certificate((5,), text), votes, names=(text, "other"))
            read = Cells()
            read.feed((Path(folder) / "a.html").read_text("utf-8"))
            return read.tags

    return None if tags(name) == tags("ordinary") else "other elements"


def in_files(names: list[str]) -> Iterator[tuple[str | None, str]]:
    """Files of scenes with these ids: each can be written, inside the run's folder, and none is another's."""
    from segcertify.records.run_folder import RunFolder
    from segcertify.records.settings import Setting

    setting = Setting(0.30000000000000004, 9876543, 0.9999999999999999)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = RunFolder(Path(folder) / "run", names)
        except UnicodeEncodeError as error:
            yield "raw", f"in_files: {error!r}"
            names = [name for name in names if not re.search("[\ud800-\udfff]", name)]
            run = RunFolder(Path(folder) / "run", names)
        seen: dict[str, str] = {}
        for name in names:
            paths = [
                run.votes(name, 0.30000000000000004),
                Path(f"{run.pictures(name, setting, 'bonferroni')}-labels.png"),
                run.checkpoint(name, 0.25),
            ]
            kind, example = None, ""
            for path in paths:
                key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(path)).casefold())
                if seen.setdefault(key, name) != name:
                    kind, example = "doubled", f"in_files {name[:60]!a} and {seen[key][:60]!a} share {path.name[:80]!a}"
                elif ".." in path.relative_to(folder).parts or path.name.startswith((".", "-")):
                    kind = "ran" if ".." in path.relative_to(folder).parts else "silent"  # hidden, or like an option
                    example = f"in_files {name[:60]!a}: {path.name[:80]!a}"
                else:
                    try:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.with_name(f".{path.name}.1234567.tmp").touch()
                    except (OSError, ValueError) as error:
                        kind, example = "raw", f"in_files {name[:60]!a}: {error.__class__.__name__}"
            yield kind, example
