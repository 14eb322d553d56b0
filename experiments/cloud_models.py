"""The models of clouds that the paper's Table 2, its Bonferroni table, Figure 4 and the rotation table need.

One command trains them on generated shapes and the real ones of a folder, evaluates every row of the four tables, and
sets the numbers beside the paper's:

    python experiments/cloud_models.py --data shapenet:FOLDER --out results/clouds

The model 0.25-normals is `parts`, which ships. ``--model NAME`` does the work of one model alone, so that several
can be trained side by side; ``--collect`` then writes the page. Run again to resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from page import Results, document, parser, picture, render, save, start

from segcertify import __version__
from segcertify.errors import InputError, unknown
from segcertify.names import code, markdown

BUNDLED = {"0.25-normals": "parts"}
"""Models that ship; the others are trained here."""
FIGURE = "tau-sweep-clouds"
COUNT, TIMES, ITERATIONS = 6000, 60, 600
"""Generated shapes, how often each real one is taken beside them, and steps of the optimiser."""
MODEL = "model.safetensors"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and evaluate the models and write their page, or only write the page."""
    command = parser(__doc__, "results/clouds")
    command.add_argument("--model", action="append", default=[], help="only the work of this model, and no page")
    command.add_argument("--count", type=int, default=COUNT, help=f"generated shapes (default {COUNT})")
    command.add_argument(
        "--iterations", type=int, default=ITERATIONS, help=f"steps of a training (default {ITERATIONS})"
    )
    command.add_argument("--batch-size", type=int, default=32, help="clouds in a step (default 32)")
    command.add_argument("--precision", default="fp32", help="of the evaluation: fp32 (default) or bf16")
    command.add_argument("--collect", action="store_true", help="only collect what was evaluated, and write the page")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
        return
    out = options.out or Path("results/clouds")
    if not options.collect:
        if not options.data or "?" in options.data:
            raise InputError("name the folder of real shapes without options, as in --data shapenet:FOLDER")
        for name in options.model:
            if name not in models():
                raise unknown("model", name, models())
        for name in options.model or models():
            evaluate_model(name, options, out)
    if options.collect or not options.model:
        draw_figure(out)
        save(
            out, {"kind": "clouds", "models": [collected(name, out) for name in models()], "version": __version__}, page
        )


def models() -> tuple[str, ...]:
    """The models of all tables, in order."""
    return tuple(dict.fromkeys(name for table in tables() for name in table.models))


def tables() -> list[Any]:
    """The paper's tables on clouds."""
    from segcertify.reproduce.paper_tables import CLOUDS, paper_table

    return [paper_table(name) for name in CLOUDS]


def evaluate_model(name: str, options: argparse.Namespace, out: Path) -> None:
    """Train a model, unless it ships, and evaluate it under each noise, in ``out/runs/evaluations``."""
    from segcertify.cli.options import chosen_device
    from segcertify.data import load as load_data
    from segcertify.evaluation import evaluate
    from segcertify.models import load
    from segcertify.reproduce.axis_angle import UnprovenAxisAngle
    from segcertify.reproduce.paper_tables import UNPROVEN, folder_of

    device = chosen_device(options.device)
    spec = BUNDLED.get(name) or f"trained:{trained(name, options, out, device)}"
    model = load(f"{spec}?runs=1").to(device)
    data = load_data(f"{options.data}?split=val{with_normals(name)}")
    for noise, claims in claims_of(name).items():
        evaluate(
            model, data, out=folder_of(out / "runs" / "evaluations", name, noise), device=device, seed=options.seed,
            noise=UnprovenAxisAngle if noise == UNPROVEN else noise, name=name, precision=options.precision, **claims,
        )  # fmt: skip


def collected(name: str, out: Path) -> dict[str, Any]:
    """A model's origin and its rows under each noise, from its card and its evaluations."""
    from segcertify.models import load_bundled, read_card
    from segcertify.report.run import Run
    from segcertify.reproduce.comparison import OMITTED
    from segcertify.reproduce.paper_tables import folder_of

    card = load_bundled(BUNDLED[name]).card if name in BUNDLED else read_card(out / "runs" / name / MODEL)
    runs = []
    for noise, claims in claims_of(name).items():
        run = Run.load(folder_of(out / "runs" / "evaluations", name, noise))
        rows = [{key: each for key, each in asdict(row).items() if key not in OMITTED} for row in run.rows]
        runs.append({"noise": noise, "n0": claims["n0"], "alpha": claims["alpha"], "rows": rows})
    about = {"name": name, "trained on": card.data, "objective": card.objective, "sigma": list(card.sigma)}
    about |= {key: run.configuration[key] for key in ("data", "device", "seed", "precision")}
    return about | {"scenes": run.rows[0].scenes, "runs": runs}


def claims_of(name: str) -> dict[str, dict[str, Any]]:
    """What a model is evaluated at under each noise: the claims of all tables, so that each n is sampled once."""
    found: dict[str, dict[str, Any]] = {}
    for table in (each for each in tables() if name in each.models):
        for noise, settings in table.runs(name).items():
            claims = found.setdefault(noise, {"settings": [], "n0": table.n0, "alpha": table.alpha})
            if (table.n0, table.alpha) != (claims["n0"], claims["alpha"]):
                raise InputError(f"{table.name} has another n0 or alpha than the other tables under {noise} noise")
            claims["settings"] += [each for each in settings if each not in claims["settings"]]
            if table.difference:
                claims["corrections"] = ("holm", "bonferroni")
    return found


def trained(name: str, options: argparse.Namespace, out: Path, device: str) -> Path:
    """The file of a model that is trained here, or was: the sigma of its training is in its name."""
    import torch

    from segcertify.data import load as load_data
    from segcertify.data import mixture
    from segcertify.models import new
    from segcertify.training import Recipe, train

    normals, kind = with_normals(name), name.removesuffix("-normals")
    generated = load_data(f"clouds:{shapes(options.count, out)}?points=all{normals}")
    data = mixture([generated, load_data(f"{options.data}?split=train{normals}")], (1, TIMES))
    noise = {"objective": kind} if kind == "non-robust" else {"objective": "noise", "sigma": (float(kind),)}
    recipe = Recipe(
        **noise, rescale=(0.9, 1.1), rotate=15.0, batch_size=options.batch_size,
        iterations=options.iterations, seed=options.seed,
    )  # fmt: skip
    spec = f"pointnet2?normals={str(bool(normals)).lower()}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = new(spec, classes=len(data.classes))
    licence = "ShapeNet-Part (Yi et al. 2016): research use"
    return train(network, data, recipe, out=out / "runs" / name, spec=spec, licence=licence, half=True, device=device)


def with_normals(name: str) -> str:
    """The option of a data set whose clouds have the columns that a model takes."""
    return "&normals=true" if name.endswith("-normals") else ""


def shapes(count: int, out: Path) -> Path:
    """The folder of generated shapes of seed 0, which are others than those that ship."""
    from tools.shapes.__main__ import main as generate

    folder = out / "runs" / "shapes"
    if not folder.exists():
        generate([str(folder), "--count", str(count), "--seed", "0"])
    return folder


def draw_figure(out: Path) -> None:
    """Figure 4, from the evaluations."""
    from segcertify.figures.image import save_figure
    from segcertify.reproduce.paper_figures import sweep_figure
    from segcertify.reproduce.paper_tables import paper_table

    table = paper_table(FIGURE)
    save_figure(sweep_figure(table, out / "runs" / "evaluations", table.models), out / f"{FIGURE}.png")


def page(results: Results, folder: Path) -> str:
    """The page of all four tables."""
    from segcertify.reproduce.comparison import beside_results

    found: Sequence[Mapping[str, Any]] = results["models"]
    made = f"segcertify {results['version']}, {found[-1]['device']}, seed {found[-1]['seed']}"
    origins = [
        f"{code(each['name'])}: {each['objective']}, sigma {', '.join(f'{sigma:g}' for sigma in each['sigma'])}, "
        f"trained on {markdown(each['trained on'])}"
        + (f" ({code(BUNDLED[each['name']])})" if each["name"] in BUNDLED else "")
        for each in found
    ]
    blocks: list[Any] = [origins]
    for table in tables():
        blocks.append(beside_results(table, results))
        if table.name == FIGURE:
            blocks.append(picture(table.title, f"{FIGURE}.png"))
    return document("cloud_models", "The paper's tables of point clouds, on our shapes", made, *blocks)


if __name__ == "__main__":
    start(main)
