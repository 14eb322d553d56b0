"""Commands that run the paper's experiments again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli.options import (
    BatchSize,
    Data,
    Device,
    Limit,
    Model,
    Precision,
    Seed,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import console, escape, print_files, print_table

if TYPE_CHECKING:
    from segcertify.segmenter import Segmenter

app = typer.Typer(no_args_is_help=True, help="Run the paper's experiments again.")

TABLES = {
    "table1": "Table 1: semantic segmentation.",
    "table1-extended": "The extended version of Table 1.",
    "bonferroni": "What Bonferroni changes in Table 1.",
    "consistency": "Table 1 for a base model trained with consistency regularization.",
    "tau-sweep": "Figure 3: certified accuracy against the radius as tau grows.",
}


@app.callback()
def _reproduce() -> None:
    """Run the paper's experiments again."""


@app.command()
def toy(
    out: Annotated[Path, typer.Option(help="Folder for figures and numbers.")] = Path("toy"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    seed: Seed = 0,
) -> None:
    """The figures of sections 6.1 and B: power of all four methods on toy data."""
    from segcertify.reproduce.toy import run

    summary = run(folder(out), quick=quick, seed=seed)
    console.print(escape(str(summary)))
    print_files(summary.files)


def _table(name: str) -> Callable[..., None]:
    """The command that runs one of the paper's tables."""

    def command(
        data: Data,
        model: Model,
        non_robust: Annotated[str | None, typer.Option(help="A model not trained on noise, for its rows.")] = None,
        scale: Annotated[list[str] | None, typer.Option(help="Only these scales: 0.25, 0.5, ..., multi.")] = None,
        every: Annotated[int | None, typer.Option(help="Every k-th scene; by default as in the paper.")] = None,
        limit: Limit = None,
        seed: Seed = 0,
        device: Device = None,
        batch_size: BatchSize = None,
        precision: Precision = "fp32",
        out: Annotated[Path | None, typer.Option(help="Folder of the runs; the same command resumes them.")] = None,
    ) -> None:
        from segcertify.data import load
        from segcertify.pictures import save_figure
        from segcertify.report.figures import radius_figure
        from segcertify.report.run import read_run
        from segcertify.reproduce.tables import EVERY, paper_table, reproduce

        table = paper_table(name)
        kind = data.split(":")[0]
        scenes = load(data).every(every or EVERY.get(kind, 1))
        limit = 100 if limit is None and kind in EVERY else limit  # as in the paper
        scenes = scenes if limit is None else scenes.limit(limit)
        out = folder(out or Path("reproduce") / name)
        device = chosen_device(device)

        def at_scale(spec: str) -> Callable[[str], Segmenter]:
            return lambda scale: ready_model(_with_scale(spec, scale, data), device)

        result = reproduce(
            table,
            scenes,
            model=at_scale(model),
            non_robust=None if non_robust is None else at_scale(non_robust),
            out=out,
            scales=scale or (),
            name=model,
            seed=seed,
            device=device,
            batch_size=batch_size,
            precision=precision,
        )
        print_table(result)
        files = result.save(out, name)
        if name == "tau-sweep":
            run = read_run(out / f"base-scale{table.scales[0]}")
            save_figure(radius_figure(run.curves(), run.rows, title=table.title, power=4), out / "tau-sweep.png")
            files.append(out / "tau-sweep.png")
        print_files(files)

    command.__doc__ = TABLES[name]
    return command


def _with_scale(spec: str, scale: str, data: str) -> str:
    """The model's spec at a scale; the paper's multi-scale has one more scale for Pascal Context."""
    if scale == "multi" and data.startswith("pascal-context:"):
        scale = "multi-pascal"
    return f"{spec}{'&' if '?' in spec else '?'}scale={scale}"


for _name in TABLES:
    app.command(_name)(_table(_name))
