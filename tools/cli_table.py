"""Prints the options of all commands from the command line itself: python tools/cli_table.py > docs/cli.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import typer.main

from segcertify.cli import app

HEAD = """# The command line

This page is made by `python tools/cli_table.py > docs/cli.md`. Change the code, not the page.

An option has the same name and the same meaning in every command. `segcertify COMMAND --help` shows it with its
default. Every command takes `--json` (one JSON object on standard output, all else on standard error) and `--quiet`
(only the result).
"""


class Option(NamedTuple):
    """An option of a command, as `--help` shows it."""

    name: str
    help: str
    panel: str | None


def commands() -> Iterator[tuple[str, Any]]:
    """The names of all commands and the commands, those of a group with the group's name."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        yield from ((f"{name} {each}", child) for each, child in inner.items()) if inner else [(name, command)]


def options(command: Any) -> list[Option]:
    """A command's options, but for --help."""
    found = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return [
        Option(max(each.opts, key=len), each.help, each.rich_help_panel) for each in found if "--help" not in each.opts
    ]


def page() -> str:
    """The page: a table of commands, a table of options by commands, and what each option means."""
    columns: dict[str, dict[str, Option]] = {}
    groups: dict[str, str] = {}
    for name, command in commands():
        group = name.partition(" ")[0]
        groups.setdefault(name, _first_line(command.help))
        columns.setdefault(group, {}).update({option.name: option for option in options(command)})
    rows = sorted({name for found in columns.values() for name in found}, key=lambda row: (row.lower(), row))
    lines = [HEAD, "| command | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in groups.items()]
    lines += ["", f"| option | {' | '.join(columns)} |", f"| --- |{' :-: |' * len(columns)}"]
    for row in rows:
        marks = ("x" if row in found else "" for found in columns.values())
        lines.append(f"| `{row}` | {' | '.join(marks)} |")
    lines += ["", "| option | what it means |", "| --- | --- |"]
    lines += [f"| `{row}` | {_meaning(row, columns)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _meaning(row: str, columns: dict[str, dict[str, Option]]) -> str:
    """The help of an option; where a command has its own, with the command's name."""
    helps: dict[str, list[str]] = {}
    for name, found in columns.items():
        if row in found:
            helps.setdefault(" ".join(found[row].help.split()), []).append(name)
    usual = max(helps, key=lambda text: len(helps[text]))
    others = [f"{text} ({', '.join(names)})" for text, names in helps.items() if text != usual]
    return " ".join([usual, *others]).replace("|", "\\|").replace("*", "\\*")


def _first_line(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


if __name__ == "__main__":
    print(page(), end="")
