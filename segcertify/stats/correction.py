"""Multiple-testing corrections as one threshold on the agreement count [Fischer2021, FwerControl].

A correction takes the histogram of agreement counts (how many of the N
components have k agreeing draws, k = 0 .. n), the table of p-values and alpha,
and gives the smallest count that it certifies (n + 1 where it certifies none).
Components with the same count have the same p-value, so a tied block is
certified whole or not at all: a step-down procedure asks its first member,
a step-up procedure its last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, Histogram, IntArray
from segcertify.chunks import by_chunks
from segcertify.errors import InputError, require_integer, unknown

Correction = Callable[[Histogram, FloatArray, float], int]
Guarantee = Literal["fwer", "k-fwer", "fdr", "custom"]


def histogram(agree: IntArray, n: int) -> Histogram:
    """How often each count k = 0 .. n occurs. In most components all draws agree: these are counted by themselves.

    Counts that fit in 8 bits are counted in pairs, which are half as many. (np.bincount lets no other thread run.)

    >>> histogram(np.array([3, 0, 3]), 4)
    array([1, 0, 0, 2, 0])
    """
    if n <= np.iinfo(np.uint8).max:
        others = by_chunks(lambda chunk: _others(_pairs(chunk, n), n * 257), agree)
        pairs = np.bincount(np.concatenate(others), minlength=2**16).reshape(2**8, 2**8)
        counts: Histogram = (pairs.sum(0) + pairs.sum(1))[: n + 1]
    else:
        others = by_chunks(lambda chunk: _others(chunk, n), agree)
        counts = np.bincount(np.concatenate(others), minlength=n + 1)
    counts[n] += agree.size - counts.sum()
    return counts


def require_histogram(counts: Histogram, agree: IntArray, n: int) -> Histogram:
    """A copy of the histogram of ``agree`` that a device made; it must have as many components and agreeing draws."""
    given = np.asarray(counts)
    if given.dtype.kind not in "iu" or given.shape != (n + 1,) or given.min() < 0 or given.max() > agree.size:
        raise InputError(
            f"a histogram of {agree.size} components must hold n + 1 = {n + 1} whole numbers from 0 to {agree.size}, "
            f"but got {given.dtype} of shape {given.shape}"
        )
    found = given.astype(np.int64)
    quick = np.int32 if agree.size * n <= np.iinfo(np.int32).max else np.int64
    draws = sum(by_chunks(lambda chunk: int(chunk.sum(dtype=quick)), agree))
    total, drawn = int(found.sum()), int(found @ np.arange(n + 1))
    if (total, drawn) != (agree.size, draws):
        raise InputError(
            f"this histogram is of {total} components with {drawn} agreeing draws in all, not of these "
            f"{agree.size} with {draws}: keep the one of the same counts, or none"
        )
    return found


def _pairs(agree: IntArray, n: int) -> IntArray:
    """Counts of 8 bits, two in each number of 16; the last one may have a partner of n."""
    few = np.full(agree.size + agree.size % 2, n, np.uint8)
    few[: agree.size] = agree
    return few.view(np.uint16)


def _others(numbers: IntArray, usual: int) -> IntArray:
    """The numbers that are not the usual one: taken by their places, which is faster than by a mask."""
    return numbers.take(np.flatnonzero(numbers != usual))


def bonferroni(counts: Histogram, p: FloatArray, alpha: float) -> int:
    """Every p-value against alpha / N. FWER <= alpha under any dependence.

    >>> from segcertify.stats.binomial import p_values
    >>> counts = np.bincount([100] * 90 + [88] * 10)
    >>> bonferroni(counts, p_values(100, 0.75), 0.001)
    93
    """
    return _lowest_accepted(p <= alpha / counts.sum())


def holm(counts: Histogram, p: FloatArray, alpha: float) -> int:
    """Step down at alpha / (N - i + 1), stop at the first failure [Holm1979].

    FWER <= alpha under any dependence between components.

    >>> from segcertify.stats.binomial import p_values
    >>> counts = np.bincount([100] * 90 + [88] * 10)
    >>> holm(counts, p_values(100, 0.75), 0.001)
    91
    """
    return k_fwer(counts, p, alpha, k=1)


def k_fwer(counts: Histogram, p: FloatArray, alpha: float, *, k: int) -> int:
    """Step down at k alpha / N for i <= k, then k alpha / (N + k - i) [LehmannRomano2005, Thm. 2.2].

    P(k or more false certificates) <= alpha under any dependence. An error
    budget of b means k = b + 1, and k = 1 is Holm.
    """
    total = counts.sum()
    if k > total:
        raise InputError(f"k-FWER with k={k} over {total} components claims nothing: use k <= {total}")
    i = np.minimum(_rejected_before(counts) + 1, total)  # rank of the first member of each tied block
    level = k * alpha / (total + k - np.maximum(i, k))
    return _lowest_accepted(p <= level)


def benjamini_hochberg(counts: Histogram, p: FloatArray, alpha: float) -> int:
    """Step up at i alpha / N [BenjaminiHochberg1995].

    FDR <= alpha if the components are independent or positively dependent (PRDS).
    """
    total = counts.sum()
    i = _rejected_before(counts) + counts  # rank of the last member of each tied block
    passed = np.flatnonzero(p <= i * alpha / total)
    return int(passed[0]) if passed.size else len(p)


def benjamini_yekutieli(counts: Histogram, p: FloatArray, alpha: float) -> int:
    """Step up at i alpha / (N H_N), H_N = 1 + 1/2 + ... + 1/N [BenjaminiYekutieli2001].

    FDR <= alpha under any dependence.
    """
    harmonic = float(np.sum(1.0 / np.arange(1, counts.sum() + 1)))
    return benjamini_hochberg(counts, p, alpha / harmonic)


def _rejected_before(counts: Histogram) -> Histogram:
    """How many components agree in more than k draws, for each k."""
    return np.append(np.cumsum(counts[::-1])[-2::-1], 0)


def _lowest_accepted(accepted: BoolArray) -> int:
    """The smallest count such that it and all larger counts are accepted."""
    refused = np.flatnonzero(~accepted)
    return int(refused[-1]) + 1 if refused.size else 0


@dataclass(frozen=True)
class Procedure:
    """A correction with its name and what it controls."""

    name: str
    threshold: Correction
    guarantee: Guarantee
    k: int = 1


PROCEDURES = {
    "holm": Procedure("holm", holm, "fwer"),
    "bonferroni": Procedure("bonferroni", bonferroni, "fwer"),
    "bh": Procedure("bh", benjamini_hochberg, "fdr"),
    "by": Procedure("by", benjamini_yekutieli, "fdr"),
}
K_FWER: Literal["k-fwer"] = "k-fwer"
NAMES = (*PROCEDURES, K_FWER)


def procedure(correction: str | Correction, *, k: int | None = None, b: int | None = None) -> Procedure:
    """The correction a user named (or passed as a function), with what it controls.

    ``k`` belongs to ``"k-fwer"``; an error budget ``b`` is k = b + 1.
    """
    if isinstance(correction, str) and correction == K_FWER:
        if (k is None) == (b is None):
            raise InputError("correction='k-fwer' needs k, or an error budget b (k = b + 1), and not both")
        errors = require_integer("k", k) if k is not None else require_integer("b", b or 0, at_least=0) + 1
        return Procedure(K_FWER, lambda counts, p, alpha: k_fwer(counts, p, alpha, k=errors), K_FWER, errors)
    if k is not None or b is not None:
        raise InputError(f"k and b belong to correction='k-fwer', not to {correction!r}")
    if callable(correction):
        return _custom(correction)
    if not isinstance(correction, str) or correction not in PROCEDURES:
        raise unknown("correction", correction, NAMES, forms=(*NAMES, "a function"))
    return PROCEDURES[correction]


def procedures(corrections: Sequence[str], *, k: int | None = None, b: int | None = None) -> tuple[Procedure, ...]:
    """Several corrections by name; ``k`` or ``b`` is for the ``"k-fwer"`` among them."""
    if K_FWER not in corrections and (k is not None or b is not None):
        raise InputError(f"k and b belong to correction='k-fwer', not to {', '.join(corrections)}")
    return tuple(procedure(each, k=k, b=b) if each == K_FWER else procedure(each) for each in corrections)


def _custom(function: Correction) -> Procedure:
    """A function of a user, whose result is checked to be a count: an integer of at least 0."""
    name = getattr(function, "__name__", repr(function))

    def threshold(counts: Histogram, p: FloatArray, alpha: float) -> int:
        return require_integer(f"the count that {name} certifies", function(counts, p, alpha), at_least=0)

    return Procedure(name, threshold, "custom")
