"""Numbers over all scenes of an evaluation, one row for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segcertify import metrics
from segcertify.certificate import radius_text
from segcertify.certification import radius_table
from segcertify.errors import InputError
from segcertify.noise import Gaussian
from segcertify.records import Record
from segcertify.report.table import Table


@dataclass(frozen=True)
class Row:
    """One setting over all scenes. Without noise (the base model) the setting is None throughout.

    ``abstained`` is a share of the valid components, ``abstained_all`` of all;
    times are seconds a scene.
    """

    sigma: float | None
    n: int | None
    tau: float | None
    correction: str | None
    radius: float | None
    scenes: int
    accuracy: float
    miou_per_image: float
    miou_pooled: float
    miou_worst_case: float
    iou: tuple[float, ...]
    abstained: float
    abstained_all: float
    sampling_seconds: float
    testing_seconds: float

    @property
    def label(self) -> str:
        """The setting in words."""
        if self.sigma is None:
            return "base model, no noise"
        return f"sigma={self.sigma:g}, n={self.n}, tau={self.tau:g}, {self.correction}"


def summarize(records: Sequence[Record]) -> list[Row]:
    """A row for the base model and one for each (sigma, n, tau, correction), in the order of the records."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if record.kind != "radius":
            key = (record.sigma, record.n, record.tau, record.correction)
            groups.setdefault(key, []).append(record)
    if not groups:
        raise InputError("no records to summarize: the evaluation has finished no scene yet")
    return [_row(group) for group in groups.values()]


def _row(group: Sequence[Record]) -> Row:
    matrices = [metrics.from_plain(record.confusion or {}) for record in group]
    pooled = np.sum(matrices, axis=0)
    first = group[0]
    return Row(
        sigma=first.sigma,
        n=first.n,
        tau=first.tau,
        correction=first.correction,
        radius=first.radius,
        scenes=len(group),
        accuracy=metrics.accuracy(pooled),
        miou_per_image=metrics.mean_iou(matrices, "per_image"),
        miou_pooled=metrics.mean_iou(matrices, "pooled"),
        miou_worst_case=metrics.mean_iou(matrices, "worst_case"),
        iou=tuple(metrics.iou(pooled).tolist()),
        abstained=metrics.abstention(pooled),
        abstained_all=sum(r.abstained for r in group) / sum(r.components for r in group),
        sampling_seconds=float(np.mean([r.sampling_seconds for r in group])),
        testing_seconds=float(np.mean([r.testing_seconds for r in group])),
    )


def results_table(rows: Sequence[Row], *, title: str, alpha: float) -> Table:
    """Accuracy, the three forms of mIoU, abstention and time."""
    heads = (
        "setting", "R", "certified accuracy", "mIoU per image", "mIoU pooled", "mIoU worst case",
        "abstained (valid)", "abstained (all)", "sampling s", "testing s",
    )  # fmt: skip
    body = tuple(
        (
            row.label,
            "" if row.radius is None else radius_text(row.radius, 4),
            *(f"{v:.4f}" for v in (row.accuracy, row.miou_per_image, row.miou_pooled)),
            "" if row.sigma is None else f"{row.miou_worst_case:.4f}",
            *(f"{v:.4f}" for v in (row.abstained, row.abstained_all)),
            f"{row.sampling_seconds:.2f}",
            f"{row.testing_seconds:.3f}",
        )
        for row in rows
    )
    scenes = rows[0].scenes
    notes = (
        f"{scenes} scenes, alpha = {alpha:g} for each: a row's certificates hold for all scenes together with "
        f"probability at least {max(0.0, 1 - scenes * alpha):g}.",
        "An abstention counts as wrong. Only the worst-case mIoU is a lower bound under attack.",
        "Sampling time is each n's share of one run at the largest n of its sigma. Each row is a claim of its own.",
    )
    return Table(title, heads, body, notes)


def class_table(rows: Sequence[Row], classes: Sequence[str], *, title: str) -> Table:
    """Pooled IoU of each class, a column for each setting."""
    heads = ("class", *(row.label for row in rows))
    body = tuple((name, *(_number(row.iou[c]) for row in rows)) for c, name in enumerate(classes))
    return Table(title, heads, body)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"


@dataclass(frozen=True)
class Curve:
    """Certified accuracy against the radius for one sigma: valid at all radii at once."""

    sigma: float
    n: int
    certified: metrics.RadiusCurve


def radius_curves(records: Sequence[Record], *, alpha: float) -> list[Curve]:
    """From Clopper-Pearson bounds at alpha / N: for each scene, all radii hold with probability at least 1 - alpha."""
    groups: dict[tuple[float, int], list[Record]] = {}
    for record in records:
        if record.kind == "radius" and record.sigma is not None and record.n is not None:
            groups.setdefault((record.sigma, record.n), []).append(record)
    curves = []
    for (sigma, n), group in groups.items():
        tables = [radius_table(Gaussian(sigma), n=n, N=record.N or 1, alpha=alpha) for record in group]
        counts = np.array([record.correct for record in group])
        valid = sum(record.valid for record in group)
        curves.append(Curve(sigma, n, metrics.certified_accuracy_curve(counts, np.stack(tables), valid)))
    return curves
