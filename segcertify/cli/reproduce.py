"""Commands that run the paper's experiments again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli import cloud_tables
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
from segcertify.errors import InputError
from segcertify.specs import with_option

if TYPE_CHECKING:
    from segcertify.reproduce.training import Claim
    from segcertify.sampling.segmenter import Segmenter

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


@app.command()
def training(
    data: Annotated[str | None, typer.Option(help="The data set without its split: camvid:FOLDER.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of models, runs and results; the same command resumes.")] = Path(
        "reproduce/training"
    ),
    model_spec: Annotated[str | None, typer.Option(help="lite (the default), hrnet:w18-small-v2, ...")] = None,
    start: Annotated[str | None, typer.Option(help="A file of weights that every training starts from.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each training.")] = None,
    objective: Annotated[
        list[str] | None, typer.Option(help="non-robust, noise, consistency (all three by default) or smoothadv.")
    ] = None,
    sigma: Annotated[list[float] | None, typer.Option(help="Noise; 0.25, 0.33 and 0.5 by default.")] = None,
    scale: Annotated[list[str] | None, typer.Option(help="0.25, 0.5, 0.75, 1, multi; 0.5 and 1 by default.")] = None,
    claim: Annotated[list[str] | None, typer.Option(help="n,tau of a certificate; 100,0.75 by default.")] = None,
    train_split: Annotated[str | None, typer.Option(help="Scenes to train on; all but one drive by default.")] = None,
    validation_split: Annotated[str | None, typer.Option(help="Scenes to evaluate on; that drive by default.")] = None,
    every: Annotated[int, typer.Option(help="Evaluate on every k-th of these scenes.")] = 1,
    device: Device = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny version, to see that all works.")] = False,
    render: Annotated[
        Path | None, typer.Option(help="Only write the page and the figure of the results.json in this folder.")
    ] = None,
) -> None:
    """Non-robust, noise and consistency training on CamVid, side by side. Run again to resume."""
    from segcertify.reproduce import training_results

    if render is not None:
        print_files(training_results.render(render))
        return
    if data is None:
        raise InputError("name the data set to train on: --data camvid:FOLDER, or a folder of results: --render FOLDER")
    from segcertify.reproduce.training import Comparison, run
    from segcertify.reproduce.training import quick as quickly

    chosen = quickly(data) if quick else Comparison(data)
    chosen = replace(
        chosen,
        model=model_spec or chosen.model,
        init=start or chosen.init,
        recipe=replace(chosen.recipe, seed=seed, steps=chosen.recipe.steps if steps is None else steps),
        objectives=tuple(objective or chosen.objectives),
        sigmas=tuple(sigma or chosen.sigmas),
        scales=tuple(scale or chosen.scales),
        claims=tuple(map(_claim, claim)) if claim else chosen.claims,
        train_split=train_split or chosen.train_split,
        validation_split=validation_split or chosen.validation_split,
        every=every,
    )
    sys.path.insert(0, os.getcwd())  # modules in this folder can be imported
    results = run(chosen, out=folder(out), device=chosen_device(device), say=_say)
    print_table(results.table())
    console.print(f"wrote {escape(str(out / training_results.FILE))} and its table, figure and page", soft_wrap=True)


def _claim(text: str) -> Claim:
    """n,tau."""
    from segcertify.reproduce.training import Claim

    try:
        n, tau = text.split(",")
        return Claim(int(n), float(tau))
    except ValueError:
        raise InputError(f"--claim takes n,tau such as 100,0.75, but got {text!r}") from None


def _say(text: str) -> None:
    console.print(escape(text), soft_wrap=True)


@app.command()
def bundled(
    name: Annotated[
        str | None, typer.Argument(help="A model that ships with segcertify, such as pets or parts.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The spec of scenes that it was not trained on.")] = None,
    model: Annotated[
        str | None, typer.Option(help="In its place, one trained as it was but on other scenes: trained:FILE.")
    ] = None,
    non_robust: Annotated[str | None, typer.Option(help="In its twin's place, another such model.")] = None,
    every: Annotated[int, typer.Option(help="Take every k-th scene.")] = 1,
    limit: Limit = None,
    generated: Annotated[
        int | None, typer.Option(help="Generated shapes beside the clouds of --data; 48 by default.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs that a model of clouds averages: 3 by default, 1 is three times as fast.")
    ] = None,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; the same command resumes.")] = None,
    render: Annotated[Path | None, typer.Option(help="Only write the page of the results.json in this folder.")] = None,
) -> None:
    """A bundled model at the paper's claims: on images with its twin, on clouds real and generated."""
    from segcertify.reproduce import bundled

    if render is not None:
        print_files([bundled.render(render)])
        return
    if name is None or data is None:
        raise InputError(
            "name a bundled model and scenes: pets --data 'pets:FOLDER?split=val', "
            "or a folder of results: --render FOLDER"
        )
    from segcertify.data import load

    scenes = load(data).every(every)
    scenes = scenes if limit is None else scenes.limit(limit)
    place, device = folder(out or Path("reproduce") / "bundled" / name), chosen_device(device)
    again = {each: spec for each, spec in ((name, model), (name + bundled.TWIN, non_robust)) if spec is not None}
    print_files(
        bundled.run(name, scenes, out=place, again=again, generated=generated, runs=runs, device=device, seed=seed)
    )


@app.command()
def attacks(
    name: Annotated[
        str | None, typer.Argument(help="A model that ships with segcertify, such as pets, with its non-robust twin.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The spec of images that the models were not trained on.")] = None,
    model: Annotated[str | None, typer.Option(help="The spec of the robust model, in place of NAME.")] = None,
    non_robust: Annotated[
        str | None, typer.Option(help="The spec of the non-robust model, in place of a twin.")
    ] = None,
    example: Annotated[list[str] | None, typer.Option(help="The id of an image to show, hand-picked.")] = None,
    random: Annotated[int, typer.Option(help="How many more images the seed chooses.")] = 0,
    radius: Annotated[
        list[float] | None, typer.Option(help="l2 radii beyond the certified R; 2 R and 4 R by default.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of each attack on a base model.")] = 100,
    seed: Annotated[int, typer.Option(help="Fixes the choice at random, all noise and the attacks.")] = 0,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; the same command resumes.")] = None,
    render: Annotated[Path | None, typer.Option(help="Only write the page of the results.json in this folder.")] = None,
) -> None:
    """The appendix's further examples: attacked images beside what is certified."""
    from segcertify.reproduce import attack_results

    if render is not None:
        print_files([attack_results.render(render)])
        return
    if data is None:
        raise InputError("name the images: --data 'pets:FOLDER?split=val', or a folder of results: --render FOLDER")
    from segcertify.data import load
    from segcertify.reproduce.attacks import Plan, named, run

    robust, other = _models(name, model, non_robust)
    plan = Plan(named(robust), named(other), tuple(example or ()), random, steps=steps, seed=seed)
    plan = replace(plan, radii=tuple(radius)) if radius else plan
    scenes, device = load(data), chosen_device(device)
    plan.chosen(scenes)  # a bad choice is found before the models are read
    place = folder(out or Path("reproduce") / "attacks" / (name or scenes.name.partition("/")[0]))
    models = ready_model(robust, device), ready_model(other, device)
    print_files(run(*models, scenes, plan, out=place, device=device))


def _models(name: str | None, model: str | None, non_robust: str | None) -> tuple[str, str]:
    """The specs of the robust and the non-robust model; a name stands for a bundled model and its twin."""
    from segcertify.models import bundled
    from segcertify.reproduce.bundled import TWIN

    ships = [each for each in bundled() if each + TWIN in bundled()]
    if name is not None and name not in ships and (model is None or non_robust is None):
        raise InputError(
            f"no model {name!r} with a non-robust twin ships with segcertify: there are {', '.join(ships)}; "
            "name others with --model and --non-robust"
        )
    if name is None and (model is None or non_robust is None):
        raise InputError(
            f"name two models: a bundled one ({', '.join(ships)}) brings its twin, or --model and --non-robust"
        )
    return model or f"{name}", non_robust or f"{name}{TWIN}"


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
        from segcertify.figures.image import save_figure
        from segcertify.report.figures import radius_figure
        from segcertify.report.run import Run
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
            run = Run.load(out / f"base-scale{table.scales[0]}")
            save_figure(radius_figure(run.curves(), run.rows, title=table.title, power=4), out / "tau-sweep.png")
            files.append(out / "tau-sweep.png")
        print_files(files)

    command.__doc__ = TABLES[name]
    return command


def _with_scale(spec: str, scale: str, data: str) -> str:
    """The model's spec at a scale; the paper's multi-scale has one more scale for Pascal Context."""
    if scale == "multi" and data.startswith("pascal-context:"):
        scale = "multi-pascal"
    return with_option(spec, "scale", scale)


for _name in TABLES:
    app.command(_name)(_table(_name))
for _name in cloud_tables.TABLES:
    app.command(_name)(cloud_tables.table_command(_name))
