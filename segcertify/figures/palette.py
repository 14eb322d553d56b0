"""Colours of classes, and labels as colours. Loads no matplotlib: data sets take their colours from here."""

import colorsys
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from segcertify.arrays import IntArray

Colours = npt.NDArray[np.float64]
"""Colours (classes, 3) in [0, 1]."""
ColoursOf = Literal["own", "data"]
"""Whose colours a picture has: our own palette's, or those of the data set or of the model's card."""
Bytes = npt.NDArray[np.uint8]
"""Colours (classes, 3) in 0 .. 255."""

_OWN = [
    list(bytes.fromhex(code))
    for code in [
        "4477AA", "EE6677", "228833", "CCBB44", "66CCEE", "AA3377", "00CCAB", "0000ED", "660000", "006645",
        "214545", "87EDAB", "ED2100", "6687ED", "CC6687", "876666", "AB0000", "87CCCC", "8721AB", "660066",
    ]
]  # fmt: skip
"""Paul Tol's bright scheme, then those that differ most from all before, and from a picture's marks, for every reader.

With normal sight, without red and without green receptors any two of the first 11 have a CIEDE2000 difference of at
least 14, any two of all 20 one of 9. In CamVid's own colours building and pedestrian are 3 apart.
"""


def palette(classes: int) -> Colours:
    """A colour for each class (classes, 3): 20 that colour-blind readers tell apart, then spread hues. Never white."""
    more = [colorsys.hsv_to_rgb(0.618034 * i % 1, 0.55, 0.5 + 0.35 * (i % 2)) for i in range(classes - len(_OWN))]
    return np.concatenate([np.array(_OWN) / 255, np.array(more).reshape(-1, 3)])[:classes]


def voc_colours(classes: int) -> Bytes:
    """The PASCAL VOC development kit's colours (classes, 3): the bits of the number, spread over three channels.

    >>> voc_colours(4).tolist()
    [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    """
    number = np.arange(classes)[:, None] >> np.arange(3)  # bit 0, 3, 6 make red; 1, 4, 7 green; 2, 5, 8 blue
    return sum(((number >> 3 * bit & 1) << 7 - bit for bit in range(3)), np.zeros((classes, 3), int)).astype(np.uint8)


def part_colours(categories: Iterable[tuple[int, ...]]) -> Bytes:
    """Colours for the parts of several categories, of ten parts at most: each category starts with the first colour.

    >>> part_colours([(0, 1), (2, 3, 4)]).tolist()[::2]
    [[68, 119, 170], [68, 119, 170], [34, 136, 51]]
    """
    numbered = {part: _OWN[index] for parts in categories for index, part in enumerate(parts)}
    return np.array([numbered[part] for part in sorted(numbered)], np.uint8)


def colour(labels: IntArray, colours: Colours | None = None) -> Colours:
    """Labels (height, width) as an RGB image, white where they are negative: abstentions, or no ground truth."""
    table = palette(int(labels.max(initial=0)) + 1) if colours is None else colours
    return np.where((labels < 0)[..., None], 1.0, table[np.maximum(labels, 0)])
