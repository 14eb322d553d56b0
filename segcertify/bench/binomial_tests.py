"""Two ways to test all stored labels [Fischer2021, Alg. 2]: pixel by pixel, as the released code does, and vectorised.

Both take the labels of all draws, (n0 + n, pixels), choose each pixel's most frequent label in the first n0 (the lowest
of equals), count it in the others, and test P(label) > tau. Torch is not needed: a pool's processes start quickly.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, binomtest

from segcertify.arrays import BoolArray, FloatArray, IntArray

Pixel = tuple[IntArray, int, int, int, float]
"""The labels that one pixel got, n0, n, the number of classes, and tau."""


@dataclass(frozen=True, eq=False)
class Tested:
    """The label chosen for each pixel, and its p-value."""

    labels: IntArray
    p_values: FloatArray


def test_pixel(pixel: Pixel) -> tuple[int, float]:
    """The label of one pixel and its p-value: votes counted one by one, then one exact binomial test."""
    labels, n0, n, classes, tau = pixel
    votes = np.zeros(classes, int)
    for label in labels[:n0]:
        votes[label] += 1
    chosen = int(np.argmax(votes))
    agree = int(np.sum(labels[n0:] == chosen))
    return chosen, float(binomtest(agree, n, tau, alternative="greater").pvalue)


class PixelPool:
    """Processes that test pixels one by one, on as many cores; they start before any clock does.

    One process works in this one.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._pool = multiprocessing.get_context("spawn").Pool(processes) if processes > 1 else None
        self.test(np.zeros((2, processes), int), n0=1, classes=1, tau=0.5)

    def __enter__(self) -> PixelPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def test(self, labels: IntArray, *, n0: int, classes: int, tau: float) -> Tested:
        """Test each column of ``labels``."""
        n, pixels = len(labels) - n0, range(labels.shape[1])
        work: list[Pixel] = [(labels[:, i], n0, n, classes, tau) for i in pixels]
        found = [*map(test_pixel, work)] if self._pool is None else self._pool.map(test_pixel, work)
        chosen, p_values = zip(*found, strict=True)
        return Tested(np.array(chosen), np.array(p_values))


def test_together(labels: IntArray, *, n0: int, classes: int, tau: float) -> Tested:
    """The same for all pixels at once: one comparison a draw, and SciPy's binomial tail for each count that occurs."""
    n, pixels = len(labels) - n0, np.arange(labels.shape[1])
    votes = np.zeros((classes, labels.shape[1]), np.int32)
    for drawn in labels[:n0]:
        votes[drawn, pixels] += 1
    chosen = votes.argmax(0)
    agree = np.zeros(labels.shape[1], np.int32)
    for drawn in labels[n0:]:
        agree += drawn == chosen
    counts, where = np.unique(agree, return_inverse=True)
    return Tested(chosen, binom.sf(counts - 1, n, tau)[where])


def holm() -> tuple[Callable[[FloatArray, float], BoolArray], str]:
    """Holm's procedure, and whose it is: statsmodels' where that is installed."""
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError:
        return _step_down, "NumPy, as statsmodels is not installed"
    multipletests([0.5], 0.5, method="holm")  # its first call loads more
    return lambda p_values, alpha: np.asarray(multipletests(p_values, alpha, method="holm")[0]), "statsmodels"


def _step_down(p_values: FloatArray, alpha: float) -> BoolArray:
    """Holm's procedure on sorted p-values, until the first that is not rejected."""
    order = np.argsort(p_values)
    kept = p_values[order] > alpha / np.arange(len(order), 0, -1)
    first = int(np.argmax(kept)) if kept.any() else len(order)
    rejected = np.zeros(len(order), bool)
    rejected[order[:first]] = True
    return rejected


def spread(pixels: int, chosen: int) -> IntArray:
    """So many of the pixels, spread evenly over them."""
    return np.linspace(0, pixels - 1, min(chosen, pixels)).astype(int)
