"""Pictures of certificates: what went in, what the base model says, what is certified."""

from __future__ import annotations

import colorsys
import math
import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError

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


TINT = 0.7
"""How much of a label's colour covers a photograph."""


def tinted(grey: Array, labels: IntArray, colours: Colours) -> Colours:
    """A grey image (height, width) in the colours of its labels, white where they are negative."""
    labels = np.where(labels < 0, ABSTAIN, labels)
    mixed = TINT * colour(labels, colours) + (1 - TINT) * grey[..., None]
    return np.where((labels == ABSTAIN)[..., None], 1.0, mixed)


def certified_figure(
    x: Array,
    prediction: IntArray,
    certificate: Certificate,
    *,
    target: IntArray | None = None,
    colours: Colours | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """The paper's Figure 1: input, ground truth if given, base prediction, certified segmentation.

    ``x`` is an image (3, height, width) in [0, 1]; ``prediction`` the base
    model's labels without noise; ``target`` the ground truth, negative where it
    is ignored. Abstentions and ignored pixels are white.
    """
    maps = [prediction, certificate.labels] + ([] if target is None else [target])
    classes = max(int(labels.max(initial=0)) for labels in maps) + 1
    table = palette(classes) if colours is None else colours
    abstained = float(certificate.abstained.mean())
    panels: list[tuple[str, Array]] = [("input", np.clip(x.transpose(1, 2, 0), 0, 1))]
    if target is not None:
        panels.append(("ground truth (white: ignored)", colour(np.where(target < 0, ABSTAIN, target), table)))
    panels.append(("base model, no guarantee", colour(prediction, table)))
    panels.append((f"certified, {abstained:.1%} abstained (white)", colour(certificate.labels, table)))
    columns = 2 if len(panels) == 4 else 3
    height, width = prediction.shape
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(12, rows * (12 / columns * height / width + 0.3) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, image) in zip(figure.subplots(rows, columns).flat, panels, strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(title, fontsize=11)
        axes.set_xticks([])
        axes.set_yticks([])
    _legend(figure, table, names, present=np.unique(np.concatenate([labels.ravel() for labels in maps])))
    figure.supxlabel("\n".join(wrap(certificate.claim_about("the coloured pixels"), 150)), fontsize=9)
    return figure


def _legend(figure: Figure, table: Colours, names: Sequence[str], *, present: IntArray) -> None:
    """The names of the classes that are to be seen."""
    handles = [Patch(color=table[c], label=names[c]) for c in present if 0 <= c < len(names)]
    if handles:
        figure.legend(
            handles=handles, loc="outside upper center", ncols=min(len(handles), 10), frameon=False, fontsize=9
        )


def save_labels(labels: IntArray, path: str | os.PathLike[str], *, colours: Colours | None = None) -> None:
    """Labels (height, width) as a PNG with a palette; ABSTAIN is index 255, white. For up to 255 classes."""
    classes = int(labels.max(initial=0)) + 1
    if classes > 255:
        raise InputError(f"a PNG with a palette holds 255 classes and ABSTAIN, but a label is {classes - 1}")
    table = np.ones((256, 3))
    chosen = palette(classes) if colours is None else colours[:255]
    table[: len(chosen)] = chosen
    image = Image.fromarray(np.where(labels == ABSTAIN, 255, labels).astype(np.uint8))
    image.putpalette(np.rint(table * 255).astype(np.uint8).tobytes())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    image.save(path, format="PNG")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure, making its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
