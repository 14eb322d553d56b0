"""`plot`: the figure of any votes or certificate, with or without the input that they are about."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError
from segcertify.figures.cloud import cloud_figure
from segcertify.figures.counts import metric_figure, radii_histogram, votes_figure
from segcertify.figures.image import add_upper_legend, as_rgb, certified_figure, class_colours, panel_figure, swatches
from segcertify.figures.palette import Colours, colour
from segcertify.figures.radii import radii_figure
from segcertify.figures.sets import sets_figure
from segcertify.figures.texts import draw_without_tex, legend_name, wrapped
from segcertify.figures.volume import slices_figure
from segcertify.metrics.certificate import MetricCertificate
from segcertify.names import plotted
from segcertify.numerals import percent
from segcertify.radii import RadiusMap
from segcertify.sets.certificate import SetCertificate
from segcertify.shown import Shown
from segcertify.votes import Votes

BARS = 20
"""How many classes a bar chart shows at most: the most frequent."""


@dataclass(frozen=True, eq=False)
class Beside:
    """What a figure shows beside a result."""

    x: Array | None
    prediction: IntArray | None
    target: IntArray | None
    colours: Colours | None
    names: Sequence[str]

    def numbered(self, *maps: IntArray | None) -> dict[str, Any]:
        """Colours and names of the classes that some label maps hold; their numbers where they have no names."""
        highest = max(int(each.max(initial=0)) for each in maps if each is not None)
        names = self.names if highest < len(self.names) else [f"class {number}" for number in range(highest + 1)]
        return {"colours": self.colours, "names": names}

    def all(self, labels: IntArray) -> dict[str, Any]:
        """All but the input, for a figure of these labels."""
        shown = self.numbered(labels, self.prediction, self.target)
        return {"prediction": self.prediction, "target": self.target, **shown}

    def image(self, shape: tuple[int, ...]) -> Array:
        """The input as an image (3, height, width) of this size; grey ones get three equal channels."""
        x = self.x if self.x is None or self.x.ndim != 2 else self.x[None]
        if x is None or x.ndim != 3 or x.shape[0] not in (1, 3) or x.shape[1:] != shape:
            got = None if self.x is None else self.x.shape
            raise InputError(
                f"x must be the image (3, {shape[0]}, {shape[1]}) that this is about, but has the shape {got}: "
                "leave x out, or give it at the size that the labels have"
            )
        return np.repeat(x, 3, axis=0) if x.shape[0] == 1 else x


def plot(
    found: Shown, x: ArrayLike | None = None, *, prediction: ArrayLike | None = None, target: ArrayLike | None = None,
    colours: ArrayLike | None = None, names: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """The figure of a certificate of any kind, of a radius map or of votes.

    ``x`` is the input that it is about: an image (3, height, width) in [0, 1], a cloud (points, columns) or a volume
    (channels, depth, height, width). Without it labels stand alone. ``prediction`` are the base model's labels without
    noise, ``target`` is the ground truth, negative where it is ignored: both for certificates of labels. ``colours``
    (classes, 3) lie in [0, 1], ``names`` are those of the classes.

    The figure is matplotlib's, made without pyplot: a notebook shows it, and ``figure.savefig("a.png")`` writes it.
    """
    draw = next((each for kind, each in _DRAWN.items() if isinstance(found, kind)), None)
    if draw is None:
        known = ", ".join(kind.__name__ for kind in _DRAWN)
        raise InputError(f"cannot plot {type(found).__name__}: expected one of {known}")
    beside = Beside(
        None if x is None else _array(x),
        None if prediction is None else _array(prediction).astype(np.int64),
        None if target is None else _array(target).astype(np.int64),
        None if colours is None else _array(colours).astype(float),
        names,
    )
    figure: Figure = draw(found, beside)
    vars(figure)["_repr_png_"] = partial(_png, figure)  # for notebooks that never imported pyplot, whose hook does it
    return figure


def _array(values: Any) -> Array:
    """An array of NumPy, also of a tensor on any device."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _png(figure: Figure) -> bytes:
    draw_without_tex(figure, content := io.BytesIO(), "png")
    return content.getvalue()


def _certificate(found: Certificate, beside: Beside) -> Figure:
    shape = found.labels.shape
    if len(shape) == 1 and beside.x is not None and beside.x.ndim == 2:
        return cloud_figure(beside.x, certificate=found, **beside.all(found.labels))
    if len(shape) == 3:
        return slices_figure(beside.x, certificate=found, **beside.all(found.labels))
    if len(shape) != 2:
        return _bars(found.labels, beside, found.claim)
    if beside.x is not None and beside.prediction is not None:
        return certified_figure(beside.image(shape), certificate=found, **beside.all(found.labels))
    maps = {f"{found.claimed.heading}, {percent(float(found.abstained.mean()))} abstained (white)": found.labels}
    maps |= {} if beside.prediction is None else {"base model, no guarantee": beside.prediction}
    maps |= {} if beside.target is None else {"ground truth (white: ignored)": beside.target}
    table = class_colours([*maps.values()], beside.colours)
    panels: dict[str, Array] = {} if beside.x is None else {"input": as_rgb(beside.image(shape))}
    panels |= {title: colour(labels, table) for title, labels in maps.items()}
    figure = _panels(panels, found.claim_about("the coloured pixels"))
    add_upper_legend(figure, swatches(table, beside.numbered(*maps.values())["names"], [*maps.values()]))
    return figure


def _radius_map(found: RadiusMap, beside: Beside) -> Figure:
    if found.labels.ndim != 2:
        return radii_histogram(found)
    x = None if beside.x is None else beside.image(found.labels.shape)
    return radii_figure(x, found, **beside.numbered(found.labels))


def _sets(found: SetCertificate, beside: Beside) -> Figure:
    if found.labels.ndim != 2:
        return _bars(found.labels, beside, found.claim)
    x = None if beside.x is None else beside.image(found.labels.shape)
    return sets_figure(x, found, **beside.numbered(np.arange(len(found.sets))))


def _panels(panels: Mapping[str, Array], claim: str) -> Figure:
    """Images in a row above a claim."""
    height, width = next(iter(panels.values())).shape[:2]
    side = min(12 / len(panels), 6.0)
    figure = panel_figure(panels, rows=1, height=min(side * height / width, 9.0) + 1.5, fontsize=11)
    figure.set_figwidth(side * len(panels))
    figure.supxlabel(wrapped(claim, int(12.5 * side * len(panels))), fontsize=9)
    return figure


def _bars(labels: IntArray, beside: Beside, claim: str) -> Figure:
    """How many components have each label, of inputs that are no pictures."""
    values, counts = np.unique(labels, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:BARS][::-1]
    names = beside.numbered(labels)["names"]
    said = ["abstained" if label == ABSTAIN else legend_name(names[label]) for label in values[most]]
    table = class_colours([labels], beside.colours)
    figure = Figure(figsize=(8, 1.8 + 0.3 * len(most)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    shades = [(0.82, 0.82, 0.82) if label == ABSTAIN else tuple(table[label]) for label in values[most]]
    axes.barh(range(len(most)), counts[most], color=shades)
    axes.set_yticks(range(len(most)), [plotted(each) for each in said])
    axes.set_xlabel("components")
    figure.supxlabel(wrapped(claim, 110), fontsize=9)
    return figure


_DRAWN: dict[type, Callable[[Any, Beside], Figure]] = {
    Certificate: _certificate,
    RadiusMap: _radius_map,
    SetCertificate: _sets,
    MetricCertificate: lambda found, _: metric_figure(found),
    Votes: lambda found, beside: votes_figure(found, **beside.numbered(found.candidate)),
}
"""What draws each kind of result."""
