"""`plot`: the figure of any votes or certificate, with or without the input that they are about."""

import io
from collections.abc import Callable, Sequence
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
from segcertify.figures.image import certified_figure
from segcertify.figures.palette import Colours
from segcertify.figures.panels import LabelMaps, as_rgb, class_colours, panel_figure
from segcertify.figures.radii import radii_figure
from segcertify.figures.sets import sets_figure
from segcertify.figures.texts import draw_without_tex, legend_name, tell
from segcertify.figures.volume import slices_figure
from segcertify.metrics.certificate import MetricCertificate
from segcertify.names import plotted
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
        return _bars(found.labels, beside, found)
    if beside.x is not None and beside.prediction is not None:
        return certified_figure(beside.image(shape), certificate=found, **beside.all(found.labels))
    numbered = {"colours": beside.colours, "names": beside.all(found.labels)["names"]}
    shown = LabelMaps.of(found, prediction=beside.prediction, target=beside.target, **numbered)
    panels: dict[str, Array] = {} if beside.x is None else {"input": as_rgb(beside.image(shape))}
    grey = None if beside.x is None else beside.image(shape).mean(0)
    panels |= shown.painted(grey)
    side = min(12 / len(panels), 6.0)
    figure = panel_figure(panels, shape, rows=1, width=side * len(panels))
    shown.name_regions(figure.axes[-len(shown.maps) :])
    light = None if grey is None else float(grey.mean())
    tell(figure, shown.entries(light), said=found.sentence, exact=found.claim_about("the coloured pixels"))
    return figure


def _radius_map(found: RadiusMap, beside: Beside) -> Figure:
    if found.labels.ndim != 2:
        return radii_histogram(found)
    x = None if beside.x is None else beside.image(found.labels.shape)
    return radii_figure(x, found, **beside.numbered(found.labels))


def _sets(found: SetCertificate, beside: Beside) -> Figure:
    if found.labels.ndim != 2:
        return _bars(found.labels, beside, found)
    x = None if beside.x is None else beside.image(found.labels.shape)
    return sets_figure(x, found, **beside.numbered(np.arange(len(found.sets))))


def _bars(labels: IntArray, beside: Beside, found: Certificate | SetCertificate) -> Figure:
    """How many components have each label, of inputs that are no pictures."""
    values, counts = np.unique(labels, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:BARS][::-1]
    names = beside.numbered(labels)["names"]
    said = ["abstained" if label == ABSTAIN else legend_name(names[label]) for label in values[most]]
    table = class_colours([labels], beside.colours)
    figure = Figure(figsize=(8, 0.8 + 0.3 * len(most)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    shades = [(0.82, 0.82, 0.82) if label == ABSTAIN else tuple(table[label]) for label in values[most]]
    axes.barh(range(len(most)), counts[most], color=shades)
    axes.set_yticks(range(len(most)), [plotted(each) for each in said])
    axes.set_xlabel("components")
    tell(figure, [], said=found.sentence, exact=found.claim)
    return figure


_DRAWN: dict[type, Callable[[Any, Beside], Figure]] = {
    Certificate: _certificate,
    RadiusMap: _radius_map,
    SetCertificate: _sets,
    MetricCertificate: lambda found, _: metric_figure(found),
    Votes: lambda found, beside: votes_figure(found, **beside.numbered(found.candidate)),
}
"""What draws each kind of result."""
