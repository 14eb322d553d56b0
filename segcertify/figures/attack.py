"""The picture of a comparison: the paper's Figure 1 with both base models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from segcertify.arrays import Array, IntArray
from segcertify.figures.painting import blanked
from segcertify.figures.palette import Colours
from segcertify.figures.panels import LabelMaps, as_rgb, panel_figure
from segcertify.figures.texts import tell
from segcertify.numerals import percent, radius_text

if TYPE_CHECKING:
    from segcertify.attacks.comparison import Comparison


def attack_figure(
    x: Array,
    comparison: Comparison,
    *,
    target: IntArray | None = None,
    colours: Colours | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Six panels: attacked image, its change, ground truth or clean labels; both base models attacked; the certificate.

    ``x`` is the image (3, height, width) without attack. Made to be read at a width of 800 pixels.
    """
    certificate, attacked, robust = comparison.certificate, comparison.non_robust, comparison.robust
    change = attacked.x - x
    factor = 0.5 / max(float(np.abs(change).max()), 1e-9)
    flips = [f"{percent(each.flipped / each.clean.size)} flipped" for each in (attacked, robust)]
    beyond = certificate.claimed.certifies and comparison.radius > certificate.radius
    proved = f"certified to {radius_text(certificate.radius, 3)}" if beyond else certificate.claimed.heading
    moved = max(each.smoothed.moved for each in comparison.attacks.values())
    kept = f"{proved}: {percent(certificate.certified / certificate.N)}, {f'{moved:,}' if moved else 'none'} moved"
    first = {"no attack: the non-robust model": attacked.clean}
    if target is not None:
        first = {"ground truth": blanked(target, target >= 0)}
    maps = first | {
        f"attacked: non-robust, {flips[0]}": attacked.labels,
        f"attacked: robust base, {flips[1]}": robust.labels,
        kept: certificate.labels,
    }
    shown = LabelMaps(maps, colours, names)
    panels = {
        f"attacked image (l2, {radius_text(comparison.radius, 3)})": as_rgb(attacked.x),
        f"what the attack added, {factor:.0f} times": as_rgb(0.5 + factor * change),
    }
    figure = panel_figure(panels | shown.painted(x.mean(0)), certificate.labels.shape, rows=2, fontsize=14)
    shown.name_regions(figure.axes[2:])
    for axes, each in zip(figure.axes[3:5], (attacked, robust), strict=True):
        if each.flipped:
            axes.contour(each.clean != each.labels, levels=[0.5], colors="black", linewidths=1.5)
    entries = [*shown.entries(float(x.mean())), ("around what the attack flipped", Line2D([], [], color="black"))]
    claim = certificate.claim_about("the coloured pixels of the last panel")
    tell(figure, entries, said=certificate.sentence, exact=claim, fontsize=13)
    return figure
