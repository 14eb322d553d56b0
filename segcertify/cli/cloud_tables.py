"""Commands that run the paper's tables on point clouds again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli.options import (
    BatchSize,
    Data,
    Device,
    Limit,
    Precision,
    Seed,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import print_files, print_table
from segcertify.errors import InputError
from segcertify.specs import with_option

if TYPE_CHECKING:
    from segcertify.data import DataSet
    from segcertify.reproduce.cloud_tables import CloudTable

TABLES = {
    "table2": "Table 2: part segmentation of point clouds.",
    "table2-bonferroni": "What Bonferroni changes in Table 2.",
    "tau-sweep-clouds": "Figure 4: certified accuracy of point clouds against the radius as tau grows.",
    "rotation": "Point clouds under 3-D rotations: true certificates beside the paper's axis-angle noise.",
}


def table_command(name: str) -> Callable[..., None]:
    """The command that runs one of the paper's tables on clouds."""

    def command(
        data: Data,
        model: Annotated[
            list[str],
            typer.Option(
                help="NAME=SPEC, such as 0.5-normals=pointnet2:FILE: NAME is one of the table's models (the sigma of "
                "its training or non-robust, with -normals where it takes them). Once for each model that there is."
            ),
        ],
        every: Annotated[int | None, typer.Option(help="Every k-th cloud; by default as in the paper.")] = None,
        limit: Limit = None,
        seed: Seed = 0,
        device: Device = None,
        batch_size: BatchSize = None,
        precision: Precision = "fp32",
        out: Annotated[Path | None, typer.Option(help="Folder of the runs; the same command resumes them.")] = None,
    ) -> None:
        from segcertify.reproduce.cloud_tables import EVERY, LIMIT, cloud_table, reproduce_clouds

        table, paper = cloud_table(name), data.startswith("shapenet:")
        specs = _specs(model)
        every = (EVERY if paper else 1) if every is None else every
        limit = LIMIT if limit is None and paper else limit
        device = chosen_device(device)
        out = folder(out or Path("reproduce") / name)
        result = reproduce_clouds(
            table,
            lambda normals: _clouds(data, normals=normals, every=every, limit=limit),
            models={kind: partial(ready_model, spec, device) for kind, spec in specs.items()},
            out=out,
            seed=seed,
            device=device,
            batch_size=batch_size,
            precision=precision,
        )
        print_table(result)
        files = result.save(out, name)
        if name == "tau-sweep-clouds":
            files.append(_figure(table, out, [kind for kind in table.models if kind in specs]))
        print_files(files)

    command.__doc__ = TABLES[name]
    return command


def _specs(models: list[str]) -> dict[str, str]:
    """The models' specs by name."""
    pairs = [text.partition("=")[::2] for text in models]
    for (name, spec), text in zip(pairs, models, strict=True):
        if not name or not spec or ":" in name:
            raise InputError(f"--model takes NAME=SPEC such as 0.25-normals=pointnet2:FILE, but got {text!r}")
    specs = dict(pairs)
    if len(specs) < len(models):
        raise InputError(f"--model names a model twice: {', '.join(name for name, _ in pairs)}")
    return specs


def _clouds(spec: str, *, normals: bool, every: int, limit: int | None) -> DataSet:
    """The clouds of a spec, with normals for the models that take them."""
    from segcertify.data import load

    if "normals=" in spec:
        raise InputError(f"leave normals out of {spec!r}: each model's name says whether it takes them")
    clouds = load(with_option(spec, "normals", "true") if normals else spec).every(every)
    return clouds if limit is None else clouds.limit(limit)


def _figure(table: CloudTable, out: Path, models: list[str]) -> Path:
    """All models' curves in one figure."""
    from segcertify.figures.image import save_figure
    from segcertify.report.figures import radius_figure
    from segcertify.report.run import Run
    from segcertify.reproduce.cloud_tables import folder_of

    runs = [Run.load(folder_of(out, name)) for name in models]
    curves = [curve for run in runs for curve in run.curves()]
    rows = [row for run in runs for row in run.rows if row.sigma is not None]
    save_figure(radius_figure(curves, rows, title=table.title), out / f"{table.name}.png")
    return out / f"{table.name}.png"
