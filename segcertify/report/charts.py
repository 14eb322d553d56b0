"""The curves of a run's page, as data that the page draws: accuracy and bounds against the radius."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.claims import ONE_NOISY_RUN
from segcertify.names import visible
from segcertify.numerals import exact, exact_percent, lower
from segcertify.report.run import Run
from segcertify.report.summary import Row

MOST_STEPS = 500
"""Steps of a curve on the page, at most; a curve of more steps is drawn lower than it is, never higher."""

DOTS = "Dots: certificates at a fixed tau. Each is a claim of its own."


def charts(run: Run) -> list[dict[str, Any]]:
    """All curves that a run has: certified accuracy, accuracy under attack, bounds on metrics."""
    found = [_radius_chart(run), _attacked_chart(run), _metric_chart(run)]
    return [chart for chart in found if chart is not None]


def _radius_chart(run: Run) -> dict[str, Any] | None:
    """Certified accuracy against the radius: curves, valid at all radii at once, and dots, each at a fixed tau."""
    if not run.curves():
        return None
    dots = [row for row in run.rows if row.lower_bound and row.radius is not None]
    base = next((row for row in run.rows if row.sigma is None), None)
    drawn = [
        _series(
            f"{row.label}: {lower(row.certified_accuracy)} at R = {row.radius_text}", row.sigma, "dots",
            [(row.radius, row.certified_accuracy)],
        )
        for row in dots
    ]  # fmt: skip
    level = [] if base is None else [_series("base model, no noise", None, "level", [(0.0, base.accuracy)])]
    return {
        "title": "Certified accuracy against the radius",
        "y": "certified accuracy",
        "series": [*_certified(run), *drawn, *level],
        "words": [*_claims(run), " ".join([DOTS, *dict.fromkeys(_budgets(dots))])],
    }


def _budgets(dots: Sequence[Row]) -> list[str]:
    """What is said of dots for which not every label holds."""
    return [f"{row.budget_words}." for row in dots if row.budget_words]


def _attacked_chart(run: Run) -> dict[str, Any] | None:
    """Accuracy under attack, an upper bound, above certified accuracy, a lower bound."""
    if not (rows := run.attacked_rows):
        return None
    base = {row.radius: row.base.accuracy for row in rows}
    series = [_series("base model under attack", None, "line", [*base.items()])]
    for sigma in dict.fromkeys(row.sigma for row in rows if row.sigma is not None):
        points = [(row.radius, row.smoothed.accuracy) for row in rows if row.sigma == sigma and row.smoothed]
        if points:
            series.append(_series(f"sigma = {exact(sigma)}: smoothed model under attack", sigma, "line", points))
    words = "Under attack: what the strongest attack found leaves. An upper bound; another attack may do more."
    return {
        "title": "Accuracy under attack, and certified",
        "y": "accuracy",
        "series": [*series, *_certified(run)],
        "words": [words, *_claims(run)],
    }


def _metric_chart(run: Run) -> dict[str, Any] | None:
    """The bounds on metrics of most noisy runs against the radius, means over scenes."""
    curves = run.metric_curves() if run.configuration["metrics"] is not None else []
    if not curves:
        return None
    runs = exact_percent(run.configuration["metrics"]["share"])
    series = [
        _series(
            f"{curve.metric}, sigma = {exact(curve.sigma)}, n = {curve.n}", i, "steps",
            _steps(curve.radii, curve.bounds),
        )
        for i, curve in enumerate(curves)
    ]  # fmt: skip
    words = (
        f"Mean over scenes of the bound that at least {runs} of the noisy runs keep under every perturbation within R. "
        f"Each R is a claim of its own. {ONE_NOISY_RUN}"
    )
    return {"title": "Bounds on metrics of noisy runs", "y": "bound on the metric", "series": series, "words": [words]}


def _certified(run: Run) -> list[dict[str, Any]]:
    """Certified accuracy at all radii at once."""
    return [
        _series(
            f"sigma = {exact(curve.sigma)}, n = {curve.n}: certified, all radii at once", curve.sigma, "steps",
            _steps(curve.certified.radii, curve.certified.accuracy),
        )
        for curve in run.curves()
    ]  # fmt: skip


def _claims(run: Run) -> list[str]:
    return list(dict.fromkeys(f"Curves: {curve.words}" for curve in run.curves()))


def _series(name: str, group: float | None, kind: str, points: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """Points of one colour, that of its group: ``"steps"``, ``"line"``, ``"dots"`` or a ``"level"``."""
    sound = [[float(x), float(y)] for x, y in points if np.isfinite(x) and np.isfinite(y)]
    return {"name": visible(name), "group": None if group is None else str(group), "kind": kind, "points": sound}


def _steps(radii: FloatArray, heights: FloatArray) -> list[tuple[float, float]]:
    """A falling curve, ``heights[j]`` up to ``radii[j]``, in few steps: of several the last, which is the lowest."""
    chosen = np.unique(np.linspace(0, len(radii) - 1, min(MOST_STEPS, len(radii))).round().astype(int))
    return [(float(radii[j]), float(heights[j])) for j in chosen]
