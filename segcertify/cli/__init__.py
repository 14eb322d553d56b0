"""The command line: each command parses, turns names into objects, calls one function, prints."""

import sys
from typing import Annotated

import typer

import segcertify
from segcertify.cli import attack, audit, certify, demo, evaluate, join, plan, report, reproduce, show, train
from segcertify.cli.printing import escape, notes
from segcertify.errors import InputError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    demo.demo, certify.certify, show.show, plan.plan, attack.attack, audit.audit, evaluate.evaluate, report.report,
    train.train, join.join,
):  # fmt: skip
    app.command()(command)
app.add_typer(reproduce.app, name="reproduce")


def main() -> None:
    """Run the command line; bad input ends with one clear line, not a traceback."""
    try:
        app()
    except InputError as error:
        notes.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)


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
