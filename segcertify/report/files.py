"""The files of a report: tables as Markdown, LaTeX and CSV, and figures."""

import os
from pathlib import Path

from segcertify.figures.image import save_figure
from segcertify.report.figures import attacked_figure, metric_figure, radius_figure
from segcertify.report.run import Run


def write_report(run: Run, folder: str | os.PathLike[str]) -> list[Path]:
    """Write all tables and figures of an evaluation to a folder; returns the files."""
    folder = Path(folder)
    tables = {
        "results": run.results_table(),
        "classes": run.class_table(),
        "categories": run.category_table(),
        "attacked": run.attacked_table(),
        "skipped": run.skipped_table(),
        "metrics": run.metric_table(),
        "sets": run.set_table(),
        "sets-classes": run.set_class_table(),
        "sets-named": run.named_set_table(),
    }
    files = [file for name, table in tables.items() if table is not None for file in table.save(folder, name)]
    figures = {"radius": radius_figure(run.curves(), run.rows, title=run.title)} if run.curves() else {}
    if (attacked := tables["attacked"]) is not None:
        figures["attacked"] = attacked_figure(run.attacked_rows, run.curves(), run.rows, title=attacked.title)
    if (bounds := tables["metrics"]) is not None and run.metric_curves():
        share = run.configuration["metrics"]["share"]
        figures["metrics"] = metric_figure(run.metric_curves(), title=bounds.title, share=share)
    for name, figure in figures.items():
        files.append(folder / f"{name}.png")
        save_figure(figure, files[-1])
    return files
