"""Pictures of certified volumes: the middle slices along the three axes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from segcertify.arrays import Array, FloatArray, IntArray
from segcertify.certificate import Certificate
from segcertify.errors import InputError
from segcertify.figures.image import add_upper_legend, class_colours, panel_figure, swatches
from segcertify.figures.palette import TINT, Colours, tinted
from segcertify.figures.texts import wrapped
from segcertify.numerals import percent


def slices_figure(
    x: Array | None, prediction: IntArray | None, certificate: Certificate, *, target: IntArray | None = None,
    colours: Colours | None = None, names: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """Three rows, one for each axis: its middle slice, ground truth and base prediction if given, certified labels.

    ``x`` is a volume (channels, depth, height, width), shown in grey; without it (None) labels stand alone.
    ``prediction`` are the base model's labels without noise, ``target`` is the ground truth, negative where it is
    ignored. Abstentions and ignored voxels are white. Voxels are as wide and as high as the certificate's
    pre-processing says (`segcertify.preprocessing.of_volume`).
    """
    shape = certificate.labels.shape
    if x is not None and (x.ndim != 4 or x.shape[1:] != shape):
        raise InputError(f"a volume (channels, depth, height, width) has voxels {shape} here, but x is {x.shape}")
    abstained = percent(float(certificate.abstained.mean()))
    maps = {
        "ground truth (white: ignored)": target,
        "base model, no guarantee": prediction,
        f"{certificate.claimed.heading}, {abstained} abstained (white)": certificate.labels,
    }
    shown, grey = {title: labels for title, labels in maps.items() if labels is not None}, as_grey(x, shape)
    table = class_colours([*shown.values()], colours)
    spacing = (certificate.preprocessing or {}).get("spacing") or [1.0, 1.0, 1.0]
    columns = shown if x is None else {"input": None, **shown}
    figure = _slices(grey, columns, table, [float(side) for side in spacing])
    names = names or [f"class {number}" for number in range(len(table))]
    handles = swatches(TINT * table + (1 - TINT) * float(grey.mean()), names, [*shown.values()])
    add_upper_legend(figure, handles)
    figure.supxlabel(wrapped(certificate.claim_about("the coloured voxels"), 150), fontsize=9)
    return figure


def as_grey(x: Array | None, shape: tuple[int, ...]) -> FloatArray:
    """A volume in grey: each channel black up to its 1st percentile, white from its 99th, and their mean."""
    if x is None:
        return np.full(shape, 0.5)
    axes = tuple(range(1, x.ndim))
    low, high = np.percentile(x, [1, 99], axis=axes, keepdims=True)
    return np.asarray(np.clip((x - low) / np.maximum(high - low, 1e-12), 0, 1).mean(0))


def _slices(
    grey: FloatArray, columns: Mapping[str, IntArray | None], table: Colours, spacing: Sequence[float]
) -> Figure:  # fmt: skip
    """The panels: a row for each axis, whose middle slice it shows, a column for each map; None is the input itself."""
    panels, aspects, high = dict[str, Array](), list[float](), 0.0
    for axis in range(3):
        middle, (down, right) = grey.shape[axis] // 2, [each for each in range(3) if each != axis]
        pixels = grey.take(middle, axis)
        for title, labels in columns.items():
            plain = np.repeat(pixels[..., None], 3, axis=2)
            panels[f"{title} {axis}"] = plain if labels is None else tinted(pixels, labels.take(middle, axis), table)
        aspects.append(spacing[down] / spacing[right])
        high += min(1.2, aspects[-1] * pixels.shape[0] / pixels.shape[1])
    width = min(4.0, 12 / len(columns))
    figure = panel_figure(panels, rows=3, height=width * high + 1.6, fontsize=10)
    figure.set_figwidth(max(6.0, width * len(columns)))
    for index, axes in enumerate(figure.axes):
        axis, column = divmod(index, len(columns))
        axes.set_aspect(aspects[axis])
        axes.set_title([*columns][column] if axis == 0 else "", fontsize=10)
        if not column:
            axes.set_ylabel(f"axis {axis + 1}, slice {grey.shape[axis] // 2} of {grey.shape[axis]}", fontsize=9)
    return figure
