"""Figures of an evaluation: accuracy against the radius, certified and under attack."""

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segcertify.claims import ONE_NOISY_RUN
from segcertify.figures.texts import wrapped
from segcertify.numerals import exact, exact_percent
from segcertify.report.attacked import AttackedRow
from segcertify.report.metrics import MetricCurve
from segcertify.report.summary import Curve, Row

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
GREY = "#555555"


def radius_figure(curves: Sequence[Curve], rows: Sequence[Row], *, title: str) -> Figure:
    """Certified accuracy against the radius: curves, valid at all radii at once, and dots, each at a fixed tau."""
    figure, axes = _figure()
    colours = _colours(curve.sigma for curve in curves)
    _draw_certified(axes, curves, rows, colours=colours, label="all radii at once")
    first = {row.radius: row for row in reversed(rows) if row.lower_bound and row.sigma in colours}
    for radius, row in first.items():
        text, at = exact(row.tau or 0), (radius or 0.0, row.certified_accuracy)
        axes.annotate(text, at, xytext=(5, 4), textcoords="offset points", fontsize=7)
    base = next((row for row in rows if row.sigma is None), None)
    if base is not None:
        axes.axhline(base.accuracy, color=GREY, linestyle=":", linewidth=1, label="base model, no noise")
    _finish(axes, curves, title=title, dots="certificates at a fixed tau, its value beside", y="certified accuracy")
    return figure


def attacked_figure(
    attacked: Sequence[AttackedRow], curves: Sequence[Curve], rows: Sequence[Row], *, title: str
) -> Figure:
    """Accuracy under attack, an upper bound, of the base model and the smoothed ones; and certified, a lower bound.

    No attack brings a smoothed model into the area below its certified curve.
    """
    figure, axes = _figure()
    colours = _colours(dict.fromkeys(row.sigma for row in attacked if row.sigma is not None))
    base = {row.radius: row.base.accuracy for row in attacked}
    axes.plot(list(base), list(base.values()), "s--", color=GREY, markersize=4, label="base model under attack")
    for sigma, colour in colours.items():
        smoothed = {row.radius: row.smoothed.accuracy for row in attacked if row.sigma == sigma and row.smoothed}
        if smoothed:
            [line] = axes.plot(list(smoothed), list(smoothed.values()), "v--", color=colour, mfc="white", markersize=4)
            line.set_label(f"sigma = {exact(sigma)}: smoothed model under attack")
    _draw_certified(axes, curves, rows, colours=colours, label="certified, at all radii at once")
    for curve in curves:
        radii, accuracy, colour = curve.certified.radii, curve.certified.accuracy, colours[curve.sigma]
        axes.fill_between(radii, accuracy, step="pre", color=colour, alpha=0.12, linewidth=0)
    _finish(axes, curves, title=title, dots="certificates at a fixed tau", y="accuracy")
    return figure


def metric_figure(curves: Sequence[MetricCurve], *, title: str, share: float) -> Figure:
    """The bounds on metrics of most noisy runs against the radius, means over scenes."""
    figure, axes = _figure()
    colours = _colours(dict.fromkeys(curve.sigma for curve in curves))
    names = list(dict.fromkeys(curve.metric for curve in curves))
    for curve in curves:
        style = ("-", "--", ":", "-.")[names.index(curve.metric) % 4]
        label = f"{curve.metric}, sigma = {exact(curve.sigma)}, n = {curve.n}"
        axes.step(curve.radii, curve.bounds, style, where="pre", color=colours[curve.sigma], label=label)
    runs = exact_percent(share)
    caption = (
        f"Mean over scenes of the bound that at least {runs} of the noisy runs keep under every perturbation within R."
    )
    axes.figure.supxlabel(wrapped(f"{caption} Each R is a claim of its own. {ONE_NOISY_RUN}", 120), fontsize=7)
    _dress(axes, title=title, y="bound on the metric")
    axes.set_xlabel("R")
    return figure


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    return figure, figure.subplots()


def _colours(sigmas: Iterable[float]) -> dict[float, str]:
    """A colour for each sigma."""
    return {sigma: COLOURS[i % len(COLOURS)] for i, sigma in enumerate(sigmas)}


def _draw_certified(
    axes: Axes, curves: Sequence[Curve], rows: Sequence[Row], *, colours: Mapping[float, str], label: str
) -> None:
    """The curves, and the dots of the certificates at a fixed tau: of rows whose accuracy is a lower bound.

    A dot is hollow where not all labels hold, but all less an error budget.
    """
    for curve in curves:
        [line] = axes.step(curve.certified.radii, curve.certified.accuracy, where="pre", color=colours[curve.sigma])
        line.set_label(f"sigma = {exact(curve.sigma)}, n = {curve.n}: {label}")
    named = set[str]()
    for row in rows:
        if row.lower_bound and row.radius is not None and row.sigma is not None and row.sigma in colours:
            [dot] = axes.plot(row.radius, row.certified_accuracy, "o", color=colours[row.sigma], markersize=5)
            if row.budget_words:
                dot.set_markerfacecolor("white")
                dot.set_label("_" if row.budget_words in named else row.budget_words)
                named.add(row.budget_words)


def _finish(axes: Axes, curves: Sequence[Curve], *, title: str, dots: str, y: str) -> None:
    """Limits, grid, legend and title. The legend stands where curves rarely are: finding the best position is slow."""
    axes.set_xlabel(f"R (dots: {dots})" if any(line.get_marker() == "o" for line in axes.lines) else "R")
    claims = dict.fromkeys(f"Curves: {curve.words}" for curve in curves)
    caption = "\n".join(wrapped(claim, 120) for claim in claims)
    axes.figure.supxlabel(caption, fontsize=7)
    _dress(axes, title=title, y=y)


def _dress(axes: Axes, *, title: str, y: str) -> None:
    """What all these figures share."""
    axes.set_ylabel(y)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", framealpha=0.8, edgecolor="none", fontsize=8)
    axes.set_title(wrapped(title, 80, lines=2), fontsize=11)
