"""Pictures of certified images: what went in, what the base model says, what is certified."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError
from segcertify.figures.palette import Colours, palette
from segcertify.figures.panels import LabelMaps, as_rgb, heading, panel_figure
from segcertify.figures.texts import draw_without_tex, tell
from segcertify.storage.atomic import write_bytes


def certified_figure(
    x: Array, prediction: IntArray, certificate: Certificate, *, target: IntArray | None = None,
    colours: Colours | None = None, names: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """The paper's Figure 1: input, ground truth if given, base prediction, certified segmentation.

    ``x`` is an image (3, height, width) in [0, 1]; ``prediction`` the base model's labels without noise; ``target``
    the ground truth, negative where it is ignored.
    """
    shown = LabelMaps.of(certificate, prediction=prediction, target=target, colours=colours, names=names)
    photo, panels = as_rgb(x), {"input": as_rgb(x)} | shown.painted(x.mean(0))
    figure = panel_figure(panels, photo.shape[:2], rows=2 if len(panels) == 4 else 1)
    shown.name_regions(figure.axes[1:])
    claim = certificate.claim_about("the coloured pixels")
    tell(figure, shown.entries(float(photo.mean())), said=certificate.sentence, exact=claim)
    return figure


def steps_figure(
    x: Array,
    noisy: Array,
    labels: IntArray,
    certificate: Certificate,
    *,
    colours: Colours | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Four panels: an image (3, height, width), a noisy copy, the model's ``labels`` for the copy, the certificate.

    Made to be read at a width of 800 pixels.
    """
    height, width = labels.shape
    maps = {"the model's labels for it": labels, heading(certificate): certificate.labels}
    shown = LabelMaps(maps, colours, names)
    panels = {f"photograph, {height} x {width}": as_rgb(x), f"1 of {certificate.n} noisy copies": as_rgb(noisy)}
    figure = panel_figure(panels | shown.painted(x.mean(0)), labels.shape, rows=1, fontsize=14)
    claim = certificate.claim_about("the coloured pixels")
    tell(figure, shown.entries(float(x.mean())), said=certificate.sentence, exact=claim, fontsize=14)
    return figure


def save_labels(
    labels: IntArray, path: str | os.PathLike[str], *, colours: Colours | None = None, size: Sequence[int] | None = None
) -> None:
    """Labels (height, width) as a PNG with a palette; ABSTAIN is index 255, white.

    Where a label is above 254, as a PNG of 16 bits without colours; ABSTAIN is then 65535. ``size``, (height, width),
    enlarges it: each pixel gets the label of the nearest component.
    """
    largest = int(labels.max(initial=0))
    if largest > 65534:
        raise InputError(f"a PNG of 16 bits holds the labels 0 to 65534 and ABSTAIN, but a label is {largest}")
    wide = largest > 254
    image = Image.fromarray(np.where(labels == ABSTAIN, 65535 if wide else 255, labels).astype("u2" if wide else "u1"))
    if not wide:
        table = np.ones((256, 3))
        chosen = palette(largest + 1) if colours is None else colours[:255]
        table[: len(chosen)] = chosen
        image.putpalette(np.rint(table * 255).astype(np.uint8).tobytes())
    if size is not None:
        image = image.resize((size[1], size[0]), Image.Resampling.NEAREST)
    image.save(content := io.BytesIO(), format="PNG")
    write_bytes(path, content.getvalue())


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure, making its folder: a PNG, or what the path ends in."""
    draw_without_tex(figure, content := io.BytesIO(), Path(path).suffix[1:] or "png")
    write_bytes(path, content.getvalue())
