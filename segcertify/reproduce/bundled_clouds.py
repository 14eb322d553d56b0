"""How good a bundled model of clouds is: certified on real and on generated shapes, beside the paper's numbers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from segcertify.data import DataSet
from segcertify.data import shapes as generated_shapes
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.models import PartSegmenter, card_of
from segcertify.report.categories import Category
from segcertify.report.run import Run
from segcertify.report.summary import Row, category_table, results_table
from segcertify.report.table import Table
from segcertify.reproduce.axis_angle import CAVEAT
from segcertify.reproduce.cloud_tables import UNPROVEN, CloudTable, cloud_table, setting_of

KIND = "clouds"
GENERATED, SEED = 48, 2021
"""How many shapes are generated, and from which seed: training has seed 0."""
PAPER = {"gaussian": ("table2", "0.25-normals", "gaussian"), "rotation": ("rotation", "0.5-normals", UNPROVEN)}
"""The paper's rows beside ours under each noise: their table, model (the sigma of its training) and noise."""
SHOWN, PICTURES = "Chair", ("certified.png", "certified.html")
"""The category of the one generated shape that is drawn, and its files."""
UNKEPT = ("iou", "class_accuracy", "class_abstained")
"""What a row says of the 50 parts."""


@dataclass(frozen=True)
class Trial:
    """An evaluation: of which clouds, under which noise, with which claims."""

    clouds: str
    noise: str
    settings: tuple[Setting, ...]
    n0: int
    alpha: float

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{self.clouds}-{self.noise}"


def trials() -> tuple[Trial, ...]:
    """The claims of the paper's tables; on generated shapes, which are many, only those of the smallest n."""
    moved, turned = (_trial(noise, cloud_table(name)) for noise, (name, _, _) in PAPER.items())
    least = min(claim.n for claim in moved.settings)
    few = tuple(claim for claim in moved.settings if claim.n == least)
    return moved, turned, replace(moved, clouds="generated", settings=few)


def _trial(noise: str, table: CloudTable) -> Trial:
    """The settings that a table has for a noise, on real shapes."""
    return Trial("real", noise, tuple(filter(None, _paper(noise))), table.n0, table.alpha)


def certified(
    name: str,
    model: PartSegmenter,
    data: DataSet,
    *,
    out: Path,
    generated: int = GENERATED,
    device: torch.device,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[dict[str, Any], list[Path]]:
    """The results on ``data`` and on generated shapes, from evaluations in ``out/runs``, and the pictures made."""
    _require_clouds(name, model, data)
    card = card_of(model)
    assert card is not None  # what ships has one
    sets = {"real": data, "generated": generated_shapes.load(count=generated, seed=SEED, normals=model.model.normals)}
    work = partial(_evaluated, model, seed=seed, device=device, name=f"{name}?runs={model.runs}", progress=progress)
    done = [work(sets[trial.clouds], trial, out / "runs" / trial.name) for trial in trials()]
    results = {
        "kind": KIND, "name": name, "runs": model.runs, "trained on": card.data, "objective": card.objective,
        "sigma": list(card.sigma), "trials": done,
    }  # fmt: skip
    shown = generated_shapes.load(count=1, seed=SEED, category=[SHOWN], normals=model.model.normals)
    work(shown, replace(trials()[-1], settings=trials()[-1].settings[:1]), out / "runs" / "picture", pictures=True)
    return results, _pictures(out / "runs" / "picture", out)


def _evaluated(
    model: PartSegmenter,
    data: DataSet,
    trial: Trial,
    folder: Path,
    *,
    seed: int,
    device: torch.device,
    name: str,
    progress: bool | None,
    pictures: bool = False,
) -> dict[str, Any]:
    """What a trial gives, in plain values."""
    evaluate(
        model, data, out=folder, settings=trial.settings, noise=trial.noise, n0=trial.n0, alpha=trial.alpha, seed=seed,
        device=device, name=name, save_pictures=pictures, progress=progress,
    )  # fmt: skip
    rows = [_plain(row) for row in Run.load(folder).rows]
    setting = {key: getattr(trial, key) for key in ("clouds", "noise", "n0", "alpha")}
    return setting | {"data": data.name, "scenes": len(data), "rows": rows}


def _pictures(run: Path, out: Path) -> list[Path]:
    """Copies of the one certificate's two views and of its page."""
    drawn = {path.suffix: path for path in (run / "certified").glob("*")}
    if any(Path(name).suffix not in drawn for name in PICTURES):
        raise InputError(f"{run} has its records but not its pictures: delete this folder and run again")
    return [shutil.copyfile(drawn[Path(name).suffix], out / name) for name in PICTURES]


def body(results: Mapping[str, Any]) -> list[str]:
    """What the page says of the model: its training, a picture and tables."""
    name, chair, trials = results["name"], SHOWN.lower(), results["trials"]
    noise = ", ".join(f"{sigma:g}" for sigma in results["sigma"])
    averaged = f"the mean of {results['runs']} runs" if results["runs"] > 1 else "one run"
    return [
        f"- `{name}`: {results['objective']}, sigma {noise}, trained on {results['trained on']}",
        f"- an answer is {averaged} of the network",
        "",
        f"![A generated {chair}: ground truth, base model, certified]({PICTURES[0]})",
        "",
        f"A generated {chair} that was not trained on, certified; [the same to turn]({PICTURES[1]}).",
        "",
        "The paper's numbers are of its own models, trained on all of ShapeNet-Part, on 100 of its test shapes; ours "
        f"are on {trials[0]['scenes']} shapes of {trials[0]['data']}. This is not the same test: the numbers do not "
        "say which model is better.",
        "",
        *(table.markdown() for trial in trials for table in tables(name, trial)),
    ]


def tables(name: str, trial: Mapping[str, Any]) -> list[Table]:
    """A trial's rows; those of real shapes beside the paper's, and by category."""
    rows = _rows(trial)
    title = f"{name} on {trial['data']} ({trial['scenes']} shapes), {trial['noise']} noise"
    ours = results_table(rows, title=title, alpha=trial["alpha"])
    ours = replace(ours, notes=(f"n0 = {trial['n0']}.", *ours.notes))
    if trial["clouds"] != "real":
        return [ours]
    return [beside(ours, rows, trial["noise"]), replace(category_table(rows, title=f"By category: {title}"), notes=())]


def beside(ours: Table, rows: Sequence[Row], noise: str) -> Table:
    """Our table of these rows with the paper's numbers in two more columns."""
    paper, (_, model, drawn) = _paper(noise), PAPER[noise]
    pairs = zip(ours.rows, rows, strict=True)
    body = [(*cells, *_told(paper.get(setting_of(row), {}))) for cells, row in pairs]
    notes = [f"The paper's model is {model}: its name is the sigma of its training."]
    if drawn == UNPROVEN:
        notes.append(
            f"The paper's noise is axis-angle, whose radius {CAVEAT}. Ours is the heat kernel on SO(3): R is the "
            "rotation angle about any axis, in radians."
        )
    else:
        blank = [""] * (len(ours.heads) - 1)
        others = [row for row in cloud_table("table2").rows if row.model.startswith("non-robust")]
        body += [(f"the paper's {row.model}, no noise", *blank, *_told(row.paper)) for row in others]
    heads = (*ours.heads, "paper: accuracy", "paper: abstained (all)")
    return replace(ours, heads=heads, rows=tuple(body), notes=(*ours.notes, *notes))


def _paper(noise: str) -> dict[Setting | None, dict[str, float]]:
    """The paper's numbers at each of its settings; None is its model without smoothing."""
    name, model, drawn = PAPER[noise]
    return {row.setting: row.paper for row in cloud_table(name).rows if (row.model, row.noise) == (model, drawn)}


def _told(paper: Mapping[str, float]) -> tuple[str, str]:
    """Accuracy and abstention, where the paper gives them."""
    accuracy, abstained = (f"{paper[key]:.2f}" if key in paper else "" for key in ("acc", "abstain"))
    return accuracy, abstained


def _rows(trial: Mapping[str, Any]) -> list[Row]:
    """A trial's rows, from plain values."""
    unkept: dict[str, Any] = dict.fromkeys(UNKEPT, ())
    return [
        Row(**row | unkept | {"categories": tuple(Category(**each) for each in row["categories"])})
        for row in trial["rows"]
    ]


def _require_clouds(name: str, model: PartSegmenter, data: DataSet) -> None:
    """Refuse images, clouds without the columns that the model takes, and clouds of other parts."""
    x, columns = data[0].x, model.model.columns
    cure = f"give it such as 'shapenet:FOLDER?split=val&normals={str(model.model.normals).lower()}'"
    if x.ndim != 2:
        raise InputError(f"{name} takes point clouds, but {data.name} holds inputs of shape {x.shape}: {cure}")
    if x.shape[1] != columns:
        raise InputError(f"{name} takes {columns} columns a point, but {data.name} has {x.shape[1]}: {cure}")
    if len(data.classes) != model.model.parts or not data.categories:
        raise InputError(f"{name} knows ShapeNet's {model.model.parts} parts, which {data.name} has not: {cure}")


def _plain(row: Row) -> dict[str, Any]:
    """A row without what it says of single parts, which need not occur."""
    return {key: value for key, value in asdict(row).items() if key not in UNKEPT}
