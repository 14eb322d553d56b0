"""Metric certificates over all scenes of an evaluation: a table of their own, and curves against the radius."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.claims import MetricClaim
from segcertify.metrics.names import parse
from segcertify.metrics.planning import probability_needed, ranks, values_left_out
from segcertify.noise import Noise, largest_radius
from segcertify.numerals import NOTHING, counted, exact, exact_percent, lower, measured, radius_text, upper
from segcertify.records import Record, grouped
from segcertify.report.table import Table

STEPS = 120
"""Points of a curve."""


@dataclass(frozen=True)
class MetricRow:
    """One metric of one sigma, n and radius: the means over scenes of each scene's own bounds, None without bounds.

    ``typical`` is the mean over scenes of the median of the noisy runs, without an attack.
    """

    metric: str
    sigma: float
    n: int
    radius: float
    scenes: int
    typical: float
    bound: float | None
    lowest: float | None
    upper: float | None


@dataclass(frozen=True)
class MetricCurve:
    """The mean over scenes of the bounds on one metric against the radius; each radius is a claim of its own."""

    metric: str
    sigma: float
    n: int
    radii: FloatArray
    bounds: FloatArray


def metric_rows(
    records: Sequence[Record], configuration: Mapping[str, Any], noise_of: Callable[[float], Noise | str]
) -> list[MetricRow]:
    """Every metric at each setting's n, within the radii that were asked for; none if no metric was."""
    rows = []
    for (name, sigma), (noise, values) in _values(records, noise_of).items():
        settings = [setting for setting in configuration["settings"] if setting["sigma"] == sigma]
        asked = configuration["metrics"]["radii"]
        wanted = [(s["n"], r) for s in settings for r in (asked or [float(noise.radius(s["tau"]))])]
        for n, radius in dict.fromkeys(wanted):
            low, high = _bounds(values[:, :n], noise, radius, name=name, configuration=configuration)
            rows.append(
                MetricRow(
                    name, sigma, n, radius, len(values), float(np.median(values[:, :n], axis=1).mean()),
                    None if low is None else float(low.mean()), None if low is None else float(low.min()),
                    None if high is None else float(high.mean()),
                )
            )  # fmt: skip
    return rows


def metric_curves(
    records: Sequence[Record], configuration: Mapping[str, Any], noise_of: Callable[[float], Noise | str]
) -> list[MetricCurve]:
    """The bounds of every one-sided metric at all n draws, from radius 0 to the last that has a bound."""
    curves = []
    for (name, sigma), (noise, values) in _values(records, noise_of).items():
        if _two_sided(name, configuration):
            continue
        reach = min(largest_radius(noise), 2 * float(noise.radius(0.999)))
        found = [
            (radius, float(low.mean()))
            for radius in np.linspace(0, reach, STEPS)
            if (low := _bounds(values, noise, radius, name=name, configuration=configuration)[0]) is not None
        ]
        if found:
            radii, bounds = np.array(found).T
            curves.append(MetricCurve(name, sigma, values.shape[1], radii, bounds))
    return curves


def metric_table(
    rows: Sequence[MetricRow],
    configuration: Mapping[str, Any],
    claim_of: Callable[[str, float], MetricClaim],
    title: str,
) -> Table:
    """The bounds of all metrics, apart from the scores of voted labels."""
    heads = ("metric", "setting", "R", "median run, no attack", "bound", "smallest bound", "upper bound")
    body = tuple(
        (
            row.metric,
            f"sigma={exact(row.sigma)}, n={row.n}",
            radius_text(row.radius, 4),
            measured(row.typical),
            *(NOTHING if value is None else lower(value) for value in (row.bound, row.lowest)),
            NOTHING if row.upper is None else upper(row.upper),
        )
        for row in rows
    )
    scenes, share = rows[0].scenes, exact_percent(configuration["metrics"]["share"])
    kept = "the metric at or above that scene's bound (and at or below its upper bound, where there is one)"
    notes = dict.fromkeys(claim_of(row.metric, row.sigma).over(scenes, kept) for row in rows)
    return Table(
        title,
        heads,
        body,
        (
            f"{counted(scenes, 'scene')}; bounds are means over scenes of each scene's own bound, for {share} of the "
            f"noisy runs. {NOTHING}: too few draws for a bound at this R.",
            *notes,
            "Each row is a claim of its own, at its own alpha; the draws are those of the voted certificates, and both "
            "hold together at the sum of their alphas. A class that a scene lacks has recall 1.",
        ),
    )


def _values(
    records: Sequence[Record], noise_of: Callable[[float], Noise | str]
) -> dict[tuple[str, float], tuple[Noise, FloatArray]]:
    """The noise and the values (scenes, n) of each metric and sigma whose noise is known."""
    groups = grouped((r for r in records if r.kind == "metric"), lambda r: (r.metric or "", r.sigma or 0.0))
    noises = {key: noise_of(key[1]) for key in groups}
    return {
        key: (noise, np.array([record.values for record in groups[key]]))
        for key, noise in noises.items()
        if not isinstance(noise, str)
    }


def _bounds(
    values: FloatArray, noise: Noise, radius: float, *, name: str, configuration: Mapping[str, Any]
) -> tuple[FloatArray | None, FloatArray | None]:
    """Each scene's lower and upper bound, as `segcertify.MetricCertificate` has them; None where there is none."""
    both = _two_sided(name, configuration)
    tau = probability_needed(noise, radius, share=configuration["metrics"]["share"])
    left_out = values_left_out(values.shape[1], tau, configuration["alpha"], two_sided=both)
    if left_out is None:
        return None, None
    ordered = np.sort(values, axis=1)
    below, above = ranks(left_out, two_sided=both)
    return ordered[:, below - 1], ordered[:, -above] if above else None


def _two_sided(name: str, configuration: Mapping[str, Any]) -> bool:
    return parse(name, configuration["classes"]).two_sided
