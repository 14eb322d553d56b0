"""The page of an evaluation: a gallery of its scenes, its tables and curves, and what is claimed, in one file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segcertify import metrics
from segcertify.arrays import Array, FloatArray
from segcertify.claims import not_promised
from segcertify.figures.page import built, packed
from segcertify.names import visible
from segcertify.numerals import counted, exact, lower_percent, percent, radius_text
from segcertify.plain_words import over
from segcertify.preprocessing import in_words
from segcertify.records import Record, Setting
from segcertify.report.charts import charts
from segcertify.report.gallery import Shown, gallery, legend_colours
from segcertify.report.run import Run
from segcertify.report.summary import Row
from segcertify.storage.atomic import write_text

UNKNOWN = 65535
"""Instead of an IoU, which is kept in units of 1 / 10,000, rounded down."""


def save_run_page(run: Run, path: str | os.PathLike[str], *, run_folder: str | os.PathLike[str] | None = None) -> None:
    """Write one HTML file, which needs no other, to look at an evaluation.

    With ``run_folder``, the evaluation's own folder, it has thumbnails, and links to the scenes' pages and pictures.
    """
    scores = [_Scores.of(run, row) for row in run.rows]
    ids = scores[0].ids
    worst_first = _worst_first(next((each for each in scores if each.chosen), scores[0]))
    folder = None if run_folder is None else Path(run_folder)
    found = gallery(folder, run, ids, [each.chosen for each in scores], order=worst_first, beside=Path(path).parent)
    data = {
        "title": visible(run.title),
        "scenes": [visible(each) for each in ids],
        "classes": [visible(str(each)) for each in run.configuration["classes"]],
        "colours": [] if folder is None else legend_colours(folder, len(run.configuration["classes"])),
        "present": _present(scores[0]),
        "claims": [_claim(run, row, each, shown) for row, each, shown in zip(run.rows, scores, found, strict=True)],
        "tables": [_table(each) for each in run.tables().values()],
        "charts": charts(run),
        "not_promised": _not_promised(run),
        "facts": _facts(run),
        "audit": _audit(run, folder),
    }
    write_text(path, built("run", data))


@dataclass(frozen=True, eq=False)
class _Scores:
    """The confusion matrices of one row's scenes, and of each scene its IoU at the worst, where one is proved.

    ``b`` is the error budget of a scene, None where nothing bounds the errors.
    """

    ids: list[str]
    matrices: list[Array]
    worst: FloatArray
    b: int | None
    chosen: tuple[Setting, str] | None

    @classmethod
    def of(cls, run: Run, row: Row) -> _Scores:
        """Those of a row's records: the base model's, or those of its setting."""
        own = [record for record in run.records if _is_of(record, row)]
        matrices = [metrics.from_plain(record.confusion or {}) for record in own]
        b = 0 if row.claim is None else row.claim.budget if row.claim.certifies else None
        parts = run.configuration["categories"]
        worst = [
            float("nan") if b is None
            else metrics.worst_case_shape_iou(matrix, parts[record.category], b=b) if record.category in parts
            else metrics.mean_iou([matrix], "worst_case", b=b)
            for record, matrix in zip(own, matrices, strict=True)
        ]  # fmt: skip
        chosen = None
        if row.sigma is not None and row.n is not None and row.tau is not None:
            chosen = Setting(row.sigma, row.n, row.tau), row.correction or ""
        return cls([record.id for record in own], matrices, np.array(worst), b, chosen)

    def counts(self) -> dict[str, Array]:
        """Of each scene: components with ground truth, right ones and abstentions."""
        stack = self.matrices
        return {
            "all": np.array([m.sum() for m in stack]),
            "right": np.array([np.trace(m) for m in stack]),
            "abstained": np.array([m[:, -1].sum() for m in stack]),
        }

    def class_counts(self) -> dict[str, Array]:
        """The same of each scene and class that its ground truth has, one after the other."""
        kept = [(m, np.flatnonzero(m.sum(1))) for m in self.matrices]
        return {
            "right": np.concatenate([np.diagonal(m)[c] for m, c in kept]),
            "abstained": np.concatenate([m[c, -1] for m, c in kept]),
            "worst": np.concatenate([_ten_thousandths(self._worst_of_classes(m)[c]) for m, c in kept]),
        }

    def _worst_of_classes(self, matrix: Array) -> FloatArray:
        return np.full(len(matrix), np.nan) if self.b is None else metrics.worst_case_iou(matrix, b=self.b)


def _is_of(record: Record, row: Row) -> bool:
    if row.sigma is None:
        return record.kind == "base"
    mine = row.sigma, row.n, row.tau, row.correction
    return record.kind == "certified" and (record.sigma, record.n, record.tau, record.correction) == mine


def _ten_thousandths(values: FloatArray) -> Array:
    """Shares as whole numbers, rounded down; `UNKNOWN` where there is none."""
    return np.where(np.isnan(values), UNKNOWN, np.floor(1e4 * np.nan_to_num(values) + 1e-9)).astype(np.int64)


def _worst_first(scores: _Scores) -> list[int]:
    """The scenes in the order in which pictures are most wanted: those that any way to sort shows first."""
    found = scores.counts()
    whole = np.maximum(found["all"], 1)
    keys = (
        -found["abstained"] / whole,
        -(found["all"] - found["right"] - found["abstained"]) / whole,
        np.nan_to_num(scores.worst, nan=2.0),
        np.arange(len(scores.ids)),
    )
    ranks = [np.argsort(np.argsort(key, kind="stable"), kind="stable") for key in keys]
    return [int(each) for each in np.argsort(np.min(ranks, axis=0), kind="stable")]


def _present(scores: _Scores) -> dict[str, Any]:
    """The classes of each scene's ground truth, one after the other, and how many components each has."""
    found = [np.flatnonzero(matrix.sum(1)) for matrix in scores.matrices]
    sizes = [matrix.sum(1)[c] for matrix, c in zip(scores.matrices, found, strict=True)]
    scene = np.repeat(np.arange(len(found)), [len(each) for each in found])
    return {name: _packed(values) for name, values in _joined(scene, found, sizes).items()}


def _joined(scene: Array, classes: Sequence[Array], sizes: Sequence[Array]) -> dict[str, Array]:
    return {"scene": scene, "class": np.concatenate(classes), "all": np.concatenate(sizes)}


def _packed(values: Array) -> dict[str, str]:
    return packed(values, int(values.max(initial=0)))


def _claim(run: Run, row: Row, scores: _Scores, shown: Shown) -> dict[str, Any]:
    """A row of the results: what is claimed, each scene's numbers, and its pictures."""
    certifies = row.claim is not None and row.claim.certifies
    return {
        "label": visible(row.label),
        "word": "certified" if certifies else "labelled",
        "base": row.claim is None,
        "sentence": _sentence(row),
        "proved": ""
        if row.claim is None
        else over(row.claim, row.scenes, preprocessing=run.configuration["preprocessing"], radii=[row.radius]),
        "claim": "" if row.claim is None else row.claim.over(row.scenes),
        "scenes": {name: _packed(values) for name, values in scores.counts().items()},
        "worst": packed(_ten_thousandths(scores.worst), UNKNOWN),
        "of_classes": {
            name: packed(values, UNKNOWN) if name == "worst" else _packed(values)
            for name, values in scores.class_counts().items()
        },
        "pictures": shown.pictures,
        "links": [[[visible(name), target] for name, target in each] for each in shown.links],
        "shown": shown.words,
    }


def _sentence(row: Row) -> str:
    """What came out, in plain words."""
    if row.claim is None:
        return (
            f"The base model, without noise, is right in {percent(row.accuracy)} over {counted(row.scenes, 'scene')}. "
            "Nothing is promised of it."
        )
    wrong = max(0.0, 1.0 - row.accuracy - row.abstained)
    word = "certified" if row.claim.certifies else "labelled, not certified,"
    right = lower_percent(row.certified_accuracy) if row.claim.certifies else percent(row.accuracy)
    within = f" within R = {radius_text(row.radius or 0.0, 3)} in {row.claim.threat}" if row.claim.proven else ""
    return (
        f"Over {counted(row.scenes, 'scene')}, {right} are {word} and right{within}, {percent(wrong)} "
        f"are {word} but wrong, and {percent(row.abstained)} abstain. {row.claim.stays}"
    )


def _table(table: Any) -> dict[str, Any]:
    return {
        "title": visible(table.title),
        "heads": [visible(each) for each in table.heads],
        "rows": [[visible(cell) for cell in row] for row in table.rows],
        "notes": [visible(note) for note in table.notes],
    }


def _not_promised(run: Run) -> list[str]:
    """What a reader could take the page to say, and it does not."""
    threats = sorted({row.claim.threat for row in run.rows if row.claim is not None})
    claims = sum(row.claim is not None for row in run.rows)
    return [
        *not_promised(row.claim for row in run.rows if row.claim is not None),
        "Anything where it abstains. An abstention does not say that an attack exists.",
        *[f"Anything about changes beyond R in {threat}." for threat in threats],
        "Anything about the base model without noise, whose scores are shown for comparison.",
        "Anything about scenes that are not in this run, or what is right without ground truth.",
        *([f"That all {claims} settings hold together: each is a claim of its own, and picking the best after looking "
           "voids alpha."] if claims > 1 else []),
    ]  # fmt: skip


def _facts(run: Run) -> dict[str, str]:
    """Where the numbers come from."""
    config = run.configuration
    identity = config["identity"] if isinstance(config["identity"], dict) else {"weights": config["identity"]}
    noises = config.get("noises") or {}
    settings = "; ".join(
        f"sigma = {exact(s['sigma'])}, n = {s['n']:,}, tau = {exact(s['tau'])}" for s in config["settings"]
    )
    skipped = sum(record.kind == "skipped" for record in run.records)
    scenes = sum(record.kind == "base" for record in run.records)
    drawn = "given" if config["seed_given"] else "from the operating system"
    facts = {
        "model": f"{config['model']} {identity.get('weights') or identity.get('answers') or ''}".strip(),
        "data": f"{config['data']}: {counted(scenes, 'scene')}" + (f", {skipped:,} skipped" if skipped else ""),
        "scenes' digest": config["scenes"],
        "noise": f"{config['noise']} at sigma = {', '.join(noises)}" if noises else str(config["noise"]),
        "settings": settings,
        "draws that choose": f"n0 = {config['n0']:,}",
        "level": f"alpha = {exact(config['alpha'])}, {', '.join(config['corrections'])}",
        "pre-processing": in_words(config["preprocessing"]),
        "seed": f"{config['seed']} ({drawn})",
        "computed": f"on {config['device']} in {config['precision']}",
        "version": f"segcertify {config['version']}" if config.get("version") else "",
    }
    return {key: visible(str(text)) for key, text in facts.items() if text}


def _audit(run: Run, folder: Path | None) -> dict[str, str]:
    """The command that audits the run, and what it still needs."""
    if folder is None or not run.configuration["settings"]:
        return {"command": "", "note": ""}
    words = shlex.join(["segcertify", "audit", str(folder), "--model", str(run.configuration["model"])])
    kept = (folder / "votes").is_dir()
    note = "DATA is the spec of the data set that the run was made with, with the same --every and --limit."
    return {
        "command": visible(f"{words} --data DATA"),
        "note": note if kept else f"{note} This run kept no votes, which an audit needs: evaluate with --votes.",
    }
