"""The paper's Figures 3 and 4: certified accuracy against the radius as tau grows, ours beside the paper's points."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segcertify.figures.texts import wrapped
from segcertify.noise import Gaussian
from segcertify.report.figures import COLOURS
from segcertify.report.run import Run
from segcertify.reproduce.paper_tables import SWEPT, PaperRow, PaperTable, folder_of, setting_of
from segcertify.stats.binomial import p_values

COMPONENTS = {"Cityscapes": 1024 * 2048, "ShapeNet": 2048}
"""How many components a scene of the paper has."""

RELEASED_ALPHA = 0.0001
"""What the released scripts use unless another alpha is given."""

_STYLES = (("o", "-"), ("^", "--"))  # the marker and the line of the largest n, then of the other
_POWER = 4  # of the y axis of Figure 3, as in the paper


class Series(NamedTuple):
    """The points of one model, sigma and n, in the order of tau."""

    model: str
    sigma: float
    n: int
    rows: tuple[PaperRow, ...]

    @property
    def accuracy(self) -> list[float]:
        """The paper's accuracies; it has one data set for each sweep."""
        return [next(iter(row.paper.values()))["acc"] for row in self.rows]

    @property
    def taus(self) -> list[float]:
        """The thresholds."""
        return [row.setting.tau for row in self.rows if row.setting is not None]

    @property
    def radii(self) -> list[float]:
        """The radius of each tau."""
        return [float(Gaussian(self.sigma).radius(tau)) for tau in self.taus]


def series_of(table: PaperTable) -> list[Series]:
    """The series of a sweep, in the order of the table."""

    def key(row: PaperRow) -> tuple[str, float, int]:
        assert row.setting is not None
        return row.model, row.setting.sigma, row.setting.n

    return [Series(*each, tuple(rows)) for each, rows in groupby(table.rows, key)]


def sweep_figure(table: PaperTable, out: Path, models: Sequence[str]) -> Figure:
    """Certified accuracy against the radius, of these models, with the paper's points [Fischer2021, Figures 3 and 4].

    A colour is a sigma, a marker is an n. Ours are filled, the paper's are hollow and as measured (`sweep_notes`).
    """
    runs = {name: Run.load(folder_of(out, name)) for name in models}
    figure = Figure(figsize=(8.5, 6.9), layout="constrained")
    axes, drawn = figure.subplots(), [each for each in series_of(table) if each.model in runs]
    colours = dict(zip(dict.fromkeys(each.sigma for each in drawn), COLOURS, strict=False))
    styles = dict(zip(sorted({each.n for each in drawn}, reverse=True), _STYLES, strict=False))
    ours, theirs = [], []
    for each in drawn:
        found = {setting_of(row): row.accuracy for row in reversed(runs[each.model].rows)}  # Holm's are the first
        accuracy = [found.get(row.setting, np.nan) for row in each.rows]
        (marker, line), colour = styles[each.n], colours[each.sigma]
        ours += axes.plot(each.radii, accuracy, line, marker=marker, color=colour, ms=6, lw=1.4, clip_on=False)
        theirs += axes.plot(each.radii, each.accuracy, ":", marker=marker, mfc="none", color=colour, ms=7, lw=1.0,
                            clip_on=False)  # fmt: skip
    _finish(axes, power=1 if table.clouds else _POWER)
    _tau_axes(axes, drawn, colours)
    names = [f"{whose}: sigma = {each.sigma:g}, n = {each.n:,}" for whose in ("ours", "paper") for each in drawn]
    notes = textwrap.fill(" ".join(sweep_notes(table)), 150)
    figure.legend([*ours, *theirs], names, loc="outside lower center", ncols=2, frameon=False, fontsize=8, title=notes,
                  title_fontsize=7)  # fmt: skip
    where = " and ".join(dict.fromkeys(str(run.configuration["data"]) for run in runs.values()))
    figure.suptitle(wrapped(f"{table.title}, ours: {where}; the paper's: {SWEPT[table.name]}", 110), fontsize=10)
    return figure


def _finish(axes: Axes, *, power: int) -> None:
    """Names, limits and grid of the axes; ``power`` stretches the upper end of the y axis."""
    if power > 1:
        axes.set_yscale(
            "function", functions=(lambda a: np.sign(a) * np.abs(a) ** power, lambda a: np.abs(a) ** (1 / power))
        )
        axes.set_yticks([0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    axes.set(xlabel="l2 radius R", ylabel="certified accuracy", xlim=(-0.01, None))
    axes.set_ylim(-0.02 if power == 1 else 0, 1.0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["right"]].set_visible(False)


def _tau_axes(axes: Axes, drawn: Sequence[Series], colours: Mapping[float, str]) -> None:
    """Above the axes, a line for each sigma with the tau of each of its radii."""
    for i, (sigma, colour) in enumerate(colours.items()):
        series = [each for each in drawn if each.sigma == sigma]
        ticks = dict(sorted((r, tau) for each in series for r, tau in zip(each.radii, each.taus, strict=True)))
        above = axes.secondary_xaxis(1 + 0.12 * i)
        above.set_xticks(list(ticks), [f"{tau:g}" for tau in ticks.values()], rotation=90, fontsize=7)
        above.tick_params(colors=colour)
        near = np.diff(list(ticks)) < 0.016 * axes.get_xlim()[1]  # such labels lean away from each other
        for j, label in enumerate(above.get_xticklabels()):
            before, after = j > 0 and near[j - 1], j < len(near) and near[j]
            label.set_horizontalalignment(
                "left" if before and not after else "right" if after and not before else "center"
            )
        above.spines["top"].set_color(colour)
        text = f"tau at\nsigma = {sigma:g}"
        axes.annotate(text, (1.01, 1 + 0.12 * i), xycoords="axes fraction", color=colour, fontsize=8)


def sweep_notes(table: PaperTable) -> tuple[str, ...]:
    """What a reader of a sweep must know of the paper's points; computed, not typed."""
    data = SWEPT[table.name]
    changes = {
        max(accuracy[i:]) - accuracy[i]: (each.sigma, tau)
        for each in series_of(table)
        for accuracy in [each.accuracy]
        for i, tau in enumerate(each.taus)
    }
    notes = ["Each point is a claim of its own: to pick one after looking at several voids alpha."]
    if largest := max(changes, default=0.0):
        sigma, tau = changes[largest]
        notes.append(
            "The paper's points are shown as measured. The released plot raises each to the largest accuracy at this "
            f"or a greater tau, by up to {largest:.4f} (sigma = {sigma:g}, tau = {tau:g})."
        )
    falls = [note for each in series_of(table) if (note := _fall(each, table.alpha, data))]
    return (*notes, *dict.fromkeys(falls))


def _fall(series: Series, alpha: float, data: str) -> str | None:
    """Why a series falls to zero, if the alpha that the paper states does not explain it."""
    N, n, accuracy = COMPONENTS[data], series.n, series.accuracy
    tau = next((tau for tau, each in zip(series.taus, accuracy, strict=True) if each == 0), None)
    if tau is None or (p := p_values(n, tau)[n]) > alpha / N or p <= RELEASED_ALPHA / N:
        return None
    return (
        f"The paper's points fall to 0 at tau = {tau:g}. There the smallest p-value, of n = {n} draws that all agree, "
        f"is {tau:g}^{n} = {p:.3g}. To certify one of N = {N:,} pixels it must be at most alpha / N: {alpha / N:.3g} "
        f"for the stated alpha = {alpha:g}, which allows it, and {RELEASED_ALPHA / N:.3g} for alpha = "
        f"{RELEASED_ALPHA:g}, which does not. So the fall fits alpha = {RELEASED_ALPHA:g}, the released scripts' "
        f"default, not {alpha:g}."
    )
