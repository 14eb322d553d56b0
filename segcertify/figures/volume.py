"""Pictures of certified volumes: the middle slices along the three axes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from segcertify.arrays import Array, FloatArray, IntArray
from segcertify.certificate import Certificate
from segcertify.errors import InputError
from segcertify.figures.palette import Colours
from segcertify.figures.panels import LabelMaps, show
from segcertify.figures.texts import tell


def slices_figure(
    x: Array | None, prediction: IntArray | None, certificate: Certificate, *, target: IntArray | None = None,
    colours: Colours | None = None, names: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """Three rows, one for each axis: its middle slice, ground truth and base prediction if given, certified labels.

    ``x`` is a volume (channels, depth, height, width), shown in grey; without it (None) labels stand alone.
    ``prediction`` are the base model's labels without noise, ``target`` is the ground truth, negative where it is
    ignored. Voxels are as wide and as high as the certificate's pre-processing says
    (`segcertify.preprocessing.of_volume`).
    """
    shape = certificate.labels.shape
    if x is not None and (x.ndim != 4 or x.shape[1:] != shape):
        raise InputError(f"a volume (channels, depth, height, width) has voxels {shape} here, but x is {x.shape}")
    shown = LabelMaps.of(certificate, prediction=prediction, target=target, colours=colours, names=names).numbered
    spacing, grey = (certificate.preprocessing or {}).get("spacing") or [1.0, 1.0, 1.0], as_grey(x, shape)
    figure = _slices(grey, shown, [float(side) for side in spacing], with_input=x is not None)
    claim = certificate.claim_about("the coloured voxels")
    tell(figure, shown.entries(float(grey.mean())), said=certificate.sentence, exact=claim)
    return figure


def as_grey(x: Array | None, shape: tuple[int, ...]) -> FloatArray:
    """A volume in grey: each channel black up to its 1st percentile, white from its 99th, and their mean."""
    if x is None:
        return np.full(shape, 0.5)
    axes = tuple(range(1, x.ndim))
    low, high = np.percentile(x, [1, 99], axis=axes, keepdims=True)
    return np.asarray(np.clip((x - low) / np.maximum(high - low, 1e-12), 0, 1).mean(0))


def _slices(grey: FloatArray, shown: LabelMaps, spacing: Sequence[float], *, with_input: bool) -> Figure:
    """The panels: a row for each axis, whose middle slice it shows, a column for the input and each map of labels."""
    heads = (["input"] if with_input else []) + [*shown.maps]
    width = min(4.0, 12 / len(heads))
    down, right = ([[1, 0, 0], [2, 2, 1]][side] for side in (0, 1))
    sizes = [(spacing[a] * grey.shape[a], spacing[b] * grey.shape[b]) for a, b in zip(down, right, strict=True)]
    heights = [width * min(1.2, high / wide) for high, wide in sizes]
    figure = Figure(figsize=(max(6.0, width * len(heads)), sum(heights) + 0.6))
    figure.set_layout_engine("constrained", h_pad=0.05, w_pad=0.05)
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(heads), squeeze=False, height_ratios=heights)
    for axis, row in enumerate(grid):
        middle = grey.shape[axis] // 2
        pixels = grey.take(middle, axis)
        panels = ({"input": np.repeat(pixels[..., None], 3, axis=2)} if with_input else {}) | shown.taken(
            middle, axis
        ).painted(pixels)
        for axes, (title, image) in zip(row, panels.items(), strict=True):
            show(axes, image, pixels.shape)
            axes.set_aspect(spacing[down[axis]] / spacing[right[axis]])
            axes.set_title(title if axis == 0 else "", fontsize=10)
        row[0].set_ylabel(f"axis {axis + 1}, slice {middle} of {grey.shape[axis]}", fontsize=9)
    return figure
