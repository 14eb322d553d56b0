"""The paper's tables on images, our numbers beside the paper's [Fischer2021, section 6.2 and appendix B]."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from segcertify.certificate import radius_text
from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.report.run import Run
from segcertify.report.summary import Row
from segcertify.report.table import Table
from segcertify.sampling.segmenter import Segmenter

NAMES = ("table1", "table1-extended", "bonferroni", "consistency", "tau-sweep")
EVERY = {"cityscapes": 5, "pascal-context": 51}
"""The paper takes every 5th image of Cityscapes and every 51st of Pascal Context: 100 images each."""


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: its setting, and the paper's numbers by data set (acc, miou, abstain, t)."""

    scale: str
    model: str
    setting: Setting | None
    paper: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The row's setting in words."""
        if self.setting is None:
            return f"{self.model} model"
        return f"sigma={self.setting.sigma:g}, n={self.setting.n}, tau={self.setting.tau:g}"


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper; ``difference`` if it shows Bonferroni minus Holm."""

    name: str
    title: str
    n0: int
    alpha: float
    difference: bool
    rows: tuple[PaperRow, ...]

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales, in order."""
        return tuple(dict.fromkeys(row.scale for row in self.rows))


def paper_table(name: str) -> PaperTable:
    """A table of the paper by name, with its numbers."""
    if name not in NAMES:
        raise InputError(f"unknown table {name!r}: use one of {', '.join(NAMES)}")
    content = read_numbers(name)
    rows = content.get("row", [])
    if "include" in content:
        whole = read_numbers(content["include"])
        rows = [row for row in whole["row"] if row.get("main")]
        content = {**whole, "title": content["title"]}
    if "sweep" in content:
        sweep = content["sweep"]
        rows = [
            {"scale": sweep["scale"], "model": "segcertify", "sigma": sigma, "n": sweep["n"], "tau": tau}
            for sigma in sweep["sigma"]
            for tau in sweep["tau"]
        ]
    return PaperTable(
        name,
        content["title"],
        content["n0"],
        content["alpha"],
        content.get("difference", False),
        tuple(map(_row, rows)),
    )


def read_numbers(name: str) -> dict[str, Any]:
    """The paper's numbers in a file of ``paper``, as typed."""
    return tomllib.loads((files("segcertify.reproduce") / "paper" / f"{name}.toml").read_text(encoding="utf-8"))


def _row(values: dict[str, Any]) -> PaperRow:
    setting = Setting(values["sigma"], values["n"], values["tau"]) if "sigma" in values else None
    return PaperRow(values["scale"], values["model"], setting, {name: values[name] for name in EVERY if name in values})


def reproduce(
    table: PaperTable,
    data: DataSet,
    *,
    model: Callable[[str], Segmenter],
    out: Path,
    non_robust: Callable[[str], Segmenter] | None = None,
    scales: Sequence[str] = (),
    name: str = "",
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
    precision: str = "fp32",
    progress: bool | None = None,
) -> Table:
    """Run a table's rows and set our numbers beside the paper's.

    ``model`` and ``non_robust`` give the model at a scale. Each scale is an
    evaluation of its own in ``out``: run again to resume.
    """
    unknown = set(scales) - set(table.scales)
    if unknown:
        raise InputError(f"{table.name} has no scale {sorted(unknown)[0]!r}: use {', '.join(table.scales)}")
    if len(data) and data[0].x.ndim != 3:
        raise InputError(f"{table.name} is of images, but {data.name} holds inputs of shape {data[0].x.shape}")
    ours: dict[tuple[str, str, Setting | None], tuple[Row, Row]] = {}
    for scale in scales or table.scales:
        rows = [row for row in table.rows if row.scale == scale]
        runs: list[tuple[str, Callable[[str], Segmenter], list[Setting]]] = [
            ("base", model, [row.setting for row in rows if row.setting is not None])
        ]
        if non_robust is not None and any(row.model == "non-robust" for row in rows):
            runs.append(("non-robust", non_robust, []))
        for kind, make, settings in runs:
            folder = out / f"{kind}-scale{scale}"
            evaluate(
                make(scale),
                data,
                out=folder,
                settings=settings,
                corrections=("holm", "bonferroni") if table.difference else ("holm",),
                n0=table.n0,
                alpha=table.alpha,
                seed=seed,
                device=device,
                batch_size=batch_size,
                name=f"{name} {kind} at scale {scale}".strip(),
                precision=precision,
                progress=progress,
            )
            ours |= _by_setting(Run.load(folder).rows, scale, kind)
    shown = [row for row in table.rows if row.scale in (scales or table.scales)]
    return _beside(table, shown, ours, data)


def _by_setting(rows: Sequence[Row], scale: str, kind: str) -> dict[tuple[str, str, Setting | None], tuple[Row, Row]]:
    """Our rows by scale, kind of model and setting: with Holm, and with the last correction run."""
    found: dict[tuple[str, str, Setting | None], tuple[Row, Row]] = {}
    for row in rows:
        setting = None if row.sigma is None or row.n is None or row.tau is None else Setting(row.sigma, row.n, row.tau)
        key = (scale, kind if setting is None else "segcertify", setting)
        found[key] = (found[key][0] if key in found else row, row)
    return found


def _beside(
    table: PaperTable,
    shown: Sequence[PaperRow],
    ours: dict[tuple[str, str, Setting | None], tuple[Row, Row]],
    data: DataSet,
) -> Table:
    kind = data.name.split("/")[0]
    heads = ["scale", "", "R", "acc", "paper", "mIoU", "paper", "abstained", "paper"]
    heads += [] if table.difference else ["mIoU worst case", "s", "paper s"]
    body = []
    for row in shown:
        found = ours.get((row.scale, row.model, row.setting))
        paper = row.paper.get(kind, {})
        numbers = [""] * 3 if found is None else _numbers(*found, difference=table.difference)
        cells = [row.scale, row.label, "" if found is None else _radius(found[0])]
        for value, key in zip(numbers, ("acc", "miou", "abstain"), strict=True):
            cells += [value, _paper(paper, key, digits=4 if table.difference else 2)]
        if not table.difference:
            worst = "" if found is None or row.setting is None else f"{found[0].miou_worst_case:.4f}"
            seconds = "" if found is None else f"{found[0].sampling_seconds + found[0].testing_seconds:.2f}"
            cells += [worst, seconds, _paper(paper, "t", digits=2)]
        body.append(tuple(cells))
    notes = (
        f"{len(data)} scenes of {data.name}; n0 = {table.n0}, alpha = {table.alpha:g}.",
        "mIoU is pooled, and abstained counts all pixels, as in the paper's code.",
        "The released code draws dependent noise: the paper's rows are no targets that true certificates must meet.",
    )
    return Table(table.title, tuple(heads), tuple(body), notes)


def _numbers(holm: Row, last: Row, *, difference: bool) -> list[str]:
    """Accuracy, pooled mIoU and abstention of a row, or what Bonferroni changes in them."""
    values = [(row.accuracy, row.miou_pooled, row.abstained_all) for row in (holm, last)]
    if difference:
        return [f"{after - before:+.4f}" for before, after in zip(*values, strict=True)]
    return [f"{value:.4f}" for value in values[0]]


def _radius(row: Row) -> str:
    return "" if row.radius is None else radius_text(row.radius, 3)


def _paper(paper: dict[str, float], key: str, *, digits: int) -> str:
    return f"{paper[key]:.{digits}f}" if key in paper else ""
