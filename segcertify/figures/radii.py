"""Pictures of radius maps: how far each pixel's label is certified."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from segcertify.arrays import Array
from segcertify.figures.image import add_upper_legend, as_rgb, class_colours, panel_figure, swatches
from segcertify.figures.palette import Colours, colour
from segcertify.figures.texts import wrapped
from segcertify.noise import is_proven
from segcertify.numerals import percent
from segcertify.radii import RadiusMap


def radii_figure(
    x: Array | None, found: RadiusMap, *, colours: Colours | None = None, names: Sequence[str] = ()
) -> Figure:  # fmt: skip
    """An image (3, height, width) if given, its certified labels, and their radii with a bar, above the claim."""
    table = class_colours([found.labels], colours)
    share, proof = percent(found.certified / found.N), "" if is_proven(found.noise) else " without a proof"
    panels = ({} if x is None else {"input": as_rgb(x)}) | {
        f"labels with a radius above 0: {share}": colour(found.labels, table),
        f"radius{proof} ({found.noise.threat(found.norm)})": np.zeros((*found.labels.shape, 3)),
    }
    height, width = found.labels.shape
    figure = panel_figure(panels, rows=1, height=12 / len(panels) * height / width + 1.9, fontsize=10)
    axes = figure.axes[-1]
    shown = axes.imshow(found.radii, vmin=0, vmax=found.radius or 1.0, cmap="viridis", interpolation="nearest")
    figure.colorbar(shown, ax=axes, shrink=0.8)
    add_upper_legend(figure, swatches(table, names, [found.labels], blank="nothing is certified here"))
    figure.supxlabel(wrapped(found.claim, 150), fontsize=9)
    return figure
