"""Colours of classes, where a data set has none of its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_BRIGHT = ("4477AA", "EE6677", "228833", "CCBB44", "66CCEE", "AA3377")
"""Paul Tol's bright scheme, which colour-blind readers can tell apart."""


def voc_colours(classes: int) -> Bytes:
    """The PASCAL VOC development kit's colours (classes, 3): the bits of the number, spread over three channels.

    >>> voc_colours(4).tolist()
    [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    """
    number = np.arange(classes)[:, None] >> np.arange(3)  # bit 0, 3, 6 make red; 1, 4, 7 green; 2, 5, 8 blue
    return sum(((number >> 3 * bit & 1) << 7 - bit for bit in range(3)), np.zeros((classes, 3), int)).astype(np.uint8)


def part_colours(categories: Iterable[tuple[int, ...]]) -> Bytes:
    """Colours for the parts of several categories, of six parts at most: each category starts again with the first.

    >>> part_colours([(0, 1), (2, 3, 4)]).tolist()[::2]
    [[68, 119, 170], [68, 119, 170], [34, 136, 51]]
    """
    numbered = {part: _BRIGHT[place] for parts in categories for place, part in enumerate(parts)}
    return np.array([list(bytes.fromhex(numbered[part])) for part in sorted(numbered)], np.uint8)
