"""Commands on data sets: evaluate, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli.options import (
    Alpha,
    BatchSize,
    Candidates,
    Data,
    Device,
    Every,
    Limit,
    Model,
    Precision,
    Seed,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import print_files, print_table
from segcertify.errors import InputError

if TYPE_CHECKING:
    from segcertify.evaluation import Setting


def evaluate(
    model: Model,
    data: Data,
    setting: Annotated[
        list[str], typer.Option(help="sigma,n,tau such as 0.25,100,0.75; give it several times for several claims.")
    ],
    noise: Annotated[
        str, typer.Option(help="gaussian, or for clouds rotation, x-rotation, y-rotation, z-rotation.")
    ] = "gaussian",
    correction: Annotated[
        list[str] | None, typer.Option(help="holm (the default), bonferroni, bh or by; may be given several times.")
    ] = None,
    n0: Candidates = 10,
    alpha: Alpha = 0.001,
    seed: Seed = 0,
    every: Every = 1,
    limit: Limit = None,
    device: Device = None,
    batch_size: BatchSize = None,
    precision: Precision = "fp32",
    votes: Annotated[bool, typer.Option("--votes", help="Keep every scene's votes.")] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Keep pictures of every scene; of clouds also a page each.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The run's folder; the same command resumes it.")] = Path("evaluation"),
) -> None:
    """Certify a data set: records as JSON lines, tables and a figure. Run again to resume."""
    from segcertify.data import load
    from segcertify.evaluation import evaluate

    claims = [parse_setting(text) for text in setting]
    scenes = load(data).every(every)
    scenes = scenes if limit is None else scenes.limit(limit)
    device = chosen_device(device)
    evaluate(
        ready_model(model, device),
        scenes,
        out=folder(out),
        settings=claims,
        noise=noise,
        corrections=correction or ["holm"],
        n0=n0,
        alpha=alpha,
        seed=seed,
        batch_size=batch_size,
        device=device,
        name=model,
        precision=precision,
        save_votes=votes,
        save_pictures=pictures,
    )
    report(out)


def report(
    run: Annotated[Path, typer.Argument(help="The folder of an evaluation.")],
) -> None:
    """Tables (Markdown, LaTeX, CSV) and the radius figure of an evaluation, finished or not."""
    from segcertify.pictures import save_figure
    from segcertify.report.figures import radius_figure
    from segcertify.report.run import read_run

    finished = read_run(run)
    table = finished.results()
    print_table(table)
    files = table.save(run / "report", "results") + finished.classes().save(run / "report", "classes")
    if (categories := finished.categories()) is not None:
        files += categories.save(run / "report", "categories")
    figure = run / "report" / "radius.png"
    save_figure(radius_figure(finished.curves(), finished.rows, title=finished.title), figure)
    print_files([*files, figure])


def parse_setting(text: str) -> Setting:
    """sigma,n,tau."""
    from segcertify.evaluation import Setting

    try:
        sigma, n, tau = text.split(",")
        return Setting(float(sigma), int(n), float(tau))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--setting takes sigma,n,tau such as 0.25,100,0.75, but got {text!r}") from None
