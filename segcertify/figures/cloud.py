"""Pictures of certified point clouds: two views. The page on which a cloud turns is in `cloud_page`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.spatial.transform import Rotation

from segcertify.arrays import Array, BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError
from segcertify.figures.painting import WRONG
from segcertify.figures.palette import Colours, palette
from segcertify.figures.panels import heading, wrong_words
from segcertify.figures.texts import Entry, tell

GREY = "#d2d2d2"
"""Points without a label: abstentions, and what the ground truth ignores."""

_VIEWS = ((60.0, 12.0), (130.0, 40.0))
"""Azimuth and elevation of the figure's two views, in degrees: ShapeNet's objects face x, at 90."""


def cloud_figure(points: Array, prediction: IntArray, certificate: Certificate, **shown: Any) -> Figure:
    """Two views of a cloud: with the ground truth if given, the base prediction, and the certified labels.

    ``points`` (N, at least 3) begin with x, y (up) and z; ``prediction`` (N,) are the base model's labels without
    noise. Also ``target`` (N,), the ground truth, negative where it is ignored; ``colours`` (classes, 3) in [0, 1];
    and ``names`` of the classes. Abstentions and ignored points are grey, certified points that are wrong have a rim.
    """
    cloud = cloud_of(points, certificate, prediction=prediction, **shown)
    ignored = "target" in cloud.labels and cloud.labels["target"].min() < 0
    titles = {
        "target": "ground truth" + (" (grey: ignored)" if ignored else ""),
        "prediction": "base model, no guarantee",
        "certified": heading(certificate),
    }
    kinds = [key for key in titles if key in cloud.labels]
    turns = [Rotation.from_euler("yx", [-azimuth, elevation], degrees=True) for azimuth, elevation in _VIEWS]
    views = [_centred(turn.apply(cloud.points)) for turn in turns]  # to the right, up, and to the eye
    reach = [view.max(0)[:2] + 0.05 for view in views]
    heights = [min(10 / len(kinds), 4.0) * y / max(x, y) for x, y in reach]
    figure = Figure(figsize=(10, sum(heights) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(views), len(kinds), height_ratios=heights, squeeze=False)
    for row, view, (x, y) in zip(grid, views, reach, strict=True):
        for axes, key in zip(row, kinds, strict=True):
            _draw(axes, view, cloud.colour(key), cloud.wrong if key == "certified" else None)
            axes.set(xlim=(-x, x), ylim=(-y, y), aspect="equal")
    for axes, key in zip(grid[0], kinds, strict=True):
        axes.set_title(titles[key], fontsize=12)
    entries = [_dot(name, colour) for name, colour in zip(cloud.names, cloud.colours, strict=True)]
    entries.append(_dot("abstained: nothing is promised", GREY))
    if cloud.wrong is not None:
        words = wrong_words(certificate.word, cloud.wrong, int((cloud.labels["target"] >= 0).sum()))
        entries.append(_dot(words, "none", rim=WRONG))
    claim = certificate.claim_about("the points coloured on the right")
    tell(figure, entries, said=certificate.sentence, exact=claim)
    return figure


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points (N, 3) in the unit ball; for each kind of labels, each point's index (N,) into the parts, or ABSTAIN."""

    points: FloatArray
    labels: dict[str, IntArray]
    names: list[str]
    colours: list[str]

    @property
    def wrong(self) -> BoolArray | None:
        """The certified points whose label is not the ground truth; None without one."""
        target, certified = self.labels.get("target"), self.labels["certified"]
        return None if target is None else (target >= 0) & (certified >= 0) & (certified != target)

    def colour(self, key: str) -> Array:
        """The colour of each point under these labels."""
        return np.array([*self.colours, GREY])[self.labels[key]]  # ABSTAIN is the last


def cloud_of(
    points: Array, certificate: Certificate, *, prediction: IntArray | None = None, target: IntArray | None = None,
    colours: Colours | None = None, names: Sequence[str] = (),
) -> Cloud:  # fmt: skip
    """The cloud to draw, once all is checked."""
    xyz = _coordinates(points)
    kinds = {"certified": certificate.labels, "prediction": prediction, "target": target}
    labels = {key: _labels(key, value, len(xyz)) for key, value in kinds.items() if value is not None}
    parts = np.unique(np.concatenate(list(labels.values())))
    parts = parts[parts >= 0]
    indices = {key: np.where(a < 0, ABSTAIN, np.searchsorted(parts, a)) for key, a in labels.items()}
    part_names = [names[part] if part < len(names) else f"class {part}" for part in parts]
    return Cloud(xyz, indices, part_names, [to_hex(row) for row in part_colours(parts, colours)])


def _coordinates(points: Array) -> FloatArray:
    """The first three columns, moved and scaled into the unit ball."""
    if points.ndim != 2 or points.shape[1] < 3 or not len(points):
        raise InputError(f"points must have the shape (N, at least 3), but have {points.shape}: a row is a point")
    xyz = points[:, :3].astype(float)
    bad = np.flatnonzero(~np.isfinite(xyz).all(1))
    if bad.size:
        those = f"those of {bad.size} points are not (first: point {bad[0]})"
        raise InputError(f"coordinates must be finite, but {those}: leave such points out before certifying")
    xyz = _centred(xyz)
    return np.asarray(xyz / (np.linalg.norm(xyz, axis=1).max() or 1.0))


def _centred(xyz: FloatArray) -> FloatArray:
    """Moved so that the middle of their box is the origin."""
    return np.asarray(xyz - (xyz.min(0) + xyz.max(0)) / 2)


def _labels(key: str, labels: IntArray, N: int) -> IntArray:
    """``labels``, if they are one integer per point."""
    if labels.shape != (N,):
        raise InputError(f"{key} labels must have the shape ({N},), one per point, but have {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{key} labels must be integers, but are {labels.dtype}: use .astype(int)")
    return labels


def part_colours(parts: IntArray, colours: Colours | None) -> Colours:
    """A colour for each of the parts (their numbers); by default the same in every cloud of a category."""
    top = int(parts.max(initial=0))
    if colours is None:
        few = top - int(parts.min(initial=top)) < 10
        return palette(10)[parts % 10] if few else palette(top + 1)[parts]
    if colours.ndim != 2 or colours.shape[1] != 3 or len(colours) <= top:
        raise InputError(f"colours must have the shape (at least {top + 1}, 3), but have {colours.shape}")
    if not ((colours >= 0) & (colours <= 1)).all():
        raise InputError(f"colours must lie in [0, 1], but reach {colours.max():g}: divide bytes by 255")
    return colours[parts]


def _draw(axes: Axes, view: FloatArray, colours: Array, wrong: BoolArray | None) -> None:
    """The points, the nearest last; dark rims tell them apart, and another one marks those that are ``wrong``."""
    order = np.argsort(view[:, 2], kind="stable")
    size = np.clip(30000 / len(view), 0.5, 60)
    x, y = view[order, :2].T
    rims, widths = np.tile((0, 0, 0, 0.25), (len(view), 1)), np.full(len(view), size**0.5 / 10)
    if wrong is not None:
        rims[wrong], widths[wrong] = (*WRONG, 1.0), size**0.5 / 4
    axes.scatter(x, y, s=size, c=colours[order], edgecolors=rims[order].tolist(), linewidths=widths[order].tolist())
    axes.set_axis_off()


def _dot(name: str, colour: str, rim: tuple[float, float, float] | None = None) -> Entry:
    """A point in the legend."""
    return name, Line2D([], [], linestyle="", marker="o", markersize=9, color=colour, markeredgecolor=rim or colour)
