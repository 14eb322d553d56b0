"""Scores over all scenes of an evaluation, by setting: tables and curves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segcertify import metrics
from segcertify.certificate import radius_text
from segcertify.certification import radius_table
from segcertify.errors import InputError
from segcertify.noise import Noise
from segcertify.records import Record, grouped
from segcertify.report.categories import Category, by_category, shape_scores
from segcertify.report.table import Table
from segcertify.stats.correction import K_FWER, PROCEDURES


@dataclass(frozen=True)
class Row:
    """The scores of one setting over all scenes. Of the base model, without noise, the setting is None throughout.

    ``abstained`` is a share of the valid components, ``abstained_all`` of all
    components; ``class_accuracy`` and ``class_abstained`` are shares of each class;
    times are seconds per scene. Clouds have ``categories``, where these are known.
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
    class_accuracy: tuple[float, ...]
    class_abstained: tuple[float, ...]
    abstained: float
    abstained_all: float
    sampling_seconds: float
    testing_seconds: float
    categories: tuple[Category, ...] = ()

    @property
    def label(self) -> str:
        """The setting in words."""
        return "base model, no noise" if self.sigma is None else f"sigma={self.sigma:g}, {self.test}"

    @property
    def test(self) -> str:
        """The setting without the noise, in words."""
        return f"n={self.n}, tau={self.tau:g}, {self.correction}"

    @property
    def lower_bound(self) -> bool:
        """Whether its scores are lower bounds under attack: those of k-fwer and of a false discovery rate are not."""
        return self.correction in PROCEDURES and PROCEDURES[self.correction].guarantee == "fwer"


def sure(scenes: int, alpha: float) -> str:
    """The probability at which the claims of all scenes hold together, for a note."""
    return f"{max(0.0, 1 - scenes * alpha):g}"


def summarize(records: Sequence[Record], categories: Mapping[str, Sequence[int]]) -> list[Row]:
    """The scores of the base model and of each (sigma, n, tau, correction), in the order of the records.

    ``categories`` are the classes that clouds of each category have.
    """
    scored = (record for record in records if record.kind in ("base", "certified"))
    groups = grouped(scored, lambda record: (record.sigma, record.n, record.tau, record.correction))
    if not groups:
        raise InputError("no records to summarize: the evaluation has finished no scene yet")
    return [row_of(group, categories) for group in groups.values()]


def row_of(group: Sequence[Record], categories: Mapping[str, Sequence[int]]) -> Row:
    """The scores of one setting's records."""
    matrices = [metrics.from_plain(record.confusion or {}) for record in group]
    pooled = np.sum(matrices, axis=0)
    return Row(
        **{name: getattr(group[0], name) for name in ("sigma", "n", "tau", "correction", "radius")},
        scenes=len(group),
        accuracy=metrics.accuracy(pooled),
        miou_per_image=metrics.mean_iou(matrices, "per_image"),
        miou_pooled=metrics.mean_iou(matrices, "pooled"),
        miou_worst_case=metrics.mean_iou(matrices, "worst_case"),
        iou=tuple(metrics.iou(pooled).tolist()),
        class_accuracy=tuple(metrics.class_accuracy(pooled).tolist()),
        class_abstained=tuple(metrics.class_abstention(pooled).tolist()),
        abstained=metrics.abstention(pooled),
        abstained_all=sum(r.abstained for r in group) / sum(r.components for r in group),
        sampling_seconds=float(np.mean([r.sampling_seconds for r in group])),
        testing_seconds=float(np.mean([r.testing_seconds for r in group])),
        categories=by_category(group, categories),
    )


def results_table(rows: Sequence[Row], *, title: str, alpha: float, k: int | None = None) -> Table:
    """Accuracy, three forms of IoU (of shapes, where there are categories), abstention and time."""
    shapes = bool(rows[0].categories)
    forms = ("shape IoU", "shape IoU by category") if shapes else ("mIoU per image", "mIoU pooled")
    heads = (
        "setting", "R", "certified accuracy", *forms, f"{'shape IoU' if shapes else 'mIoU'} worst case",
        "abstained (valid)", "abstained (all)", "sampling s", "testing s",
    )  # fmt: skip
    body = tuple(
        (
            row.label,
            "" if row.radius is None else radius_text(row.radius, 4),
            *(f"{v:.4f}" for v in (row.accuracy, *iou_forms(row)[:2])),
            "" if row.sigma is None else f"{iou_forms(row)[2]:.4f}",
            *(f"{v:.4f}" for v in (row.abstained, row.abstained_all)),
            f"{row.sampling_seconds:.2f}",
            f"{row.testing_seconds:.3f}",
        )
        for row in rows
    )
    scenes = rows[0].scenes
    only = "" if all(row.lower_bound or row.sigma is None for row in rows) else ", and only by holm or bonferroni"
    notes = (
        f"{scenes} scenes, alpha = {alpha:g} for each: a row's certificates hold for all scenes together with "
        f"probability at least {sure(scenes, alpha)}.",
        *_weaker_claims({row.correction for row in rows}, alpha=alpha, k=k),
        f"An abstention counts as wrong. Of the IoUs only the worst case is a lower bound under attack{only}.",
        *([SHAPE_NOTE] if shapes else []),
        "Sampling time is each n's share of one run at the largest n of its sigma. Each row is a claim of its own.",
    )
    return Table(title, heads, body, notes)


def _weaker_claims(corrections: set[str | None], *, alpha: float, k: int | None) -> Iterator[str]:
    """What rows claim whose correction does not make all certified labels hold at once."""
    if k is not None and K_FWER in corrections:
        yield f"Rows of k-fwer (k = {k}) claim less: in each scene all but at most {k - 1} certified labels hold."
    for name, condition in (("bh", " if components are independent or positively dependent (PRDS)"), ("by", "")):
        if name in corrections:
            share = f"the expected share of false labels is at most {alpha:g}{condition}"
            yield f"Rows of {name} are no robustness certificates: {share}."


SHAPE_NOTE = (
    "Shape IoU is ShapeNet's: the mean over the parts of a shape's category (a part that neither the ground truth nor "
    "the labels have counts 1, an abstained point belongs to no part), then over shapes, or over the categories' means."
)


def iou_forms(row: Row) -> tuple[float, float, float]:
    """Two means of the IoU and the worst case."""
    if not row.categories:
        return row.miou_per_image, row.miou_pooled, row.miou_worst_case
    return shape_scores(row.categories)


def category_table(rows: Sequence[Row], *, title: str) -> Table:
    """Each category under each setting: accuracy, abstention and shape IoU."""
    heads = ("setting", "category", "shapes", "accuracy", "abstained", "shape IoU", "shape IoU worst case")
    body = tuple(
        (
            row.label,
            category.name,
            str(category.shapes),
            *(f"{v:.4f}" for v in (category.accuracy, category.abstained, category.iou)),
            "" if row.sigma is None else f"{category.worst_case_iou:.4f}",
        )
        for row in rows
        for category in row.categories
    )
    return Table(title, heads, body, (SHAPE_NOTE,))


def class_table(rows: Sequence[Row], classes: Sequence[str], *, title: str) -> Table:
    """Pooled IoU, accuracy and abstention of each class that occurs, under each setting."""
    columns = ("IoU", "right", "abstained")
    heads = ("class", *(f"{row.label}: {column}" for row in rows for column in columns))
    values = [column for row in rows for column in (row.iou, row.class_accuracy, row.class_abstained)]
    body = tuple(
        (name, *("-" if np.isnan(column[c]) else f"{column[c]:.4f}" for column in values))
        for c, name in enumerate(classes)
        if not all(np.isnan(column[c]) for column in values)
    )
    notes = ("Right and abstained are shares of the components that the ground truth gives to the class.",)
    return Table(title, heads, body, notes)


@dataclass(frozen=True)
class Curve:
    """Certified accuracy against the radius for one noise: valid at all radii at once."""

    sigma: float
    norm: str
    n: int
    certified: metrics.RadiusCurve


def radius_curves(records: Sequence[Record], *, noise: Callable[[float], Noise], alpha: float) -> list[Curve]:
    """From Clopper-Pearson bounds at alpha / N: for each scene, all radii hold with probability at least 1 - alpha.

    ``noise`` makes the noise of a sigma.
    """
    counted = (record for record in records if record.kind == "radius")
    groups = grouped(counted, lambda record: (record.sigma or 0.0, record.n or 0))
    curves = []
    for (sigma, n), group in groups.items():
        drawn = noise(sigma)
        tables = [radius_table(drawn, n=n, N=record.N or 1, alpha=alpha) for record in group]
        counts = np.array([record.correct for record in group])
        valid = sum(record.valid for record in group)
        certified = metrics.certified_accuracy_curve(counts, np.stack(tables), valid)
        curves.append(Curve(sigma, drawn.norm, n, certified))
    return curves
