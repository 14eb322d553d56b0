"""The demo's picture: from a photograph over a noisy copy and the model's labels to the certified labels."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.figures.image import Colours, tinted


def steps_figure(
    x: Array, noisy: Array, labels: IntArray, certificate: Certificate, *, colours: Colours, names: Sequence[str]
) -> Figure:
    """Four panels: an image (3, height, width), a noisy copy, the model's ``labels`` for the copy, the certificate.

    Labels tint the image, abstentions are white. Made to be read at a width of 800 pixels.
    """
    grey, (height, width) = x.mean(0), labels.shape
    panels = {
        f"photograph, {height} x {width}": np.clip(x.transpose(1, 2, 0), 0, 1),
        f"1 of {certificate.n} noisy copies": np.clip(noisy.transpose(1, 2, 0), 0, 1),
        "the model's labels for it": tinted(grey, labels, colours),
        f"certified: {certificate.certified / certificate.N:.1%}": tinted(grey, certificate.labels, colours),
    }
    figure = Figure(figsize=(12, 3 * height / width + 1.35))
    figure.set_layout_engine("constrained", h_pad=0.08)
    FigureCanvasAgg(figure)
    for axes, (title, image) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(title, fontsize=14)
        axes.set_xticks([])
        axes.set_yticks([])
    swatches = tinted(np.full(len(names), grey.mean()), np.arange(len(names)), colours)
    _legend(figure, swatches, names, present=np.union1d(labels, certificate.labels))
    figure.suptitle("\n".join(wrap(certificate.claim_about("the pixels that are not white"), 120)), fontsize=13)
    return figure


def _legend(figure: Figure, table: Colours, names: Sequence[str], *, present: IntArray) -> None:
    """The names of the classes that are to be seen, and of the abstentions."""
    handles = [Patch(facecolor=to_hex(table[c]), edgecolor="black", label=names[c]) for c in present if c != ABSTAIN]
    handles.append(Patch(facecolor="white", edgecolor="black", label="abstained: nothing is promised here"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=14)
