"""Scores over all scenes of an evaluation, by setting: tables and curves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segcertify import metrics
from segcertify.arrays import FloatArray
from segcertify.certification import capped_bounds, radius_table
from segcertify.claims import Claim, capped_words, row_notes
from segcertify.errors import InputError
from segcertify.noise import Noise
from segcertify.numerals import NOTHING, counted, exact, lower, measured, radius_text
from segcertify.plain_words import over
from segcertify.preprocessing import Preprocessing
from segcertify.records import Record, grouped
from segcertify.report.categories import Category, by_category, shape_scores
from segcertify.report.table import Table


@dataclass(frozen=True)
class Row:
    """The scores of one setting over all scenes. Of the base model, without noise, the setting is None throughout.

    ``abstained`` is a share of the valid components, ``abstained_all`` of all
    components; ``class_accuracy`` and ``class_abstained`` are shares of each class;
    times are seconds per scene. Clouds have ``categories``, where these are known.
    ``claim`` is what its labels are said to do; None of the base model. ``input_radius``
    is the smallest radius of a scene in the units of its file, where that differs. From
    ``certified_accuracy`` and the worst cases of IoU the claim's error budget is subtracted.
    ``mislabelled`` is the share of the valid components with a label that is not the true one.
    ``used`` and ``saved`` are draws of all scenes together, where looks could end them.
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
    claim: Claim | None = None
    input_radius: float | None = None
    certified_accuracy: float = float("nan")
    mislabelled: float = float("nan")
    used: int | None = None
    saved: int | None = None

    @property
    def label(self) -> str:
        """The setting in words."""
        return "base model, no noise" if self.sigma is None else f"sigma={exact(self.sigma)}, {self.test}"

    @property
    def test(self) -> str:
        """The setting without the noise, in words."""
        return f"n={self.n}, tau={exact(self.tau or 0)}, {self.correction}"

    @property
    def lower_bound(self) -> bool:
        """Whether its scores are lower bounds under attack: only if all its labels hold, or all but a budget."""
        return self.claim is not None and self.claim.certifies

    @property
    def budget_words(self) -> str:
        """What a figure says of its dot where not every label holds; empty if all do."""
        if self.claim is None or not self.claim.certifies or self.claim.family_wise:
            return ""
        return f"{self.correction}: all but at most {self.claim.budget:,} labels a scene, which are subtracted"

    @property
    def radius_text(self) -> str:
        """The radius, if there is a proof of one."""
        return self._proven(self.radius)

    @property
    def input_radius_text(self) -> str:
        """The smallest radius in the units of a scene's file, if it is known."""
        return self._proven(self.input_radius)

    def _proven(self, radius: float | None) -> str:
        proven = self.claim is not None and self.claim.proven
        return radius_text(radius, 4) if proven and radius is not None else NOTHING


def summarize(
    records: Sequence[Record], categories: Mapping[str, Sequence[int]], claim_of: Callable[[float, str], Claim]
) -> list[Row]:
    """The scores of the base model and of each (sigma, n, tau, correction), in the order of the records.

    ``categories`` are the classes that clouds of each category have; ``claim_of`` tells the claim of a sigma and a
    correction.
    """
    scored = (record for record in records if record.kind in ("base", "certified"))
    groups = grouped(scored, lambda record: (record.sigma, record.n, record.tau, record.correction))
    if not groups:
        raise InputError("no records to summarize: the evaluation has finished no scene yet")
    return [
        row_of(group, categories, None if sigma is None or correction is None else claim_of(sigma, correction))
        for (sigma, _, _, correction), group in groups.items()
    ]


def row_of(group: Sequence[Record], categories: Mapping[str, Sequence[int]], claim: Claim | None = None) -> Row:
    """The scores of one setting's records."""
    if claim is not None:
        require_radius(group, claim)
    pooled, ious = _pooled(group)
    b = 0 if claim is None else claim.budget
    return Row(
        **{name: getattr(group[0], name) for name in ("sigma", "n", "tau", "correction", "radius")},
        scenes=len(group),
        accuracy=metrics.accuracy(pooled),
        miou_per_image=float(ious.mean()) if ious.size else float("nan"),
        miou_pooled=metrics.mean_iou([pooled], "pooled"),
        miou_worst_case=metrics.mean_iou([pooled], "worst_case", b=b * len(group)),
        iou=tuple(metrics.iou(pooled).tolist()),
        class_accuracy=tuple(metrics.class_accuracy(pooled).tolist()),
        class_abstained=tuple(metrics.class_abstention(pooled).tolist()),
        abstained=metrics.abstention(pooled),
        abstained_all=sum(r.abstained for r in group) / max(1, sum(r.components for r in group)),
        sampling_seconds=float(np.mean([r.sampling_seconds for r in group])),
        testing_seconds=float(np.mean([r.testing_seconds for r in group])),
        categories=by_category(group, categories, b),
        claim=claim,
        input_radius=smallest([record.input_radius for record in group]),
        mislabelled=metrics.mislabelled(pooled),
        certified_accuracy=metrics.worst_case_accuracy(pooled, b=b * len(group)),
        used=_total([record.used for record in group]),
        saved=_total([record.saved for record in group]),
    )


def _total(draws: Sequence[int | None]) -> int | None:
    """The sum, if all are known."""
    known = [each for each in draws if each is not None]
    return sum(known) if known and len(known) == len(draws) else None


def smallest(radii: Sequence[float | None]) -> float | None:
    """The smallest radius, if all are known."""
    known = [radius for radius in radii if radius is not None]
    return min(known) if known and len(known) == len(radii) else None


def _pooled(group: Sequence[Record]) -> tuple[metrics.Confusion, FloatArray]:
    """The sum of all confusion matrices, and every scene's IoU of every class that it has; one matrix at a time."""
    pooled, ious = None, []
    for record in group:
        matrix = metrics.from_plain(record.confusion or {})
        if pooled is not None and pooled.shape != matrix.shape:
            raise InputError(f"the records of scene {record.id!r} have other classes than those before: evaluate again")
        pooled = matrix if pooled is None else pooled + matrix
        values = metrics.iou(matrix)
        ious.append(values[~np.isnan(values)])
    return np.asarray(pooled), np.concatenate(ious)


def require_radius(group: Sequence[Record], claim: Claim) -> None:
    """Refuse records of one setting that have different radii, or a larger one than the noise proves."""
    radii = sorted({record.radius for record in group if record.radius is not None})
    noise, tau = claim.noise, group[0].tau or 0.5
    proved = radii[-1] if isinstance(noise, str) else noise.radius(tau) * (1 + 1e-9)
    if len(radii) > 1 or radii[-1] > proved:
        raise InputError(
            f"records at sigma={group[0].sigma}, tau={tau} have the radii {', '.join(map(repr, radii))}, but their "
            f"noise is {noise}: the folder holds records of another noise, so evaluate again in another folder"
        )


def results_table(rows: Sequence[Row], *, title: str, preprocessing: Preprocessing | None = None) -> Table:
    """What is certified first, then what is certified but wrong, abstained, three forms of IoU, and time.

    Images and clouds have categories of IoU of their own. ``preprocessing`` is the run's, for an example of a change.
    """
    shapes, scenes = bool(rows[0].categories), rows[0].scenes
    forms = ("shape IoU", "shape IoU by category") if shapes else ("mIoU per image", "mIoU pooled")
    in_files, looks = (any(getattr(row, name) is not None for row in rows) for name in ("input_radius", "used"))
    heads = (
        "setting", "R", *(["R in files, least"] if in_files else []), "certified accuracy", "certified but wrong",
        "abstained (valid)", f"{'shape IoU' if shapes else 'mIoU'} worst case", "accuracy", *forms, "abstained (all)",
        *(LOOKS if looks else ()), "sampling s", "testing s",
    )  # fmt: skip
    body = tuple(
        (
            row.label,
            row.radius_text,
            *([row.input_radius_text] if in_files else []),
            bound(row, row.certified_accuracy),
            certified_wrong(row),
            measured(row.abstained),
            bound(row, iou_forms(row)[2]),
            measured(row.accuracy),
            *map(measured, iou_forms(row)[:2]),
            measured(row.abstained_all),
            *(_draws(row) if looks else ()),
            f"{row.sampling_seconds:.2f}",
            f"{row.testing_seconds:.3f}",
        )
        for row in rows
    )
    notes = (
        f"{counted(scenes, 'scene')}. Accuracy counts an abstention as wrong.",
        *row_notes(
            (row.claim for row in rows),
            scenes,
            bounds="certified accuracy and worst-case IoU",
            plain=lambda claim: over(
                claim, scenes, preprocessing=preprocessing, radii=[r.radius for r in rows if r.claim == claim]
            ),
        ),
        *([FILE_NOTE] if in_files else []),
        *([SHAPE_NOTE] if shapes else []),
        *([LOOKS_NOTE] if looks else []),
        "Sampling time is each n's share of one run at the largest n of its sigma. Each row is a claim of its own.",
    )
    return Table(title, heads, body, notes)


def bound(row: Row, score: float) -> str:
    """A score of a row as a lower bound under attack, if it is one."""
    return lower(score) if row.lower_bound else NOTHING


def certified_wrong(row: Row) -> str:
    """The share of valid components with a certified label that is not the true one; the base model has none."""
    return measured(row.mislabelled) if row.lower_bound else NOTHING


def _draws(row: Row) -> tuple[str, ...]:
    """The draws that a row's scenes used and those that looks saved: the mean of a scene, and all."""
    if row.used is None or row.saved is None:
        return (NOTHING,) * len(LOOKS)
    return f"{row.used / row.scenes:.1f}", str(row.used), f"{row.saved / row.scenes:.1f}", str(row.saved)


LOOKS = ("draws used, mean", "draws used, all", "draws saved, mean", "draws saved, all")
LOOKS_NOTE = (
    "Draws used and saved are of the n that test labels, means of a scene and sums over all scenes. Rows of one sigma "
    "share their draws."
)
FILE_NOTE = (
    "R is at the network's input. In files: in the units of a scene's own file, before pre-processing. The table has "
    "the least over all scenes; each scene's record has its own."
)
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
            *map(measured, (category.accuracy, category.abstained, category.iou)),
            bound(row, category.worst_case_iou),
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
        (name, *(measured(column[c]) for column in values))
        for c, name in enumerate(classes)
        if not all(np.isnan(column[c]) for column in values)
    )
    notes = ("Right and abstained are shares of the components that the ground truth gives to the class.",)
    return Table(title, heads, body, notes)


@dataclass(frozen=True)
class Curve:
    """Certified accuracy against the radius for one noise: valid at all radii at once, over so many scenes."""

    sigma: float
    norm: str
    n: int
    certified: metrics.RadiusCurve
    claim: Claim
    scenes: int
    cap: float | None = None

    @property
    def words(self) -> str:
        """What the curve says."""
        capped = "" if self.cap is None else f" {capped_words(self.cap)}"
        return f"{self.claim.over(self.scenes)} This holds at all R at once.{capped}"


def radius_curves(
    records: Sequence[Record],
    claim_of: Callable[[float, str], Claim],
    looks_of: Callable[[float], Sequence[int]] = lambda sigma: (),
    *,
    cap: float | None = None,
) -> list[Curve]:
    """From Clopper-Pearson bounds at alpha / N: for each scene, all radii hold with probability at least 1 - alpha.

    A noise whose radius is not proven has no curve. Where the draws ended at one of L looks, the bounds are at
    alpha / (L N), from the draws that each scene used. With a ``cap`` no radius exceeds its own, and the levels are
    Holm's (`segcertify.certification.capped_bounds`).
    """
    counted = (record for record in records if record.kind == "radius")
    groups = grouped(counted, lambda record: (record.sigma or 0.0, record.n or 0))
    curves = []
    for (sigma, n), group in groups.items():
        claim = claim_of(sigma, "bonferroni")
        if not claim.family_wise or isinstance(claim.noise, str):
            continue
        level = claim.alpha / max(1, len(looks_of(sigma)))
        tables = [_radii(each, claim.noise, level, cap) for each in group]
        counts = np.concatenate([np.asarray(record.correct) for record in group])  # scenes may have used other n
        valid = sum(record.valid for record in group)
        certified = metrics.certified_accuracy_curve(counts, np.concatenate(tables), valid)
        curves.append(Curve(sigma, claim.noise.norm, n, certified, claim, len(group), cap))
    return curves


def _radii(record: Record, noise: Noise, level: float, cap: float | None) -> FloatArray:
    """The radius of each agreement count in a scene."""
    if cap is None:
        return radius_table(noise, n=record.counted, N=record.N or record.components, alpha=level)
    if record.agreement is None:
        raise InputError(f"the record of scene {record.id!r} has no counts of all components, which a cap needs")
    return np.asarray(noise.radius(capped_bounds(np.array(record.agreement), level, cap)), float)
