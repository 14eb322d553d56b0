"""Pictures of what was counted: votes, the values of a metric, and the radii of components that are no pixels."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from segcertify.arrays import IntArray
from segcertify.figures.painting import blanked, painted
from segcertify.figures.palette import Colours, palette
from segcertify.figures.panels import class_colours, show, swatches
from segcertify.figures.texts import Entry, tell
from segcertify.metrics.certificate import MetricCertificate
from segcertify.names import plotted
from segcertify.numerals import lower_value, upper_value
from segcertify.radii import RadiusMap
from segcertify.votes import Votes

NO_CLAIM = "Votes claim nothing by themselves: segcertify.certify_votes(votes, tau=..., alpha=...) certifies."


def votes_figure(votes: Votes, *, colours: Colours | None = None, names: Sequence[str] = ()) -> Figure:
    """How many of n draws agree with the candidate, over all tested components; of pixels also where, and with what."""
    tested = np.ones(votes.candidate.shape, bool) if votes.mask is None else votes.mask
    share = np.where(tested, votes.agree / votes.n, np.nan)
    entries = list[Entry]()
    if votes.candidate.ndim != 2:
        figure = _figure(8, 3.6)
        _agreement(figure.subplots(), votes.agree[tested], votes.n)
    else:
        height, width = votes.candidate.shape
        figure = _figure(12, min(3.6 * height / width, 9.0) + 0.5)
        labels, agreement, counts = figure.subplots(1, 3)
        table = class_colours([votes.candidate], colours)
        candidates = blanked(votes.candidate, tested)
        show(labels, painted(None, candidates, table), candidates.shape)
        labels.set_title(f"candidates (from n0 = {votes.n0:,} draws)" if votes.n0 else "candidates", fontsize=10)
        drawn = agreement.imshow(share, vmin=0.5, vmax=1, cmap="viridis", interpolation="nearest")
        agreement.set_title("share of draws that agree", fontsize=10)
        figure.colorbar(drawn, ax=agreement, shrink=0.8, extend="min")
        agreement.set(xticks=[], yticks=[])
        _agreement(counts, votes.agree[tested], votes.n)
        entries = swatches(table, names, [candidates])
    tell(figure, entries, said="", exact=NO_CLAIM)
    return figure


def metric_figure(found: MetricCertificate) -> Figure:
    """The values of a metric in all noisy runs, and the bounds that they prove."""
    figure = _figure(8, 4)
    axes = figure.subplots()
    axes.hist(found.values, bins=40, color=tuple(palette(1)[0]))
    bounds = {"at least": (found.bound, lower_value), "at most": (found.upper, upper_value)}
    for bound, _ in bounds.values():
        if bound is not None:
            axes.axvline(bound, color="black", linestyle="--")
    said = [f"{words} {text(bound)}" for words, (bound, text) in bounds.items() if bound is not None]
    axes.set_title(", ".join(said) or "no bound", fontsize=11)
    axes.set(xlabel=plotted(found.metric), ylabel="noisy runs")
    tell(figure, [], said=found.sentence, exact=found.claim)
    return figure


def radii_histogram(found: RadiusMap) -> Figure:
    """How many components have at least each radius."""
    figure, radii = _figure(8, 4), np.sort(found.radii, axis=None)[::-1]
    axes = figure.subplots()
    axes.step(radii, np.arange(1, radii.size + 1) / found.N, where="pre", color=tuple(palette(1)[0]))
    axes.set(xlabel=f"R ({found.noise.threat(found.norm)})", ylabel="components certified to R", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    tell(figure, [], said=found.sentence, exact=found.claim)
    return figure


def _agreement(axes: Axes, agree: IntArray, n: int) -> None:
    """How many components have how much agreement."""
    axes.hist(agree, bins=min(n, 50), range=(0, n), color=tuple(palette(1)[0]), log=True)
    axes.set_xlabel(f"draws of n = {n:,} that agree")
    axes.set_ylabel("components")


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
