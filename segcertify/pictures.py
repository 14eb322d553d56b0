"""Pictures of certificates: what went in, what the base model says, what is certified."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate, radius_text

Colours = npt.NDArray[np.float64]

_FIRST = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#332288", "#ee7733", "#009988")


def palette(classes: int) -> Colours:
    """A colour per class (classes, 3): first a set safe for colour-blind readers, then spread hues. Never white."""
    first = [tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)) for code in _FIRST]
    more = [colorsys.hsv_to_rgb(0.618034 * i % 1, 0.55, 0.5 + 0.35 * (i % 2)) for i in range(classes - len(first))]
    return np.array((first + more)[:classes], float).reshape(-1, 3)


def colour(labels: IntArray, colours: Colours | None = None) -> Colours:
    """Labels (height, width) as an RGB image, abstentions white."""
    table = palette(int(labels.max(initial=0)) + 1) if colours is None else colours
    return np.where((labels == ABSTAIN)[..., None], 1.0, table[np.maximum(labels, 0)])


def certified_figure(x: Array, prediction: IntArray, certificate: Certificate) -> Figure:
    """Input, base prediction, and certified segmentation with abstentions in white, side by side.

    ``x`` is an image (3, height, width) in [0, 1]; ``prediction`` the base
    model's labels without noise.
    """
    colours = palette(int(max(prediction.max(initial=0), certificate.labels.max(initial=0))) + 1)
    abstained = float(certificate.abstained.mean())
    panels: Sequence[tuple[str, Array]] = (
        ("input", np.clip(x.transpose(1, 2, 0), 0, 1)),
        ("base model, no guarantee", colour(prediction, colours)),
        (f"certified, {abstained:.1%} abstained (white)", colour(certificate.labels, colours)),
    )
    height, width = prediction.shape
    figure = Figure(figsize=(12, 12 / 3 * height / width + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, image) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(title, fontsize=11)
        axes.set_xticks([])
        axes.set_yticks([])
    threat = f"{certificate.noise.threat(certificate.norm)} up to R = {radius_text(certificate.radius, 3)}"
    figure.supxlabel(
        f"no perturbation of {threat} changes a coloured label, "
        f"with probability at least 1 - {certificate.alpha:g} for all of them together",
        fontsize=10,
    )
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure, making its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
