"""The command line: each command parses, turns names into objects, calls one function, prints."""

import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import segcertify
from segcertify.cli import (
    attack,
    audit,
    bench,
    certify,
    demo,
    evaluate,
    harden,
    join,
    plan,
    report,
    reproduce,
    show,
    train,
)
from segcertify.cli.printing import print_note
from segcertify.cli.several import for_each_input
from segcertify.cli.waiting import sleep_soon
from segcertify.errors import InputError
from segcertify.names import visible
from segcertify.storage.interruption import Stop, stoppable


class _Commands(TyperGroup):
    """All commands. What is wrong with a command line is told without control characters that it may hold."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """The command line taken apart."""
        with _visible_messages():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with _visible_messages():
            return super().invoke(ctx)


@contextmanager
def _visible_messages() -> Iterator[None]:
    """Typer's errors quote the command line: only what can be seen may reach the terminal."""
    try:
        yield
    except Exception as error:
        if isinstance(getattr(error, "message", None), str):
            error.message = visible(error.message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    demo.demo, for_each_input(certify.certify), show.show, plan.plan, attack.attack, audit.audit, evaluate.evaluate,
    report.report, train.train, harden.harden, join.join, bench.bench,
):  # fmt: skip
    app.command()(command)
app.add_typer(reproduce.app, name="reproduce")


def main() -> None:
    """Run the command line; bad input ends with one clear line, not a traceback, and so does a signal."""
    sleep_soon()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # where it is no longer the file that it was
                stream.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    with stoppable(), warnings.catch_warnings():
        warnings.showwarning = _as_note
        try:
            app()
        except InputError as error:
            print_note("error", str(error), "bold red")
            sys.exit(2)
        except (OSError, MemoryError) as error:  # what no reader or writer expected of the system
            print_note("error", _refusal(error), "bold red")
            sys.exit(1)
        except Stop as stop:
            if not stop.said:
                print_note(f"stopped by {stop.signal}", "give the same command again")
            raise


def _refusal(error: OSError | MemoryError) -> str:
    """What the system refuses, in one line: a path too long, a disk that fails, more memory than there is."""
    if isinstance(error, MemoryError):
        return f"this takes more memory than there is ({str(error) or 'no more can be had'})"
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"


def _as_note(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None,
    line: str | None = None,
) -> None:  # fmt: skip
    """A warning for the user as a note, without the place in the code; those for programmers as always."""
    if issubclass(category, UserWarning):
        print_note("note", str(message))
    else:
        sys.stderr.write(visible(warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")) + "\n")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"segcertify {segcertify.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Certified segmentation: labels that provably cannot be changed within a radius, or an abstention."""
