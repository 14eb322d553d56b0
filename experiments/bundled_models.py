"""How good a bundled model is at the paper's claims.

A model of images is evaluated beside its twin, which was trained without noise:

    python experiments/bundled_models.py pets --data 'pets:FOLDER?split=val' --every 2 --out results/models/pets

A model of clouds is evaluated on real shapes, beside the paper's numbers, and on the generated shapes that ship:

    python experiments/bundled_models.py parts --data 'shapenet:FOLDER?split=val&normals=true' --generated 16 --runs 1
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from page import ABSTENTION, HEADS, Results, cells, document, parser, picture, plain, render, save, start, together

import segcertify as sc
from segcertify.cli.options import chosen_device, chosen_scenes
from segcertify.data.sets.shapes import load as load_shapes
from segcertify.errors import InputError
from segcertify.names import code, markdown
from segcertify.preprocessing import of_cloud
from segcertify.report.run import Run
from segcertify.report.summary import category_table, results_table
from segcertify.report.table import Table

SETTINGS = ((0.25, 100, 0.75), (0.25, 300, 0.90), (0.25, 500, 0.95))
"""The paper's three claims on images [Fischer2021, extended Table 1]."""
N0, ALPHA = 10, 0.001
PAPER = {"gaussian": ("table2", "0.25-normals", "gaussian"), "rotation": ("rotation", "0.5-normals", "axis-angle")}
"""The paper's rows beside ours under each noise: their table, model (the sigma of its training) and noise."""
PICTURES = ("certified.png", "certified.html")


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate a bundled model and write its page, or only write the page."""
    command = parser(__doc__, "results/models/NAME")
    command.add_argument("name", nargs="?", help="a model that ships: pets, camvid or parts")
    command.add_argument("--model", help="instead of it, one trained as it was but on other scenes: trained:FILE")
    command.add_argument("--non-robust", help="instead of its twin, another such model")
    command.add_argument("--every", type=int, default=1, help="take every k-th scene")
    command.add_argument("--limit", type=int, help="take at most this many scenes")
    command.add_argument("--generated", type=int, help="generated shapes beside the clouds of --data (default 48)")
    command.add_argument("--runs", type=int, help="runs of the network of clouds that are averaged (default 3)")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
    elif not options.name or not options.data:
        raise InputError("name a bundled model and scenes (pets --data 'pets:FOLDER?split=val'), or --render FOLDER")
    else:
        out = options.out or Path("results/models") / options.name
        save(out, run(options, out), page)


def run(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """The results, from evaluations in ``out/runs``: the same call again resumes them."""
    name, runs, device = options.name, options.runs, chosen_device(options.device)
    if name not in sc.models.bundled():
        raise InputError(f"no model {name!r} ships with segcertify: there are {', '.join(sc.models.bundled())}")
    data = chosen_scenes(options.data, every=options.every, limit=options.limit)
    model = sc.models.load(name if runs is None else f"{name}?runs={runs}").to(device)
    if isinstance(model, sc.models.PartSegmenter):
        results = clouds(name, model, data, out, options.generated, device, options.seed)
    elif options.generated is not None or data.domain.name != "image":
        raise InputError(f"{name} takes images: give it no clouds ({data.name}) and no generated shapes")
    else:
        specs = {name: options.model or name, f"{name}-non-robust": options.non_robust or f"{name}-non-robust"}
        results = images(specs, data, out, device, options.seed)
    return results | {"seed": options.seed, "device": device.partition(":")[0], "version": sc.__version__}


def images(specs: Results, data: Any, out: Path, device: str, seed: int) -> dict[str, Any]:
    """The results of a model of images and of its twin."""
    cards = {
        spec: sc.models.card_of(sc.models.load(spec)) for spec in specs.values()
    }  # of all, before the first is evaluated
    for spec, card in cards.items():
        if card is None or card.classes != data.classes:
            raise InputError(f"{spec} was not trained by segcertify on the classes of {data.name}: give such a model")
    models = []
    for name, spec in specs.items():
        shown, folder = name if spec == name else f"{name}, trained again", out / "runs" / name
        sc.evaluate(
            sc.models.load(spec).to(device), data, out=folder, settings=SETTINGS, n0=N0, alpha=ALPHA, seed=seed,
            device=device, name=shown,
        )  # fmt: skip
        rows = [plain(row) for row in Run.load(folder).rows]
        models.append(
            {"model": shown, "trained on": cards[spec].data, "objective": cards[spec].objective, "rows": rows}
        )
    about = {"name": next(iter(specs)), "data": data.name, "scenes": len(data), "n0": N0, "alpha": ALPHA}
    about |= {"preprocessing": data.preprocessing and dict(data.preprocessing)}
    return about | {"correction": "holm", "models": models}


def trials() -> list[dict[str, Any]]:
    """The claims of the paper's tables on real shapes; on generated ones only those of the smallest n."""
    from segcertify.reproduce.paper_tables import paper_table

    found = []
    for noise, (name, _, _) in PAPER.items():
        table = paper_table(name)
        settings = tuple(filter(None, paper_numbers(noise)))
        found.append({"clouds": "real", "noise": noise, "settings": settings, "n0": table.n0, "alpha": table.alpha})
    least = min(setting.n for setting in found[0]["settings"])
    few = tuple(setting for setting in found[0]["settings"] if setting.n == least)
    return [*found, found[0] | {"clouds": "generated", "settings": few}]


def clouds(
    name: str, model: Any, data: Any, out: Path, generated: int | None, device: str, seed: int
) -> dict[str, Any]:
    """The results on real and generated shapes, and the pictures of a generated chair."""
    from segcertify.reproduce.comparison import OMITTED

    require_clouds(name, model, data)
    normals = model.model.normals
    sets = {"real": data, "generated": load_shapes(count=generated, normals=normals)}
    shown = f"{name}?runs={model.runs}"

    def evaluated(scenes: Any, trial: Results, folder: Path, *, pictures: bool = False) -> dict[str, Any]:
        sc.evaluate(
            model, scenes, out=folder, settings=trial["settings"], noise=trial["noise"], n0=trial["n0"],
            alpha=trial["alpha"], seed=seed, device=device, name=shown, save_pictures=pictures,
        )  # fmt: skip
        rows = [{key: each for key, each in asdict(row).items() if key not in OMITTED} for row in Run.load(folder).rows]
        kept = {key: trial[key] for key in ("clouds", "noise", "n0", "alpha")}
        return kept | {"data": scenes.name, "scenes": len(scenes), "rows": rows}

    done = [
        evaluated(sets[each["clouds"]], each, out / "runs" / f"{each['clouds']}-{each['noise']}") for each in trials()
    ]
    chair, folder = load_shapes(count=1, category=["Chair"], normals=normals), out / "runs" / "picture"
    evaluated(chair, trials()[-1] | {"settings": trials()[-1]["settings"][:1]}, folder, pictures=True)
    drawn = {path.suffix: path for path in (folder / "certified").glob("*")}
    if any(Path(each).suffix not in drawn for each in PICTURES):
        raise InputError(f"{folder} has its records but not its pictures: delete this folder and run again")
    for each in PICTURES:
        shutil.copyfile(drawn[Path(each).suffix], out / each)
    card = sc.models.card_of(model)
    about = {"kind": "clouds", "name": name, "runs": model.runs, "trained on": card.data, "objective": card.objective}
    return about | {"sigma": list(card.sigma), "trials": done}


def require_clouds(name: str, model: Any, data: Any) -> None:
    """Refuse images, clouds without the columns that the model takes, and clouds of other parts."""
    x, columns = data[0].x, model.model.columns
    cure = f"give it such as 'shapenet:FOLDER?split=val&normals={str(model.model.normals).lower()}'"
    if data.domain.name != "cloud":
        raise InputError(f"{name} takes point clouds, but {data.name} holds inputs of shape {x.shape}: {cure}")
    if x.shape[1] != columns:
        raise InputError(f"{name} takes {columns} columns a point, but {data.name} has {x.shape[1]}: {cure}")
    if len(data.classes) != model.model.parts or not data.categories:
        raise InputError(f"{name} knows ShapeNet's {model.model.parts} parts, which {data.name} has not: {cure}")


def page(results: Results, folder: Path) -> str:
    """The page of a model."""
    made = f"segcertify {results['version']}, {results['device']}, seed {results['seed']}"
    blocks = cloud_blocks(results) if results.get("kind") == "clouds" else image_blocks(results)
    return document("bundled_models", f"The bundled model {results['name']}", made, *blocks)


def image_blocks(results: Results) -> list[Any]:
    """What a page says of a model of images and its twin."""
    models, scenes = results["models"], results["scenes"]
    trained = [
        f"{code(each['model'])}: {each['objective']}, trained on {markdown(each['trained on'])}" for each in models
    ]
    notes = (f"{scenes} scenes of {results['data']}. {together(results, scenes)}", ABSTENTION)
    rows = tuple((each["model"], *cells(row)) for each in models for row in each["rows"])
    heads = ("model", "smoothing", "R", *HEADS)
    return [trained, Table(f"{results['name']} on {results['data']}", heads, rows, notes)]


def cloud_blocks(results: Results) -> list[Any]:
    """What a page says of a model of clouds: its training, a picture and tables."""
    trials, sigma = results["trials"], ", ".join(f"{each:g}" for each in results["sigma"])
    return [
        [
            f"{code(results['name'])}: {results['objective']}, sigma {sigma}, trained on "
            f"{markdown(results['trained on'])}",
            f"runs of the network that each prediction averages: {results['runs']}",
        ],
        picture("A generated chair: ground truth, base model, certified", PICTURES[0]),
        f"A generated chair, which was not trained on, certified; [the same in 3-D]({PICTURES[1]}).",
        "The paper's numbers are of its own models, trained on all of ShapeNet-Part, on 100 of its test shapes; ours "
        f"are on {trials[0]['scenes']} shapes of {trials[0]['data']}. This is not the same test: the numbers do not "
        "say which model is better.",
        *(table for trial in trials for table in cloud_tables(results["name"], trial)),
    ]


def cloud_tables(name: str, trial: Results) -> list[Table]:
    """A trial's rows; those of real shapes beside the paper's, and by category."""
    from segcertify.reproduce.comparison import stored_row

    rows = [stored_row(row, trial) for row in trial["rows"]]
    title = f"{name} on {trial['data']} ({trial['scenes']} shapes), {trial['noise']} noise"
    ours = results_table(rows, title=title, preprocessing=of_cloud())
    ours = replace(ours, notes=(f"n0 = {trial['n0']}.", *ours.notes))
    if trial["clouds"] != "real":
        return [ours]
    return [beside(ours, rows, trial["noise"]), replace(category_table(rows, title=f"By category: {title}"), notes=())]


def beside(ours: Table, rows: Sequence[Any], noise: str) -> Table:
    """Our table of these rows with the paper's numbers in two more columns."""
    from segcertify.reproduce.axis_angle import CAVEAT
    from segcertify.reproduce.paper_tables import UNPROVEN, paper_table, setting_of

    def paper_cells(numbers: Results) -> list[str]:
        return [f"{numbers[key]:.2f}" if key in numbers else "" for key in ("acc", "abstain")]

    paper, (_, model, drawn) = paper_numbers(noise), PAPER[noise]
    body = [(*line, *paper_cells(paper.get(setting_of(row), {}))) for line, row in zip(ours.rows, rows, strict=True)]
    notes = [f"The paper's model is {model}: its name is the sigma of its training."]
    if drawn == UNPROVEN:
        notes.append(
            f"The paper's noise is axis-angle, whose radius {CAVEAT}. Ours is the heat kernel on SO(3): R is the "
            "rotation angle about any axis, in radians."
        )
    else:
        blank = [""] * (len(ours.heads) - 1)
        others = [row for row in paper_table("table2").rows if row.model.startswith("non-robust")]
        body += [(f"the paper's {row.model}, no noise", *blank, *paper_cells(row.numbers(""))) for row in others]
    heads = (*ours.heads, "paper: accuracy", "paper: abstained (all)")
    return replace(ours, heads=heads, rows=tuple(body), notes=(*ours.notes, *notes))


def paper_numbers(noise: str) -> dict[Any, Results]:
    """The paper's numbers at each of its settings; None is its model without smoothing."""
    from segcertify.reproduce.paper_tables import paper_table

    name, model, drawn = PAPER[noise]
    rows = [row for row in paper_table(name).rows if (row.model, row.noise) == (model, drawn)]
    return {row.setting: row.numbers("") for row in rows}


if __name__ == "__main__":
    start(main)
