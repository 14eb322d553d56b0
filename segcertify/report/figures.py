"""Figures of an evaluation: certified accuracy against the radius."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from segcertify.report.summary import Curve, Row

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")

RADII = {"l2": "l2 radius R", "angle": "rotation angle R in radians"}
"""What the radius of each norm is."""


def radius_figure(curves: Sequence[Curve], rows: Sequence[Row], *, title: str, power: int = 1) -> Figure:
    """A curve for each sigma, valid at all its radii at once, and a dot for each certificate at a fixed tau.

    ``power`` stretches the upper end of the y axis; the paper's Figure 3 has 4.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    colours = {curve.sigma: COLOURS[i % len(COLOURS)] for i, curve in enumerate(curves)}
    for curve in curves:
        label = f"sigma = {curve.sigma:g}, n = {curve.n}: all radii at once"
        axes.step(curve.certified.radii, curve.certified.accuracy, where="pre", color=colours[curve.sigma], label=label)
    labelled = set()
    for row in rows:
        if row.radius is not None and row.sigma in colours:
            axes.plot(row.radius, row.accuracy, "o", color=colours[row.sigma], markersize=5)
            if row.radius not in labelled:
                text, at = f"{row.tau:g}", (row.radius, row.accuracy)
                axes.annotate(text, at, xytext=(5, 4), textcoords="offset points", fontsize=7)
            labelled.add(row.radius)
    base = next((row for row in rows if row.sigma is None), None)
    if base is not None:
        axes.axhline(base.accuracy, color="#555555", linestyle=":", linewidth=1, label="base model, no noise")
    radius = RADII.get(curves[0].norm) if curves else None
    axes.set_xlabel(f"{radius or 'radius R'} (dots: certificates at a fixed tau, its value beside)")
    axes.set_ylabel("certified accuracy")
    if power > 1:
        axes.set_yscale(
            "function", functions=(lambda a: np.sign(a) * np.abs(a) ** power, lambda a: np.abs(a) ** (1 / power))
        )
        axes.set_yticks([0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(title, fontsize=11)
    return figure
