"""Pictures of attacks: the paper's Figure 1 with both base models, and rows of several images."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill, wrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from segcertify.arrays import Array, IntArray
from segcertify.certificate import radius_text
from segcertify.figures.image import (
    add_legend,
    as_rgb,
    class_colours,
    legend_columns,
    panel_figure,
    show_image,
    swatches,
)
from segcertify.figures.palette import TINT, Colours, tinted

if TYPE_CHECKING:
    from segcertify.attacks.comparison import Comparison

BLANK = "nothing is known or promised"
"""What white pixels say."""


def attack_figure(
    x: Array,
    comparison: Comparison,
    *,
    target: IntArray | None = None,
    colours: Colours | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Six panels: attacked image, its change, ground truth or clean labels; both base models attacked; the certificate.

    ``x`` is the image (3, height, width) without attack. Labels tint it; abstentions and ignored
    pixels are white. Made to be read at a width of 800 pixels.
    """
    certificate, attacked, grey = comparison.certificate, comparison.non_robust, x.mean(0)
    maps = [attacked.clean if target is None else target, attacked.labels, comparison.robust.labels, certificate.labels]
    table = class_colours(maps, colours)
    change = attacked.x - x
    factor = 0.5 / max(float(np.abs(change).max()), 1e-9)
    truth = "no attack: the non-robust model" if target is None else "ground truth"
    flips = [f"{each.flipped / each.clean.size:.1%} flipped" for each in (attacked, comparison.robust)]
    beyond = comparison.radius > certificate.radius
    proved = f"certified to {radius_text(certificate.radius, 3)}" if beyond else "certified"
    moved = max(each.smoothed.moved for each in comparison.attacks.values())
    panels = {
        f"attacked image (l2, {radius_text(comparison.radius, 3)})": as_rgb(attacked.x),
        f"what the attack added, {factor:.0f} times": as_rgb(0.5 + factor * change),
        truth: tinted(grey, maps[0], table),
        f"attacked: non-robust, {flips[0]}": tinted(grey, maps[1], table),
        f"attacked: robust base, {flips[1]}": tinted(grey, maps[2], table),
        f"{proved}: {certificate.certified / certificate.N:.1%}, {f'{moved:,}' if moved else 'none'} moved": tinted(
            grey, maps[3], table
        ),
    }
    height, width = certificate.labels.shape
    figure = panel_figure(panels, rows=2, height=2 * (4 * height / width + 0.3) + 1.1)
    for axes, each in zip(figure.axes[3:5], (attacked, comparison.robust), strict=True):
        if each.flipped:
            axes.contour(each.clean != each.labels, levels=[0.5], colors="black", linewidths=1.5)
    handles = swatches(TINT * table + (1 - TINT) * grey.mean(), names, maps, blank=BLANK)
    handles.append(Line2D([], [], color="black", label="around what the attack flipped"))
    add_legend(figure, handles)
    claim = certificate.claim_about("the pixels that are not white in the last panel")
    figure.suptitle("\n".join(wrap(claim, 120)), fontsize=13)
    return figure


@dataclass(frozen=True, eq=False)
class Row:
    """One image under attack: the attacked image (3, height, width) and labels (height, width), negative for none.

    ``captions`` stand below the panels, one for each of `COLUMNS`.
    """

    attacked: Array
    target: IntArray
    non_robust: IntArray
    robust: IntArray
    certified: IntArray
    captions: tuple[str, ...]

    @property
    def maps(self) -> tuple[IntArray, ...]:
        """The labels, in the order of the columns."""
        return self.target, self.non_robust, self.robust, self.certified


COLUMNS = ("attacked image", "ground truth", "attacked: non-robust", "attacked: robust base", "certified")


def rows_figure(rows: Sequence[Row], *, colours: Colours, names: Sequence[str], source: str) -> Figure:
    """A row for each image, a column for each of `COLUMNS`; ``source`` says where the images come from.

    Made to be read at a width of 800 pixels.
    """
    light = float(np.mean([row.attacked.mean() for row in rows]))
    maps = [labels for row in rows for labels in row.maps]
    handles = swatches(TINT * colours + (1 - TINT) * light, names, maps, blank=BLANK)
    width = 12 / len(COLUMNS) - 0.1
    heights = [width * min(1.0, row.target.shape[0] / row.target.shape[1]) + 0.33 for row in rows]
    around = 0.75 + 0.3 * math.ceil(len(handles) / legend_columns(handles))
    figure = Figure(figsize=(12, sum(heights) + around))
    figure.set_layout_engine("constrained", h_pad=0.04, w_pad=0.02, hspace=0, wspace=0)
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), len(COLUMNS), squeeze=False, height_ratios=heights)
    for line, row in zip(grid, rows, strict=True):
        grey = row.attacked.mean(0)
        images = [as_rgb(row.attacked), *(tinted(grey, labels, colours) for labels in row.maps)]
        for axes, image, caption in zip(line, images, row.captions, strict=True):
            show_image(axes, image)
            axes.set_xlabel(fill(caption, 26), fontsize=12, labelpad=3)
    for axes, title in zip(grid[0], COLUMNS, strict=True):
        axes.set_title(title, fontsize=14)
    add_legend(figure, handles, "outside upper center")
    figure.supxlabel(source, fontsize=11)
    return figure


def jpeg(figure: Figure, *, largest: int = 400_000) -> bytes:
    """The figure as a JPEG file of at most so many bytes where a quality of 30 allows it."""
    for quality in range(90, 20, -10):
        content = io.BytesIO()
        figure.savefig(content, format="jpeg", dpi=100, pil_kwargs={"quality": quality, "optimize": True})
        if content.tell() <= largest:
            break
    return content.getvalue()
