"""The picture of images under attack: a row for each image."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.figures.painting import TINT, blanked, painted

COLUMNS = {
    "attacked": "attacked image",
    "target": "ground truth",
    "non_robust": "attacked: non-robust",
    "robust": "attacked: robust base",
    "certified": "certified",
}
"""The arrays of an image, and the heads of their columns."""

Row = tuple[Mapping[str, np.ndarray], Sequence[str]]
"""The arrays (the image as bytes, the rest labels) and a caption for each column."""


def rows_figure(rows: Sequence[Row], *, colours: Any, names: Sequence[str], source: str) -> Figure:
    """A row for each image; ``source`` says where the images come from. Made to be read at a width of 800 pixels."""
    labels = [name for name in COLUMNS if name != "attacked"]
    present = np.unique(np.concatenate([arrays[name].ravel() for arrays, _ in rows for name in labels]))
    light = np.mean([arrays["attacked"].mean() for arrays, _ in rows]) / 255
    shown = {names[c]: tuple(TINT * colours[c] + (1 - TINT) * light) for c in present if 0 <= c < len(names)}
    shown["nothing is known or promised"] = "white"
    handles = [Patch(facecolor=colour, edgecolor="black", label=name) for name, colour in shown.items()]
    ratios = [min(1.0, arrays["target"].shape[0] / arrays["target"].shape[1]) for arrays, _ in rows]
    heights = [(12 / len(COLUMNS) - 0.1) * ratio + 0.33 for ratio in ratios]
    figure = Figure(figsize=(12, sum(heights) + 0.75 + 0.3 * -(-len(handles) // 5)))
    figure.set_layout_engine("constrained", h_pad=0.04, w_pad=0.02, hspace=0, wspace=0)
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), len(COLUMNS), squeeze=False, height_ratios=heights)
    for line, (arrays, captions) in zip(grid, rows, strict=True):
        photograph = arrays["attacked"].transpose(1, 2, 0) / 255
        maps = {name: blanked(arrays[name], arrays[name] >= 0) for name in labels}
        panels = [photograph, *(painted(photograph.mean(-1), each, colours) for each in maps.values())]
        for axes, panel, caption in zip(line, panels, captions, strict=True):
            axes.imshow(panel)
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(fill(caption, 26), fontsize=12, labelpad=3)
    for axes, title in zip(grid[0], COLUMNS.values(), strict=True):
        axes.set_title(title, fontsize=14)
    figure.legend(handles=handles, loc="outside upper center", ncols=min(5, len(handles)), frameon=False, fontsize=13)
    figure.supxlabel(source, fontsize=11)
    return figure


def jpeg(figure: Figure, *, largest: int = 400_000) -> bytes:
    """The figure as a JPEG file of at most ``largest`` bytes, if a quality of 30 allows it."""
    for quality in range(90, 20, -10):
        content = io.BytesIO()
        figure.savefig(content, format="jpeg", dpi=100, pil_kwargs={"quality": quality, "optimize": True})
        if content.tell() <= largest:
            break
    return content.getvalue()
