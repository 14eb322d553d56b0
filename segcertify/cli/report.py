"""`segcertify report`: the tables and figures of an evaluation."""

from pathlib import Path
from typing import Annotated

import typer

from segcertify.cli.options import Json, Out, Quiet, folder
from segcertify.cli.printing import Printer


def report(
    run: Annotated[Path, typer.Argument(help="The folder of an evaluation, finished or not.")],
    out: Out[Path | None] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write tables (Markdown, LaTeX, CSV) and figures of an evaluation, by default to RUN/report."""
    print_report(run, Printer(json, quiet), out=out)


def print_report(run: Path, printer: Printer, *, out: Path | None = None, already: bool = False) -> None:
    """Write the report of a run, and print its tables; ``already`` if the run was finished before the command."""
    from segcertify.report.files import write_report
    from segcertify.report.run import Run
    from segcertify.storage.atomic import remove_stale

    loaded, out = Run.load(run), folder(out or run / "report")
    remove_stale(out)
    files = write_report(loaded, out, run_folder=run)
    tables = {
        "results": loaded.results_table(), "attacked": loaded.attacked_table(), "metrics": loaded.metric_table(),
        "sets": loaded.set_table(), "sets_named": loaded.named_set_table(), "skipped": loaded.skipped_table(),
    }  # fmt: skip
    for table in tables.values():
        if table is not None:
            printer.table(table)
    if already:
        printer.detail(f"{run} was finished already; its report is in {files[0].parent}")
    else:
        printer.files(files)
    printer.result(title=loaded.title, run=run, **tables, files=files)
