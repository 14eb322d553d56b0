"""The paper's tables on point clouds, our numbers beside the paper's [Fischer2021, section 6.3 and appendix B]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from segcertify.certificate import radius_text
from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.noise import Noise
from segcertify.report.categories import shape_scores
from segcertify.report.run import Run
from segcertify.report.summary import Row
from segcertify.report.table import Table
from segcertify.reproduce.axis_angle import CAVEAT, UnprovenAxisAngle
from segcertify.reproduce.tables import read_numbers
from segcertify.sampling.draws import working_device
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category

NAMES = ("table2", "table2-bonferroni", "tau-sweep-clouds", "rotation")
EVERY, LIMIT = 28, 100
"""The paper takes every 28th shape of ShapeNet's test split, 100 in all."""

UNPROVEN = "axis-angle"
NOISES: dict[str, str | Callable[[float], Noise]] = {
    "gaussian": "gaussian",
    "rotation": "rotation",
    UNPROVEN: UnprovenAxisAngle,
}
"""What `evaluate` takes for the noises that tables name."""


@dataclass(frozen=True)
class CloudRow:
    """A row of a table: a model, its noise and setting (None for the model itself), and the paper's acc, abstain, t."""

    model: str
    noise: str
    setting: Setting | None
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The row's setting in words."""
        if self.setting is None:
            return "no noise"
        drawn = {"gaussian": "", "rotation": "rotation, ", UNPROVEN: "axis-angle, as in the paper, "}[self.noise]
        return f"{drawn}sigma={self.setting.sigma:g}, n={self.setting.n}, tau={self.setting.tau:g}"


@dataclass(frozen=True)
class CloudTable:
    """A table of the paper; ``difference`` if it shows Bonferroni minus Holm."""

    name: str
    title: str
    n0: int
    alpha: float
    difference: bool
    rows: tuple[CloudRow, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names, in order; those that end in ``-normals`` take normals."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    def noises(self, model: str) -> tuple[str, ...]:
        """The noises that a model is evaluated with, in order."""
        return tuple(dict.fromkeys(row.noise for row in self.rows if row.model == model))


def cloud_table(name: str) -> CloudTable:
    """A table of the paper by name, with its numbers."""
    if name not in NAMES:
        raise InputError(f"unknown table {name!r}: use one of {', '.join(NAMES)}")
    content = read_numbers(name)
    noises = content.get("noises", ["gaussian"])
    rows = (row for model in content["model"] for row in _rows(model, noises))
    difference = content.get("difference", False)
    return CloudTable(name, content["title"], content["n0"], content["alpha"], difference, tuple(rows))


def _rows(model: dict[str, Any], noises: Sequence[str]) -> Iterator[CloudRow]:
    """A model's rows under each noise; the paper's numbers belong to the first."""
    rows = [*model.get("rows", [])]
    for sweep in model.get("sweep", []):
        pairs = zip(sweep["tau"], sweep["acc"], strict=True)
        rows += [{"sigma": sweep["sigma"], "n": sweep["n"], "tau": tau, "acc": acc} for tau, acc in pairs]
    for noise in noises:
        for row in rows:
            paper = {key: row[key] for key in ("acc", "abstain", "t") if key in row}
            if "sigma" in row:
                setting = Setting(row["sigma"], row["n"], row["tau"])
                yield CloudRow(model["name"], noise, setting, paper if noise == noises[0] else {})
            elif noise == noises[0]:
                yield CloudRow(model["name"], noise, None, paper)


def reproduce_clouds(
    table: CloudTable,
    data: Callable[[bool], DataSet],
    *,
    models: Mapping[str, Callable[[], Segmenter]],
    out: Path,
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
    precision: str = "fp32",
    progress: bool | None = None,
) -> Table:
    """Run a table's rows with the models that are given and set our numbers beside the paper's.

    ``data`` gives the clouds with or without normals, ``models`` those of
    ``table.models`` to run. Each model and noise is an evaluation of its own in
    ``out`` (`folder_of`): run again to resume.
    """
    unknown = [name for name in models if name not in table.models]
    if unknown or not models:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError(f"{table.name} has the models {', '.join(table.models)}, but got {got}: give one of these")
    ours: dict[tuple[str, str, Setting | None], tuple[Row, Row]] = {}
    sets: dict[str, int] = {}
    runs = [(name, data(name.endswith("-normals")), models[name]()) for name in table.models if name in models]
    for name, scenes, model in runs:  # before the long work of the first
        if len(scenes) and scenes[0].x.ndim != 2:
            raise InputError(f"{table.name} is of clouds, but {scenes.name} holds inputs of shape {scenes[0].x.shape}")
        _require_fit(name, scenes, model, device)
    for name, scenes, model in runs:
        sets[scenes.name] = len(scenes)
        for noise in table.noises(name):
            folder = folder_of(out, name, noise)
            claims = [row.setting for row in table.rows if (row.model, row.noise) == (name, noise)]
            evaluate(
                model,
                scenes,
                out=folder,
                settings=[setting for setting in claims if setting is not None],
                noise=NOISES[noise],
                corrections=("holm", "bonferroni") if table.difference else ("holm",),
                n0=table.n0,
                alpha=table.alpha,
                seed=seed,
                device=device,
                batch_size=batch_size,
                name=name,
                precision=precision,
                progress=progress,
            )
            for row in Run.load(folder).rows:
                key = (name, noise, setting_of(row))
                ours[key] = (ours[key][0] if key in ours else row, row)  # with Holm, and with the last correction
    return _beside(table, ours, sets)


def _require_fit(name: str, scenes: DataSet, model: Segmenter, device: str | None) -> None:
    """Refuse a model that does not take the clouds that its name says it does."""
    scene = scenes[0]
    x = torch.from_numpy(scene.x).to(working_device(device, model))
    try:
        base_labels(for_category(model, scene.category), x)
    except InputError as error:
        raise InputError(f"the model {name} on {scenes.name}: {error}") from None


def folder_of(out: Path, model: str, noise: str = "gaussian") -> Path:
    """Where the evaluation of a model under a noise lies."""
    return out / (model if noise == "gaussian" else f"{model}-{noise}")


def setting_of(row: Row) -> Setting | None:
    """A row's setting; None of the model itself."""
    return None if row.sigma is None or row.n is None or row.tau is None else Setting(row.sigma, row.n, row.tau)


def _beside(
    table: CloudTable, ours: Mapping[tuple[str, str, Setting | None], tuple[Row, Row]], sets: Mapping[str, int]
) -> Table:
    heads = ["model", "", "R", "acc", "paper", "abstained", "paper"]
    heads += [] if table.difference else ["shape IoU", "worst case", "s", "paper s"]
    body = []
    for row in table.rows:
        found = ours.get((row.model, row.noise, row.setting))
        cells = [row.model, row.label, "" if found is None else _radius(row, found[0])]
        numbers = [""] * 2 if found is None else _numbers(*found, difference=table.difference)
        for value, key in zip(numbers, ("acc", "abstain"), strict=True):
            cells += [value, _paper(row, key, digits=4 if table.difference else 2)]
        if not table.difference:
            cells += ["", "", ""] if found is None else _scores(found[0])
            cells.append(_paper(row, "t", digits=2))
        body.append(tuple(cells))
    return Table(table.title, tuple(heads), tuple(body), _notes(table, sets))


def _notes(table: CloudTable, sets: Mapping[str, int]) -> tuple[str, ...]:
    """What a reader of the numbers must know."""
    unproven = (
        f"axis-angle is the paper's noise; its R is what the paper claims, and {CAVEAT}. The rows of rotation are true "
        "certificates (the heat kernel on SO(3)): R is the rotation angle about any axis, in radians.",
    )
    clouds = " and ".join(f"{count} clouds of {name}" for name, count in sets.items())
    return (
        f"{clouds}; n0 = {table.n0}, alpha = {table.alpha:g}.",
        "A model's name is the sigma of its training; abstained counts all points.",
        *(unproven if any(row.noise == UNPROVEN for row in table.rows) else ()),
        "The paper says that its rows are of every 28th test shape; its released scripts take the first 100, which are "
        "all aeroplanes, and alpha = 0.0001. They are no targets that other shapes must meet.",
    )


def _radius(row: CloudRow, ours: Row) -> str:
    if ours.radius is None:
        return ""
    return f"{radius_text(ours.radius, 3)}{' claimed' if row.noise == UNPROVEN else ''}"


def _numbers(holm: Row, last: Row, *, difference: bool) -> list[str]:
    """Accuracy and abstention of a row, or what Bonferroni changes in them."""
    values = [(row.accuracy, row.abstained_all) for row in (holm, last)]
    if difference:
        return [f"{after - before:+.4f}" for before, after in zip(*values, strict=True)]
    return [f"{value:.4f}" for value in values[0]]


def _scores(ours: Row) -> list[str]:
    """Shape IoU, its worst case and the seconds a cloud takes."""
    seconds = f"{ours.sampling_seconds + ours.testing_seconds:.2f}"
    if not ours.categories:
        return ["", "", seconds]
    scores = shape_scores(ours.categories)
    return [f"{scores.mean:.4f}", "" if ours.sigma is None else f"{scores.worst_case:.4f}", seconds]


def _paper(row: CloudRow, key: str, *, digits: int) -> str:
    return f"{row.paper[key]:.{digits}f}" if key in row.paper else ""
