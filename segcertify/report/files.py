"""The files of a report: tables as Markdown, LaTeX and CSV, figures, and a page."""

import os
from pathlib import Path

from segcertify.figures.image import save_figure
from segcertify.report.figures import attacked_figure, metric_figure, radius_figure
from segcertify.report.page import save_run_page
from segcertify.report.run import Run


def write_report(
    run: Run, folder: str | os.PathLike[str], *, run_folder: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Write all tables, figures and the page of an evaluation to a folder; returns the files.

    The page, ``index.html``, shows the pictures that lie in the evaluation's own folder, if ``run_folder`` is given.
    """
    folder, tables = Path(folder), run.tables()
    files = [file for name, table in tables.items() for file in table.save(folder, name)]
    figures = {"radius": radius_figure(run.curves(), run.rows, title=run.title)} if run.curves() else {}
    if (attacked := tables.get("attacked")) is not None:
        figures["attacked"] = attacked_figure(run.attacked_rows, run.curves(), run.rows, title=attacked.title)
    if (bounds := tables.get("metrics")) is not None and run.metric_curves():
        share = run.configuration["metrics"]["share"]
        figures["metrics"] = metric_figure(run.metric_curves(), title=bounds.title, share=share)
    for name, figure in figures.items():
        files.append(folder / f"{name}.png")
        save_figure(figure, files[-1])
    files.append(folder / "index.html")
    save_run_page(run, files[-1], run_folder=run_folder)
    return files
