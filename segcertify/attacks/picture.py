"""The picture of a comparison: the paper's Figure 1 with both base models."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from segcertify.arrays import Array, IntArray
from segcertify.attacks.comparison import Comparison
from segcertify.certificate import radius_text
from segcertify.pictures import TINT, Colours, palette, tinted


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
    classes = max(int(labels.max(initial=0)) for labels in maps) + 1
    table = palette(classes) if colours is None else colours
    change = attacked.x - x
    factor = 0.5 / max(float(np.abs(change).max()), 1e-9)
    truth = "no attack: the non-robust model" if target is None else "ground truth"
    flips = [f"{each.flipped / each.clean.size:.1%} flipped" for each in (attacked, comparison.robust)]
    beyond = comparison.radius > certificate.radius
    proved = f"certified to {radius_text(certificate.radius, 3)}" if beyond else "certified"
    moved = max(each.smoothed.moved for each in comparison.attacks.values())
    panels = {
        f"attacked image (l2, {radius_text(comparison.radius, 3)})": np.clip(attacked.x.transpose(1, 2, 0), 0, 1),
        f"what the attack added, {factor:.0f} times": np.clip(0.5 + factor * change.transpose(1, 2, 0), 0, 1),
        truth: tinted(grey, maps[0], table),
        f"attacked: non-robust, {flips[0]}": tinted(grey, maps[1], table),
        f"attacked: robust base, {flips[1]}": tinted(grey, maps[2], table),
        f"{proved}: {certificate.certified / certificate.N:.1%}, {f'{moved:,}' if moved else 'none'} moved": tinted(
            grey, maps[3], table
        ),
    }
    height, width = certificate.labels.shape
    figure = Figure(figsize=(12, 2 * (4 * height / width + 0.3) + 1.1))
    figure.set_layout_engine("constrained", h_pad=0.08)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, 3)
    for axes, (title, image) in zip(grid.flat, panels.items(), strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(title, fontsize=14)
        axes.set_xticks([])
        axes.set_yticks([])
    for axes, each in zip(grid[1, :2], (attacked, comparison.robust), strict=True):
        if each.flipped:
            axes.contour(each.clean != each.labels, levels=[0.5], colors="black", linewidths=1.5)
    _legend(figure, TINT * table + (1 - TINT) * grey.mean(), names, present=np.unique(np.stack(maps)))
    claim = certificate.claim_about("the pixels that are not white in the last panel")
    figure.suptitle("\n".join(wrap(claim, 120)), fontsize=13)
    return figure


def _legend(figure: Figure, table: Colours, names: Sequence[str], *, present: IntArray) -> None:
    """The names of the classes that are to be seen, and of the abstentions."""
    shown = [c for c in present if 0 <= c < len(names)]
    handles: list[Artist] = [Patch(facecolor=tuple(table[c]), edgecolor="black", label=names[c]) for c in shown]
    handles.append(Patch(facecolor="white", edgecolor="black", label="nothing is known or promised"))
    handles.append(Line2D([], [], color="black", label="around what the attack flipped"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 8), frameon=False, fontsize=14)
