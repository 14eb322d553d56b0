"""The paper's ways to train, side by side: non-robust, noise and consistency [Fischer2021, section 6.2 and app. B].

    python experiments/training_table.py --data camvid:FOLDER --start efficientnet-lite0.pth --iterations 1200 --every 4

All models share one recipe and one start; only the objective and its noise differ. Each is smoothed with the noise
that it was trained with, the non-robust one with all of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import page
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from page import Results

import segcertify as sc
from segcertify.cli.options import chosen_device
from segcertify.errors import InputError
from segcertify.figures.image import save_figure
from segcertify.records import Setting
from segcertify.report.figures import COLOURS
from segcertify.report.run import Run
from segcertify.report.table import Table
from segcertify.specs import with_option
from segcertify.training import Recipe

SCALES = ("0.25", "0.5", "0.75", "1", "multi")
N0, ALPHA = 10, 0.001
FIGURE = "training.png"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and evaluate all models and write the page, or only write the page."""
    command = page.parser(__doc__, "results/training")
    add = command.add_argument
    add("--model-spec", help="lite (the default), hrnet:w18-small-v2, ...")
    add("--start", help="a file of weights that every training starts from")
    add("--iterations", type=int, help="steps of each training")
    add("--objective", action="append", help="non-robust, noise, consistency (the default: all three) or smoothadv")
    add("--sigma", action="append", type=float, help="noise; 0.25, 0.33 and 0.5 by default")
    add("--scale", action="append", help=f"{', '.join(SCALES)}; 0.5 and 1 by default")
    add("--claim", action="append", help="n,tau of a certificate; 100,0.75 by default")
    add("--train-split", default="split=train+val&without=0006R0*", help="scenes to train on: all but one drive")
    add("--validation-split", default="split=train+val&only=0006R0*", help="scenes to evaluate on: that drive")
    add("--every", type=int, default=1, help="evaluate on every k-th of these scenes")
    add("--limit", type=int, help="take at most this many scenes for training, and for evaluation")
    add("--quick", action="store_true", help="a tiny version, to see that all works")
    options = command.parse_args(arguments)
    if options.render:
        page.render(options.render, build)
    elif not options.data:
        raise InputError("name the data set to train on: --data camvid:FOLDER, or a folder of results: --render FOLDER")
    else:
        out = options.out or Path("results/training")
        results = run(options, out)
        page.save(out, results, build)
        table(results).save(out, "training")


def run(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Train into ``out/models`` and evaluate into ``out/runs``; the same call again resumes."""
    import torch

    from segcertify.models.initial_weights import described

    recipe, models, scales = check(options)
    training, validation = folds(options)
    fresh(options, len(training.classes))  # a bad architecture or start is found before the long work
    device, init = chosen_device(options.device), described(options.start) if options.start else ""
    rows = [
        row
        for name, own, smoothing in models
        for row in evaluated(name, own, smoothing, scales, (training, validation), options, out, device, init)
    ]
    order = [own.objective for _, own, _ in models]
    rows.sort(
        key=lambda row: (
            scales.index(row["scale"]), row["sigma"] or 0, row["n"] or 0, row["tau"] or 0,
            order.index(row["objective"]), row["trained_sigma"],
        )
    )  # fmt: skip
    return {
        "version": sc.__version__,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "model": options.model_spec,
        "init": init,
        "training": {"name": training.name, "scenes": len(training)},
        "validation": {"name": validation.name, "scenes": len(validation)},
        "recipe": {key: value for key, value in recipe.to_plain().items() if key not in ("objective", "sigma")},
        "n0": N0,
        "alpha": ALPHA,
        "correction": "holm",
        "quick": options.quick,
        "rows": rows,
    }


def check(options: argparse.Namespace) -> tuple[Any, list[tuple[Any, ...]], list[str]]:
    """The recipe that all models share, the models (`contenders`) and the scales."""
    recipe, tiny = Recipe(seed=options.seed), "hrnet?width=2&blocks=1&modules=1,1,1"
    options.model_spec = options.model_spec or (tiny if options.quick else "lite")
    if options.quick:
        options.limit = 2
        recipe = Recipe(iterations=2, batch_size=2, crop=(32, 32), precision="fp32", seed=options.seed)
    recipe = recipe if options.iterations is None else replace(recipe, iterations=options.iterations)
    objectives = options.objective or ["non-robust", "noise", "consistency"]
    sigmas, scales = options.sigma or [0.25, 0.33, 0.5], options.scale or ["0.5", "1"]
    claims = [claim(text) for text in options.claim or ["80,0.75" if options.quick else "100,0.75"]]
    for what, values in (("objectives", objectives), ("sigmas", sigmas), ("scales", scales), ("claims", claims)):
        page.require_different(what, values)
    for scale in scales:
        if scale not in SCALES:
            raise InputError(f"scale must be one of {', '.join(SCALES)}, but got {scale!r}")
    return recipe, contenders(recipe, objectives, sigmas, claims), scales


def claim(text: str) -> tuple[int, float]:
    """The draws and the threshold of a certificate: n,tau."""
    try:
        n, tau = text.split(",")
        return int(n), float(tau)
    except ValueError:
        raise InputError(f"--claim takes n,tau such as 100,0.75, but got {text!r}") from None


def contenders(recipe: Any, objectives: Sequence[str], sigmas: Sequence[float], claims: Any) -> list[tuple[Any, ...]]:
    """Each model's name, its recipe, and the settings that it is evaluated with, by sigma."""
    settings = {sigma: [Setting(sigma, *each) for each in claims] for sigma in sigmas}
    models: list[tuple[Any, ...]] = []
    for objective in objectives:
        if objective == "non-robust":
            models.append((objective, replace(recipe, objective=objective, sigma=()), settings))
        else:
            for sigma in sigmas:
                own = replace(recipe, objective=objective, sigma=(sigma,))
                models.append((f"{objective}-{sigma}", own, {sigma: settings[sigma]}))
    return models


def evaluated(
    name: str, recipe: Any, smoothing: Results, scales: Sequence[str], folds: tuple[Any, Any],
    options: argparse.Namespace, out: Path, device: str, init: str,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train one model, and its rows at each scale: without smoothing, then each claim."""
    training, validation = folds
    trained = sc.training.train(
        fresh(options, len(training.classes)), training, recipe, out=out / "models" / name, spec=options.model_spec,
        start=init, device=device,
    )  # fmt: skip
    own = options.model_spec.startswith("python:")
    spec, rows = with_option(options.model_spec, "weights", str(trained)) if own else f"trained:{trained}", []
    for scale in scales:
        model = sc.models.load(f"{spec}{'&' if '?' in spec else '?'}scale={scale}").to(device)
        for number, (sigma, settings) in enumerate(smoothing.items()):  # each sigma is an evaluation of its own
            folder = out / "runs" / f"{name}-scale{scale}-sigma{sigma}"
            sc.evaluate(
                model, validation, out=folder, settings=settings, n0=N0, alpha=ALPHA, seed=options.seed,
                device=device, name=f"{name} at scale {scale}",
            )  # fmt: skip
            about = {"objective": recipe.objective, "trained_sigma": recipe.drawn[0], "scale": scale}
            for row in Run.load(folder).rows[bool(number) :]:  # the model without smoothing once
                rows.append(about | page.plain(row) | {"seconds": row.sampling_seconds + row.testing_seconds})
    return rows


def folds(options: argparse.Namespace) -> tuple[Any, Any]:
    """The scenes to train and to evaluate on, which must not overlap."""
    if "?" in options.data:
        raise InputError(
            f"the data set must be named without options, but got {options.data!r}: "
            "its scenes are chosen by --train-split and --validation-split"
        )
    training, validation = (
        sc.data.load(f"{options.data}?{split}") for split in (options.train_split, options.validation_split)
    )
    if shared := sorted(set(training.ids) & set(validation.ids)):
        raise InputError(
            f"{len(shared)} scenes, such as {shared[0]!r}, are in both {training.name} and {validation.name}: "
            "choose splits that do not overlap"
        )
    validation = validation.every(options.every)
    return tuple(each if options.limit is None else each.limit(options.limit) for each in (training, validation))


def fresh(options: argparse.Namespace, classes: int) -> Any:
    """The network that every training starts from."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(options.seed)
        model = sc.models.new(options.model_spec, classes=classes)
    if options.start:
        sc.models.start_from(model, options.start)
    return model


def build(results: Results, folder: Path) -> str:
    """The page, whose figure is drawn beside it."""
    recipe = {"model": results["model"], "start": results["init"] or "fresh weights", **results["recipe"]}
    lines = [f"| {key} | {value if isinstance(value, str) else json.dumps(value)} |" for key, value in recipe.items()]
    text = page.document(
        "training_table",
        f"Training for certificates on {results['training']['name'].partition('/')[0]}",
        f"segcertify {results['version']}, {results['device']}",
        page.picture("Certified accuracy and abstention by objective and sigma", FIGURE),
        "Valid pixels: certified and right (solid), abstained (hatched); the rest is certified but wrong.",
        table(results),
        "## Recipe",
        "\n".join(["| setting | value |", "| --- | --- |", *lines]),
    )
    save_figure(figure(results["rows"]), folder / FIGURE)
    return text


def table(results: Results) -> Table:
    """A row for each model, scale and claim."""
    training, validation = results["training"], results["validation"]
    notes = [
        f"Trained on {training['scenes']} scenes of {training['name']}, evaluated on {validation['scenes']} others; "
        f"{page.together(results, validation['scenes'])}",
        "The models share one recipe, one start and one order of scenes: only the objective and its noise differ. "
        "Each was trained once, so small differences may be chance.",
        "Noise is added at the image's resolution, before the network's input is rescaled.",
        page.ABSTENTION,
        *(["This is a quick run: it shows that the script works, and no more."] if results["quick"] else []),
    ]
    rows = tuple((row["scale"], way(row), *page.cells(row), f"{row['seconds']:.2f}") for row in results["rows"])
    heads = ("scale", "training", "smoothing", "R", *page.HEADS, "s")
    title = f"Ways to train {results['model']}, evaluated on {validation['name']}"
    return Table(title, heads, rows, tuple(notes))


def way(row: Results) -> str:
    """How a model was trained, in words."""
    return f"{row['objective']} {row['trained_sigma']:g}" if row["trained_sigma"] else row["objective"]


def figure(rows: Sequence[Results]) -> Any:
    """Certified accuracy and abstention under the first claim by objective and sigma, a panel for each scale."""
    first = next(row for row in rows if row["sigma"] is not None)
    claimed = [row for row in rows if (row["n"], row["tau"]) == (first["n"], first["tau"])]
    scales = list(dict.fromkeys(row["scale"] for row in claimed))
    colours = dict(zip(dict.fromkeys(row["objective"] for row in claimed), COLOURS, strict=False))
    sigmas, width = list(dict.fromkeys(row["sigma"] for row in claimed)), 0.8 / len(colours)
    drawn = Figure(figsize=(4.2 * len(scales), 3.8), layout="constrained")
    panels = dict(zip(scales, drawn.subplots(1, len(scales), sharey=True, squeeze=False)[0], strict=True))
    for row in claimed:
        offset, colour = list(colours).index(row["objective"]) - (len(colours) - 1) / 2, colours[row["objective"]]
        at, axes, bar = sigmas.index(row["sigma"]) + offset * width, panels[row["scale"]], 0.9 * width
        axes.bar(at, row["accuracy"], bar, color=colour)
        hatched = {"color": "white", "edgecolor": colour, "hatch": "////", "lw": 0.5}
        axes.bar(at, row["abstained"], bar, bottom=row["accuracy"], **hatched)
    for scale, axes in panels.items():
        axes.set_title(f"scale {scale}", fontsize=10)
        axes.set_xticks(range(len(sigmas)), [f"{sigma:g}" for sigma in sigmas])
        axes.set(xlabel="sigma", ylim=(0, 1), axisbelow=True)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[scales[0]].set_ylabel("share of the valid pixels")
    handles = [Patch(color=colour, label=f"{objective}: right") for objective, colour in colours.items()]
    handles.append(Patch(facecolor="white", edgecolor="#555555", hatch="////", label="abstained"))
    drawn.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    drawn.suptitle(f"Certified at n = {first['n']}, tau = {first['tau']:g}", fontsize=11)
    return drawn


if __name__ == "__main__":
    page.start(main)
