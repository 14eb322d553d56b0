"""Chunks: passes of NumPy over large arrays, a chunk for each of a few threads. NumPy's own loops run side by side."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from segcertify.arrays import Array, IntArray

T = TypeVar("T")

LEAST = 2**18
"""The fewest components for which threads are worth their start; fewer are one chunk, in the caller's thread."""
THREADS = 4
"""The most threads: more hardly read memory faster."""


def by_chunks(function: Callable[..., T], *arrays: Array) -> list[T]:
    """What a function gives for each chunk of arrays of one shape, in order.

    It gets matching chunks of them, flat, and may write to those of an array that is contiguous. It must not call
    `by_chunks` itself.

    >>> by_chunks(lambda a, b: int(a @ b), np.array([[1, 2], [3, 4]]), np.array([[1, 1], [0, 2]]))
    [11]
    """
    rows = [_row(array) for array in arrays]
    size = rows[0].size
    count = min(THREADS, cores()) if size >= LEAST else 1
    if count == 1:
        return [function(*rows)]
    step = -(-size // count)
    chunks = ([row[start : start + step] for row in rows] for start in range(0, size, step))
    return list(_threads(os.getpid()).map(lambda chunk: function(*chunk), chunks))


def copied(integers: IntArray, kind: type[np.integer]) -> tuple[IntArray, int, int]:
    """A copy in another type, and the least and the largest of the integers (0 of none), which may not fit in it.

    An array of that type that was `handed_over` is its own copy.

    >>> copied(np.array([3, 70_000]), np.int16)
    (array([   3, 4464], dtype=int16), 3, 70000)
    """
    own = isinstance(integers, _HandedOver) and integers.dtype == kind
    copy = integers.view(np.ndarray) if own else np.empty(integers.shape, kind)

    def fill(copy: IntArray, integers: IntArray) -> tuple[int, int]:
        if not own:
            copy[:] = integers
        return (int(integers.min()), int(integers.max())) if integers.size else (0, 0)  # quicker in fewer bits

    lows, highs = zip(*by_chunks(fill, copy, integers), strict=True)
    return copy, min(lows), max(highs)


class _HandedOver(np.ndarray):
    """Numbers that nobody else holds."""


def handed_over(array: IntArray) -> IntArray:
    """The array, for `copied` to take as its copy: who says so keeps no reference to its memory."""
    return array.view(_HandedOver)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _row(array: Array) -> Array:
    """An array as one row: a view, or a copy of one that is not contiguous, to which nothing may be written."""
    row = array.reshape(-1)
    if not array.flags.c_contiguous:
        row.flags.writeable = False
    return row


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="chunks")
