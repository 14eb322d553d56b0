"""The command line: each command parses, turns names into objects, calls one function, prints."""

import sys
import warnings
from typing import Annotated, Any

import typer

import segcertify
from segcertify.cli import attack, audit, certify, demo, evaluate, harden, join, plan, report, reproduce, show, train
from segcertify.cli.printing import escape, notes
from segcertify.errors import InputError
from segcertify.storage.interruption import Stop, stoppable

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    demo.demo, certify.certify, show.show, plan.plan, attack.attack, audit.audit, evaluate.evaluate, report.report,
    train.train, harden.harden, join.join,
):  # fmt: skip
    app.command()(command)
app.add_typer(reproduce.app, name="reproduce")


def main() -> None:
    """Run the command line; bad input ends with one clear line, not a traceback, and so does a signal."""
    with stoppable(), warnings.catch_warnings():
        warnings.showwarning = _as_note
        try:
            app()
        except InputError as error:
            notes.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            sys.exit(2)
        except Stop as stop:
            if not stop.said:
                notes.print(f"stopped by {stop.signal}: give the same command again")
            raise


def _as_note(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """A warning for the user as a note, without the place in the code; those for programmers as always."""
    if issubclass(category, UserWarning):
        notes.print(f"[yellow]note:[/] {escape(str(message))}", soft_wrap=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *where[:2]))


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
