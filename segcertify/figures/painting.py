"""Labels painted on a photograph, in the one style of all pictures. Loads no matplotlib.

A label's colour tints the photograph. Where a model abstained it is hatched, where nothing was asked or is known it is
blank, and what is certified but wrong is outlined.
"""

import numpy as np

from segcertify.arrays import Array, BoolArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.figures.palette import Colours

BLANK = -2
"""In a map of labels: nothing was asked, or the ground truth says nothing. `ABSTAIN` is hatched."""
TINT = 0.7
"""How much of a label's colour covers a photograph."""
WRONG = (1.0, 0.0, 200 / 255)
"""The outline of what is certified but wrong."""
DARK, LIGHT = 0.1, 1.0
"""The greys of a hatch: thin dark lines on white."""
SIDE = 600
"""Pictures with fewer pixels along both sides are enlarged up to so many, so that hatches and outlines are fine."""


def blanked(labels: IntArray, asked: BoolArray) -> IntArray:
    """Labels that are `BLANK` where nothing was asked."""
    return np.where(asked, labels, BLANK)


def painted(
    photo: Array | None, labels: IntArray, colours: Colours, *, wrong: BoolArray | None = None, side: int = SIDE,
    tint: float = TINT,
) -> Colours:  # fmt: skip
    """An RGB image of labels (height, width) over a photograph (height, width) or (height, width, 3), in [0, 1].

    Without a photograph labels stand alone. It is enlarged by whole numbers, up to ``side`` pixels. ``wrong`` (height,
    width) is outlined.
    """
    times = max(1, side // max(labels.shape))
    labels = _enlarged(labels, times)
    paint = hatched(colours[np.maximum(labels, 0)], labels == ABSTAIN)
    if photo is not None:
        below = photo if photo.ndim == 3 else photo[..., None]
        paint = tint * paint + (1 - tint) * _enlarged(below, times)
    paint[labels < ABSTAIN] = 1.0
    if wrong is not None:
        paint[rim(_enlarged(wrong, times), max(1, times // 2))] = WRONG
    return paint


def hatched(picture: Colours, where: BoolArray) -> Colours:
    """A picture (height, width, 3) with thin dark lines on white in some places."""
    rows, columns = np.indices(where.shape, np.int32)
    period = max(6, max(where.shape) // 60)
    lines = np.where((rows + columns) % period < max(1, period // 5), DARK, LIGHT)
    return np.where(where[..., None], lines[..., None], picture)


def rim(inside: BoolArray, width: int = 1) -> BoolArray:
    """The pixels of a set that are at most ``width`` from others along a row or a column."""
    kept = inside
    for _ in range(width):
        padded = np.pad(kept, 1)
        kept = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(inside & ~kept)


def _enlarged(image: Array, times: int) -> Array:
    return image if times == 1 else image.repeat(times, 0).repeat(times, 1)
