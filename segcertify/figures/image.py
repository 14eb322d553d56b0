"""Pictures of certified images: what went in, what the base model says, what is certified."""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from segcertify.arrays import Array, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError
from segcertify.figures.palette import TINT, Colours, colour, palette, tinted
from segcertify.figures.texts import Entry, draw_without_tex, legend_name, named_legend, wrapped
from segcertify.numerals import percent
from segcertify.storage.atomic import write_bytes


def certified_figure(
    x: Array, prediction: IntArray, certificate: Certificate, *, target: IntArray | None = None,
    colours: Colours | None = None, names: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """The paper's Figure 1: input, ground truth if given, base prediction, certified segmentation.

    ``x`` is an image (3, height, width) in [0, 1]; ``prediction`` the base model's labels without noise; ``target``
    the ground truth, negative where it is ignored. Abstentions and ignored pixels are white.
    """
    maps = [prediction, certificate.labels] + ([] if target is None else [target])
    table = class_colours(maps, colours)
    panels = {"input": as_rgb(x)}
    if target is not None:
        panels["ground truth (white: ignored)"] = colour(target, table)
    panels["base model, no guarantee"] = colour(prediction, table)
    abstained = percent(float(certificate.abstained.mean()))
    panels[f"{certificate.claimed.heading}, {abstained} abstained (white)"] = colour(certificate.labels, table)
    rows, columns = (2, 2) if len(panels) == 4 else (1, 3)
    height, width = prediction.shape
    inches = rows * (12 / columns * height / width + 0.3) + 0.4
    figure = panel_figure(panels, rows=rows, height=inches, fontsize=11, pad=0.04167)
    add_upper_legend(figure, swatches(table, names, maps))
    figure.supxlabel(wrapped(certificate.claim_about("the coloured pixels"), 150), fontsize=9)
    return figure


def steps_figure(
    x: Array, noisy: Array, labels: IntArray, certificate: Certificate, *, colours: Colours, names: Sequence[str]
) -> Figure:
    """Four panels: an image (3, height, width), a noisy copy, the model's ``labels`` for the copy, the certificate.

    Labels tint the image, abstentions are white. Made to be read at a width of 800 pixels.
    """
    grey, (height, width), heading = x.mean(0), labels.shape, certificate.claimed.heading
    panels = {
        f"photograph, {height} x {width}": as_rgb(x),
        f"1 of {certificate.n} noisy copies": as_rgb(noisy),
        "the model's labels for it": tinted(grey, labels, colours),
        f"{heading}: {percent(certificate.certified / certificate.N)}": tinted(grey, certificate.labels, colours),
    }
    figure = panel_figure(panels, rows=1, height=3 * height / width + 1.35)
    tints, blank = TINT * colours + (1 - TINT) * grey.mean(), "abstained: nothing is promised here"
    add_legend(figure, swatches(tints, names, [labels, certificate.labels], blank=blank))
    figure.suptitle(wrapped(certificate.claim_about("the pixels that are not white"), 120), fontsize=13)
    return figure


def as_rgb(x: Array) -> Array:
    """An image (3, height, width) as matplotlib shows it: (height, width, 3) in [0, 1]."""
    return np.clip(x.transpose(1, 2, 0), 0, 1)


def class_colours(maps: Sequence[IntArray], colours: Colours | None) -> Colours:
    """``colours``, or by default a palette for all classes of some label maps."""
    return palette(max(int(labels.max(initial=0)) for labels in maps) + 1) if colours is None else colours


def panel_figure(
    panels: Mapping[str, Array], *, rows: int, height: float, fontsize: float = 14, pad: float = 0.08
) -> Figure:
    """Images under their titles, in ``rows`` rows; 12 inches wide and ``height`` inches high."""
    figure = Figure(figsize=(12, height))
    figure.set_layout_engine("constrained", h_pad=pad)
    FigureCanvasAgg(figure)
    for axes, (title, image) in zip(
        figure.subplots(rows, len(panels) // rows, squeeze=False).flat, panels.items(), strict=True
    ):
        axes.imshow(image, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=fontsize)
    return figure


def swatches(table: Colours, names: Sequence[str], maps: Sequence[IntArray], *, blank: str = "") -> list[Entry]:
    """A patch for each class that some label maps hold and that has a name; ``blank`` names what is white."""
    present = np.unique(np.concatenate([labels.ravel() for labels in maps]))
    named = [(tuple(table[c]), names[c]) for c in present if 0 <= c < len(names)]
    named += [((1.0, 1.0, 1.0), blank)] if blank else []
    return [(name, Patch(facecolor=face, edgecolor="black" if blank else face)) for face, name in named]


def add_upper_legend(figure: Figure, handles: Sequence[Entry]) -> None:
    """A small legend above, in at most ten columns; none without entries."""
    if handles:
        longest = max(len(legend_name(name)) for name, _ in handles)
        columns = min(len(handles), 10, max(1, 160 // (longest + 6)))
        named_legend(figure, handles, loc="outside upper center", columns=columns, fontsize=9)


def add_legend(figure: Figure, handles: Sequence[Entry]) -> None:
    """A legend below, in as many columns as fit into the figure's 12 inches; it fills them one after the other."""
    lengths = [len(legend_name(name)) for name, _ in handles]

    def inches(columns: int) -> float:
        return sum(0.93 + 0.113 * int(column.max()) for column in np.array_split(lengths, columns))

    columns = max((count for count in range(2, len(handles) + 1) if inches(count) <= 12), default=1)
    named_legend(figure, handles, loc="outside lower center", columns=columns, fontsize=14)


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
