"""Pictures of radius maps: how far each pixel's label is certified."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from segcertify.arrays import Array
from segcertify.figures.palette import Colours
from segcertify.figures.panels import LabelMaps, as_rgb, panel_figure
from segcertify.figures.texts import tell
from segcertify.noise import is_proven
from segcertify.numerals import percent
from segcertify.radii import RadiusMap


def radii_figure(
    x: Array | None, found: RadiusMap, *, colours: Colours | None = None, names: Sequence[str] = ()
) -> Figure:  # fmt: skip
    """An image (3, height, width) if given, its certified labels, and their radii with a bar, above the claim."""
    share, proof = percent(found.certified / found.N), "" if is_proven(found.noise) else " without a proof"
    shown = LabelMaps({f"labels with a radius above 0: {share}": found.labels}, colours, names)
    panels = {"input": as_rgb(x)} if x is not None else {}
    panels |= shown.painted(None if x is None else x.mean(0))
    panels[f"radius{proof} ({found.noise.threat(found.norm)})"] = np.zeros((*found.labels.shape, 3))
    figure = panel_figure(panels, found.labels.shape, rows=1, fontsize=10)
    shown.name_regions(figure.axes[-2:-1])
    axes = figure.axes[-1]
    scale = axes.imshow(found.radii, vmin=0, vmax=found.radius or 1.0, cmap="viridis", interpolation="nearest")
    figure.colorbar(scale, ax=axes, shrink=0.8)
    light = None if x is None else float(x.mean())
    tell(figure, shown.entries(light, abstained="nothing is certified here"), said=found.sentence, exact=found.claim)
    return figure
