"""`segcertify reproduce`: the paper's experiments again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer
from segcertify.errors import InputError, unknown
from segcertify.names import file_name
from segcertify.specs import parse, with_option
from segcertify.storage.plain_values import read_json

if TYPE_CHECKING:
    from segcertify.data import DataSet

app = typer.Typer(no_args_is_help=True, help="Run the paper's experiments again.")

IMAGES = {
    "table1": "Table 1: semantic segmentation.",
    "table1-extended": "The extended version of Table 1.",
    "bonferroni": "What Bonferroni changes in Table 1.",
    "consistency": "Table 1 for a base model trained with consistency regularization.",
    "tau-sweep": "Figure 3: certified accuracy against the radius as tau grows.",
}
CLOUDS = {
    "table2": "Table 2: part segmentation of point clouds.",
    "table2-bonferroni": "What Bonferroni changes in Table 2.",
    "tau-sweep-clouds": "Figure 4: certified accuracy of point clouds against the radius as tau grows.",
    "rotation": "Point clouds under 3-D rotations: true certificates beside the paper's axis-angle noise.",
}

PASCAL = "pascal-context"
Rows = Annotated[
    list[str] | None,
    typer.Option("--rows", help="Only the rows with these values, such as sigma=0.25,n=100. May be repeated."),
]


@app.callback()
def _reproduce() -> None:
    """Run the paper's experiments again; the same command resumes them."""


@app.command()
def toy(
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    seed: opt.Seed[int] = 0,
    out: opt.Out[Path] = Path("toy"),
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """The figures of sections 6.1 and B: power of all four methods on toy data."""
    from segcertify.reproduce.toy import run

    printer = Printer(json, quiet)
    summary = run(opt.folder(out), quick=quick, seed=seed, progress=printer.progress)
    printer.say(str(summary))
    printer.files(summary.files)
    printer.result(summary=str(summary), files=summary.files)


def _of_images(name: str) -> Callable[..., None]:
    """The command that runs one of the paper's tables on images."""

    def command(
        data: opt.Data[str],
        model: opt.Model[str],
        non_robust: opt.NonRobust[str | None] = None,
        scale: Annotated[list[str] | None, typer.Option(help="Only these scales: 0.25, 0.5, ..., multi.")] = None,
        **settings: Any,
    ) -> None:
        from segcertify.reproduce.paper_tables import paper_table

        scales = paper_table(name).heads
        for each in scale or []:
            if each not in scales:
                raise unknown("scale", each, scales, where=f" of {name}")
        given = {"base": model} | ({} if non_robust is None else {"non-robust": non_robust})
        specs = {
            f"{kind}-scale{each}": _with_scale(spec, each, data)
            for each in scale or scales
            for kind, spec in given.items()
        }
        _run(name, specs, data, scale or (), model, **settings)

    command.__doc__ = IMAGES[name]
    return opt.with_options(command, _shared())


def _of_clouds(name: str) -> Callable[..., None]:
    """The command that runs one of the paper's tables on clouds."""

    def command(
        data: opt.Data[str | None] = None,
        model: Annotated[
            list[str] | None,
            typer.Option(
                "--named-model",
                help="NAME=SPEC, such as 0.5-normals=pointnet2:FILE: NAME is one of the table's models (the sigma of "
                "its training or non-robust, with -normals where it takes them). Once for each model that there is.",
            ),
        ] = None,
        results: Annotated[
            Path | None,
            typer.Option(help="The results.json of experiments/cloud_models.py: show its numbers, and evaluate none."),
        ] = None,
        **settings: Any,
    ) -> None:
        if results is not None:
            printer = Printer(settings["json"], settings["quiet"])
            _show(name, results, settings["rows"], out=settings["out"], printer=printer)
            return
        if data is None or not model:
            raise InputError(f"reproduce {name} needs --data and --named-model, or --results")
        if "normals=" in data:
            raise InputError(f"leave normals out of {data!r}: each model's name says whether it takes them")
        _run(name, _named(model), data, **settings)

    command.__doc__ = CLOUDS[name]
    return opt.with_options(command, _shared())


def _show(name: str, path: Path, rows: Sequence[str] | None, *, out: Path | None, printer: Printer) -> None:
    """Print a table of clouds with the numbers of a file of results, and write it if a folder was named."""
    from segcertify.reproduce.comparison import beside_results
    from segcertify.reproduce.paper_tables import paper_table

    table = paper_table(name).chosen([opt.setting_values("--rows", text) for text in rows or []])
    if not path.is_file():
        raise InputError(f"no file of results at {path}")
    try:
        missing = f"cannot read the results in {path}: there is no file"
        result = beside_results(
            table, read_json(path, missing=missing, cure="make it with experiments/cloud_models.py")
        )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path} holds no results of experiments/cloud_models.py ({error!r})") from None
    printer.table(result)
    files = [] if out is None else result.save(opt.folder(out), name)
    printer.files(files)
    printer.result(table=result, notes=result.notes, files=[path, *files])


def _shared() -> list[inspect.Parameter]:
    """The options that the commands of all tables share: the keyword arguments of `_run`."""
    parameters = inspect.signature(_run, eval_str=True).parameters.values()
    return [each for each in parameters if each.kind is each.KEYWORD_ONLY]


def _run(
    name: str, specs: dict[str, str], data: str, heads: Sequence[str] = (), label: str = "", *, rows: Rows = None,
    seed: opt.Seed[int] = 0, every: opt.Every[int | None] = None, limit: opt.Limit = None,
    batch_size: opt.BatchSize = None, device: opt.Device = None, precision: opt.Precision = "fp32",
    trust_code: opt.TrustCode = False, out: opt.Out[Path | None] = None, json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Run a table with the models of these specs, print it, and write it and its figure."""
    from segcertify.figures.image import save_figure
    from segcertify.reproduce.comparison import reproduce
    from segcertify.reproduce.paper_figures import sweep_figure
    from segcertify.reproduce.paper_tables import SWEPT, paper_table

    table = paper_table(name).chosen([opt.setting_values("--rows", text) for text in rows or []])
    out = opt.folder(
        out or Path("reproduce") / file_name("-".join([name, *(rows or [])]))
    )  # other rows are other evaluations
    device = opt.chosen_device(device)
    scenes, printer = partial(_scenes, data, every=every, limit=limit), Printer(json, quiet)
    models = {each: partial(opt.ready_model, spec, device, trust_code=trust_code) for each, spec in specs.items()}
    if not table.clouds:
        models = {each: make for each, make in models.items() if each in table.models}  # not all have a non-robust one
    result = reproduce(
        table, scenes, models=models, out=out, heads=heads, name=label, seed=seed, device=device,
        batch_size=batch_size, precision=precision, progress=printer.progress,
    )  # fmt: skip
    printer.table(result)
    files = result.save(out, name)
    if name in SWEPT:
        files.append(out / f"{name}.png")
        save_figure(sweep_figure(table, out, [each for each in table.models if each in models]), files[-1])
    printer.files(files)
    printer.result(table=result, notes=result.notes, files=files)


def _scenes(spec: str, normals: bool, *, every: int | None, limit: int | None) -> DataSet:
    """The scenes of a spec, by default those of the paper; clouds with normals for the models that take them."""
    from segcertify.data import load
    from segcertify.reproduce.paper_tables import SUBSETS

    kind = parse(spec)
    step, most = SUBSETS.get(kind.scheme, (1, None))
    if kind.scheme == PASCAL and "order" not in kind.options:
        spec = with_option(spec, "order", "json")  # in which the paper takes every 51st
    scenes = load(with_option(spec, "normals", "true") if normals else spec).every(step if every is None else every)
    most = most if limit is None else limit
    return scenes if most is None else scenes.limit(most)


def _named(models: list[str]) -> dict[str, str]:
    """The models' specs by name."""
    pairs = [text.partition("=")[::2] for text in models]
    for (name, spec), text in zip(pairs, models, strict=True):
        if not name or not spec or ":" in name:
            raise InputError(f"--named-model takes NAME=SPEC such as 0.25-normals=pointnet2:FILE, but got {text!r}")
    if len(dict(pairs)) < len(models):
        raise InputError(f"--named-model names a model twice: {', '.join(name for name, _ in pairs)}")
    return dict(pairs)


def _with_scale(spec: str, scale: str, data: str) -> str:
    """The model's spec at a scale. For Pascal Context the released code has one more scale, and a base size."""
    if parse(data).scheme != PASCAL:
        return with_option(spec, "scale", scale)
    if scale == "multi":
        return with_option(spec, "scale", "multi-pascal")
    return with_option(with_option(spec, "scale", scale), "base_size", "520")


for _name in IMAGES:
    app.command(_name)(_of_images(_name))
for _name in CLOUDS:
    app.command(_name)(_of_clouds(_name))
