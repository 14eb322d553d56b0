"""Empirical robustness beside what is certified: at each radius, what attacks left and what none can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segcertify.certificate import radius_text
from segcertify.records import Record
from segcertify.report.summary import Row, iou_forms, row_of
from segcertify.report.table import Table
from segcertify.stats.correction import PROCEDURES

NOTHING = "—"


@dataclass(frozen=True)
class Standing:
    """One radius, and one sigma: the base model under attack, the smoothed one, and what is certified of the latter.

    Without attack the radius is 0. ``smoothed`` and ``certified`` are None where nothing was tried or claimed.
    """

    radius: float
    sigma: float | None
    base: Row
    smoothed: Row | None
    certified: Row | None


def standings(
    records: Sequence[Record], rows: Sequence[Row], categories: Mapping[str, Sequence[int]]
) -> list[Standing]:
    """All radii that were attacked, and 0, each with every sigma of ``rows``; none if nothing was attacked."""
    groups: dict[tuple[float | None, float], list[Record]] = {}
    for record in records:
        if record.kind == "attacked" and record.radius is not None:
            groups.setdefault((record.sigma, record.radius), []).append(record)
    if not groups:
        return []
    attacked = {key: row_of(group, categories) for key, group in groups.items()}
    attacked[None, 0.0] = next(row for row in rows if row.sigma is None)
    sigmas: list[float | None] = [*dict.fromkeys(row.sigma for row in rows if row.sigma is not None)] or [None]
    return [
        Standing(
            radius,
            sigma,
            base=attacked[None, radius],
            smoothed=None if sigma is None else attacked.get((sigma, radius)),
            certified=_claim(rows, sigma, radius),
        )
        for radius in sorted({radius for _, radius in attacked})
        for sigma in sigmas
    ]


def _claim(rows: Sequence[Row], sigma: float | None, radius: float) -> Row | None:
    """The certificates that cover a radius and reach least beyond it; of several those with most draws, then the first.

    So their results have no say in which are shown, and alpha stays what it is.
    """
    covering = [
        (row.radius, -(row.n or 0), place)
        for place, row in enumerate(rows)
        if row.sigma == sigma and row.radius is not None and row.radius >= radius and proves(row)
    ]
    return rows[min(covering)[-1]] if covering else None


def proves(row: Row) -> bool:
    """Whether a row's certificates are a lower bound under attack: a false discovery rate is none."""
    return row.correction in PROCEDURES and PROCEDURES[row.correction].guarantee == "fwer"


def attacked_table(found: Sequence[Standing], *, title: str, alpha: float, attack: Mapping[str, Any]) -> Table:
    """Accuracy and IoU: of the base model under attack, the smoothed one under attack, and certified."""
    iou = "shape IoU" if found[0].base.categories else "mIoU"
    smoothed = any(standing.smoothed for standing in found)
    models = ("base", "smoothed") if smoothed else ("base",)
    heads = [f"{model} {score}" for model in models for score in ("accuracy", iou)]
    body = tuple(
        (
            radius_text(standing.radius, 4),
            NOTHING if standing.sigma is None else f"{standing.sigma:g}",
            *_scores(standing.base),
            *(_scores(standing.smoothed) if smoothed else ()),
            *_scores(standing.certified),
            standing.certified.test if standing.certified else NOTHING,
        )
        for standing in found
    )
    return Table(
        title,
        ("R", "sigma", *heads, "certified accuracy", f"certified {iou}", "certified by"),
        body,
        _notes(found[0].base.scenes, iou=iou, alpha=alpha, attack=attack),
    )


def _scores(row: Row | None) -> tuple[str, str]:
    """Accuracy and IoU, abstentions counted at their worst."""
    return (NOTHING, NOTHING) if row is None else (f"{row.accuracy:.4f}", f"{iou_forms(row)[-1]:.4f}")


def _notes(scenes: int, *, iou: str, alpha: float, attack: Mapping[str, Any]) -> tuple[str, ...]:
    starts = f"{attack['restarts']} random start{'s' if attack['restarts'] > 1 else ''}"
    over = " over the classes of the ground truth" if iou == "mIoU" else ""
    smoothed = (
        f"The smoothed model is attacked through its noise, and answers with the most frequent of {attack['smoothed']} "
        "fresh draws: where two labels are nearly as likely, that may not be its most likely one."
    )
    return (
        f"Base{' and smoothed' if attack['smoothed'] else ''}: at the input of lowest accuracy that was found within R "
        f"({attack['loss']}, {attack['steps']} steps, {starts}). An upper bound: another attack may do more.",
        f"Certified: a lower bound on the smoothed model's accuracy and {iou}{over} (worst case) under every "
        f"perturbation within R, for all {scenes} scenes together with probability at least "
        f"{max(0.0, 1 - scenes * alpha):g}. It says nothing of the base model, which may fall below.",
        *([smoothed] if attack["smoothed"] else []),
        "At each R stands the claim whose radius is the nearest that is not smaller, and of several the one with most "
        "draws. Each is a claim of its own.",
    )
