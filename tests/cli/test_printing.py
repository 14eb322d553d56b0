"""What commands print: tables that fit the screen, one JSON object, no more than was asked for."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from segcertify.cli import printing
from segcertify.cli.printing import Printer
from segcertify.report.table import Table


def test_a_table_too_wide_for_the_screen_is_turned(monkeypatch, capsys):
    """No number is cut: each row becomes a column."""
    table = Table("a title", ("setting", *(f"a long head {i}" for i in range(9))), (("row", *(["0.12345"] * 9)),))
    for width, lines_with_numbers in ((300, 1), (60, 9)):
        monkeypatch.setattr(printing, "console", Console(width=width))
        printing.print_table(table)
        shown = capsys.readouterr().out
        assert shown.count("0.12345") == 9
        assert sum("0.12345" in line for line in shown.splitlines()) == lines_with_numbers


@pytest.mark.parametrize("width", range(60, 140, 8))
def test_no_word_is_broken_where_there_is_room(width, monkeypatch, capsys):
    heads = ("", "R", "certified accuracy", "mIoU pooled", "abstained (valid)", "abstained (all)", "seconds")
    rows = [(f"sigma=0.25, n={n}, tau=0.75, holm", "0.168", *["0.8207"] * 4, "12.34") for n in (100, 300, 500)]
    monkeypatch.setattr(printing, "console", Console(width=width))
    printing.print_table(Table("a title", heads, tuple(rows)))
    shown = capsys.readouterr().out
    for word in ("sigma=0.25,", "certified", "abstained", "(valid)", "0.8207", "seconds"):
        assert shown.count(word) >= (12 if word == "0.8207" else 1)
    assert max(len(line) for line in shown.splitlines()) <= width


def test_a_long_table_on_a_narrow_screen_is_printed_in_parts(monkeypatch, capsys):
    table = Table("a title", ("setting", "a", "b", "c", "d"), (("row", *(["0.12345"] * 4)),) * 9)
    monkeypatch.setattr(printing, "console", Console(width=30))
    printing.print_table(table)
    shown = capsys.readouterr().out
    assert shown.count("0.12345") == 9 * 4
    assert shown.count("setting") == 9  # one row in each part
    assert shown.count("a title (continued)") == 8
    assert max(len(line) for line in shown.splitlines()) <= 30


def test_a_word_wider_than_the_screen_is_broken_but_not_cut(monkeypatch, capsys):
    monkeypatch.setattr(printing, "console", Console(width=20))
    printing.print_table(Table("a title", ("setting", "a"), (("row", "0.1234567890123456789"),)))
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert sum(character.isdigit() for character in shown) == 20


TABLE = Table(
    "a title", ("name", "value"), (("a", "0.5"), ("b", "-"), ("c", "1,234 (5%)"), ("", "nan")), ("a note of the table",)
)


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_goes_where(as_json, quiet, capsys):
    printer = Printer(as_json, quiet)
    printer.say("the [result]")
    printer.table(TABLE)
    printer.facts({"name": "value"})
    printer.files([Path("a.png")])
    printer.note("mind the gap")
    printer.note(None)
    printer.result(table=TABLE, files=[Path("a.png")], share=float("inf"), none=None, ok=True)
    out, err = capsys.readouterr()
    assert ("mind the gap" in err) == (not quiet)
    assert printer.progress is (False if quiet else None)
    if as_json:
        rows = [{"name": "a", "value": 0.5}, {"name": "b", "value": None}, {"name": "c", "value": "1,234 (5%)"}]
        rows.append({"name": None, "value": None})
        assert json.loads(out) == {"table": rows, "files": ["a.png"], "share": None, "none": None, "ok": True}
        return
    for text in ("the [result]", "1,234 (5%)", "a note of the table", "value"):
        assert text in out
    assert ("wrote a.png" in out) == (not quiet)
