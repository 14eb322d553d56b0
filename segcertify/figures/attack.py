"""The picture of a comparison: the paper's Figure 1 with both base models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from segcertify.arrays import Array, IntArray
from segcertify.figures.image import add_legend, as_rgb, class_colours, panel_figure, swatches
from segcertify.figures.palette import TINT, Colours, tinted
from segcertify.figures.texts import wrapped
from segcertify.numerals import percent, radius_text

if TYPE_CHECKING:
    from segcertify.attacks.comparison import Comparison

BLANK = "nothing is known or promised"  # what white pixels say


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
    flips = [f"{percent(each.flipped / each.clean.size)} flipped" for each in (attacked, comparison.robust)]
    beyond = certificate.claimed.certifies and comparison.radius > certificate.radius
    proved = f"certified to {radius_text(certificate.radius, 3)}" if beyond else certificate.claimed.heading
    moved = max(each.smoothed.moved for each in comparison.attacks.values())
    kept = f"{proved}: {percent(certificate.certified / certificate.N)}, {f'{moved:,}' if moved else 'none'} moved"
    panels = {
        f"attacked image (l2, {radius_text(comparison.radius, 3)})": as_rgb(attacked.x),
        f"what the attack added, {factor:.0f} times": as_rgb(0.5 + factor * change),
        truth: tinted(grey, maps[0], table),
        f"attacked: non-robust, {flips[0]}": tinted(grey, maps[1], table),
        f"attacked: robust base, {flips[1]}": tinted(grey, maps[2], table),
        kept: tinted(grey, maps[3], table),
    }
    height, width = certificate.labels.shape
    figure = panel_figure(panels, rows=2, height=2 * (4 * height / width + 0.3) + 1.1)
    for axes, each in zip(figure.axes[3:5], (attacked, comparison.robust), strict=True):
        if each.flipped:
            axes.contour(each.clean != each.labels, levels=[0.5], colors="black", linewidths=1.5)
    handles = swatches(TINT * table + (1 - TINT) * grey.mean(), names, maps, blank=BLANK)
    handles.append(("around what the attack flipped", Line2D([], [], color="black")))
    add_legend(figure, handles)
    claim = certificate.claim_about("the pixels that are not white in the last panel")
    figure.suptitle(wrapped(claim, 120), fontsize=13)
    return figure
