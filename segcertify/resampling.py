"""Resampling: how an axis of so many pixels becomes one of another number, as a matrix whose norms are bounded.

A resize of an image is linear and separable: one matrix for the rows, one for the columns. All entries are at least 0,
and every row sums to 1. A perturbation of the image grows by at most the product of the two matrices' norms
(``docs/theory.md``, "The radius through a resize").
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy import sparse

from segcertify.arrays import Array, FloatArray
from segcertify.errors import InputError, unknown

ANTIALIASED, BOX, BILINEAR = "antialiased", "box", "bilinear"
ITERATIONS = 1000  # of the power method; each of them gives a valid bound, and more give a smaller one
BLOCK = 16  # rows of the result that are computed at once: a photograph is not held in double precision as a whole

Weights = Callable[[FloatArray, FloatArray, float], FloatArray]


def _box(left: FloatArray, pixel: FloatArray, step: float) -> FloatArray:
    """The part of each pixel that lies in the interval from ``left``, of length ``step``: an exact area average."""
    return np.minimum(pixel + 1, left + step) - np.maximum(pixel, left)


def _triangle(left: FloatArray, pixel: FloatArray, step: float, width: float = 1.0) -> FloatArray:
    """Linear interpolation between the centres of the pixels, or a triangle as much wider as ``width`` says."""
    return 1 - np.abs(pixel + 0.5 - (left + step / 2)) / width


METHODS: dict[str, Weights] = {
    ANTIALIASED: lambda left, pixel, step: _triangle(left, pixel, step, max(step, 1.0)),
    BOX: _box,
    BILINEAR: _triangle,
}
"""The weight of each pixel in the interval of the old axis that one new pixel covers, up to a factor; below 0 is 0.

``box`` averages areas; ``antialiased`` is a triangle over two new pixels (as Pillow's BILINEAR, but not in 8 bits);
``bilinear`` interpolates between two old pixels, which passes over the others: its norm is larger.
"""


@lru_cache(maxsize=64)
def axis_matrix(before: int, after: int, method: str = ANTIALIASED) -> sparse.csr_array:
    """The matrix (after, before), in double precision, that resizes one axis. At the edges it has no padding."""
    if method not in METHODS:
        raise unknown("method", method, METHODS, where=" to resize by")
    if min(before, after) < 1:
        raise InputError(f"an axis has at least 1 pixel, but is resized from {before} to {after}")
    step = before / after
    left = np.arange(after)[:, None] * before / after
    first = np.floor(left - max(step, 1.0))
    pixel = first + np.arange(int(3 * max(step, 1.0)) + 3, dtype=float)
    weight = np.maximum(METHODS[method](left, pixel, step), 0.0) * ((pixel >= 0) & (pixel < before))
    weight /= weight.sum(axis=1, keepdims=True)
    row, column = np.nonzero(weight)
    found = weight[row, column], (row, pixel[row, column].astype(int))
    return sparse.csr_array(found, shape=(after, before))


def resampled(pixels: Array, after: Sequence[int], method: str = ANTIALIASED) -> FloatArray:
    """An image (height, width, channels) at the size ``after`` (height, width), in double precision."""
    rows, columns = (axis_matrix(pixels.shape[axis], after[axis], method) for axis in (0, 1))
    result = np.empty((*after, pixels.shape[2]))  # filled in place: the blocks and their union would take it twice
    for start in range(0, after[0], BLOCK):
        block = rows[start : start + BLOCK]
        low, high = int(block.indices.min()), int(block.indices.max()) + 1
        given = pixels[low:high].reshape(high - low, -1).astype(np.float64)
        narrow = (block[:, low:high] @ given).reshape(block.shape[0], *pixels.shape[1:]).transpose(1, 0, 2)
        across = (columns @ narrow.reshape(len(narrow), -1)).reshape(after[1], block.shape[0], -1)
        result[start : start + BLOCK] = across.transpose(1, 0, 2)
    return result


@lru_cache(maxsize=1024)
def resize_norm(before: tuple[int, int], after: tuple[int, int], method: str = ANTIALIASED, norm: str = "l2") -> float:
    """An upper bound of the factor by which a resize lengthens perturbations in the norm "l1", "l2" or "linf".

    The matrix of a separable resize is the Kronecker product of its axes' matrices, and each of the three norms of a
    Kronecker product is the product of the norms.

    >>> round(resize_norm((3000, 4000), (750, 1000), "box"), 9)
    0.25
    """
    first, second = (axis_norm(axis_matrix(*sizes, method), norm) for sizes in zip(before, after, strict=True))
    return first * second * (1 + 2.0**-51)


def axis_norm(matrix: sparse.csr_array, norm: str) -> float:
    """An upper bound of a norm of a matrix whose entries are at least 0: l1, l2 or linf.

    For l1 it is the largest sum of a column, for linf of a row. For l2 it is a bound of Collatz and Wielandt: for
    every vector v above 0, the square of the norm is at most max_i (A A^T v)_i / v_i. The power method finds a v for
    which the bound is nearly attained. Nothing is subtracted, so that the rounding of each sum is relative to it: the
    margin is larger than all of them.
    """
    if norm not in ("l1", "l2", "linf"):
        raise InputError(f"a resize has the norms 'l1', 'l2' and 'linf', but not {norm!r}")
    across = matrix.T.tocsr()
    longest = max(int(np.diff(each.indptr).max()) for each in (matrix, across))
    margin = 1 + (2 * longest + 8) * 2.0**-52
    if norm != "l2":
        return float((across if norm == "l1" else matrix).sum(axis=1).max()) * margin
    v, least = np.ones(matrix.shape[0]), np.inf
    for _ in range(ITERATIONS):
        w = matrix @ (across @ v)
        least = min(least, float((w / v).max()))
        v = np.maximum(w / w.max(), 1e-100)
    return float(np.sqrt(least * margin)) * (1 + 2.0**-52)
