"""Scores under attack beside what is certified: at each radius, an upper and a lower bound."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segcertify.claims import row_notes
from segcertify.numerals import NOTHING, counted, exact, lower, measured, upper
from segcertify.plain_words import over
from segcertify.preprocessing import Preprocessing
from segcertify.records import Record, grouped
from segcertify.report.summary import Row, iou_forms, row_of
from segcertify.report.table import Table


@dataclass(frozen=True)
class AttackedRow:
    """One radius and one sigma: the base model under attack, the smoothed one, and what is certified of the latter.

    The radius is 0 without an attack. ``smoothed`` and ``certified`` are None where nothing was tried or claimed.
    """

    radius: float
    sigma: float | None
    base: Row
    smoothed: Row | None
    certified: Row | None


def attacked_rows(
    records: Sequence[Record], rows: Sequence[Row], categories: Mapping[str, Sequence[int]]
) -> list[AttackedRow]:
    """Radius 0 and all radii that were attacked, each with every sigma of ``rows``; none if nothing was attacked."""
    attacks = [record for record in records if record.kind == "attacked"]
    if not attacks:
        return []
    groups = grouped(attacks, lambda record: (record.sigma, record.radius or 0.0))
    found = {key: row_of(group, categories) for key, group in groups.items()}
    found[None, 0.0] = next(row for row in rows if row.sigma is None)
    sigmas: list[float | None] = [*dict.fromkeys(row.sigma for row in rows if row.sigma is not None)] or [None]
    return [
        AttackedRow(
            radius,
            sigma,
            base=found[None, radius],
            smoothed=None if sigma is None else found.get((sigma, radius)),
            certified=_claim(rows, sigma, radius),
        )
        for radius in sorted({radius for _, radius in found})
        for sigma in sigmas
    ]


def _claim(rows: Sequence[Row], sigma: float | None, radius: float) -> Row | None:
    """The claim with the smallest radius that covers this one; of several that with most draws, then the first.

    The choice does not look at results, so alpha stays what it is.
    """
    bounds = (row for row in rows if row.sigma == sigma and row.lower_bound)
    covering = [row for row in bounds if row.radius is not None and row.radius >= radius]
    return min(covering, key=lambda row: (row.radius or 0.0, -(row.n or 0)), default=None)


def attacked_table(
    rows: Sequence[AttackedRow], *, title: str, attack: Mapping[str, Any], preprocessing: Preprocessing | None = None
) -> Table:
    """Accuracy and IoU: certified first, then of the smoothed model under attack, and of the base model."""
    iou = "shape IoU" if rows[0].base.categories else "mIoU"
    smoothed = any(row.smoothed for row in rows)
    models = ("smoothed", "base") if smoothed else ("base",)
    heads = [f"{model} {score}" for model in models for score in ("accuracy", iou)]
    body = tuple(
        (
            exact(row.radius),
            NOTHING if row.sigma is None else exact(row.sigma),
            *_scores(row.certified, lower, certified=True),
            row.certified.test if row.certified else NOTHING,
            *(_scores(row.smoothed, upper if row.radius else measured) if smoothed else ()),
            *_scores(row.base, upper if row.radius else measured),
        )
        for row in rows
    )
    return Table(
        title,
        ("R", "sigma", "certified accuracy", f"certified {iou}", "certified by", *heads),
        body,
        _notes(rows, iou=iou, attack=attack, preprocessing=preprocessing),
    )


def _scores(row: Row | None, text: Callable[[float], str], *, certified: bool = False) -> tuple[str, str]:
    """Accuracy and IoU, abstentions counted at their worst; of a certificate, less the budget of errors."""
    if row is None:
        return NOTHING, NOTHING
    return text(row.certified_accuracy if certified else row.accuracy), text(iou_forms(row)[-1])


def _notes(
    rows: Sequence[AttackedRow], *, iou: str, attack: Mapping[str, Any], preprocessing: Preprocessing | None
) -> tuple[str, ...]:
    starts, of_classes = counted(attack["restarts"], "random start"), " over the classes of the ground truth"
    smoothed = (
        f"The smoothed model is attacked through its noise, and answers with the most frequent of {attack['smoothed']} "
        "fresh draws: where two labels are nearly as likely, that may not be its most likely one."
    )
    bounds = f"certified accuracy and {iou}{of_classes if iou == 'mIoU' else ''} (worst case)"
    scenes, shown = rows[0].base.scenes, [row.certified for row in rows if row.certified]
    claims = row_notes(
        (each.claim for each in shown), scenes, bounds=bounds,
        plain=lambda claim: over(
            claim, scenes, preprocessing=preprocessing, radii=[each.radius for each in shown if each.claim == claim]
        ),
    )  # fmt: skip
    certified = (
        "What is certified says nothing of the base model, which may fall below.",
        "At each R stands the claim whose radius is the nearest that is not smaller, and of several the one with most "
        "draws. Each is a claim of its own.",
    )
    return (
        f"Base{' and smoothed' if attack['smoothed'] else ''}: at the input of lowest accuracy that was found within R "
        f"({attack['loss']}, {counted(attack['steps'], 'step')}, {starts}). An upper bound, rounded up: another attack "
        "may do more.",
        *([smoothed] if attack["smoothed"] else []),
        *([*claims, *certified] if claims else ["Nothing is certified at any of these R."]),
    )
