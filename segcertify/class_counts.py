"""How often each class came up in n draws, (classes, *components): in 16 bits, class by class to spare memory."""

from collections.abc import Iterable

import numpy as np

from segcertify.arrays import Array, IntArray
from segcertify.errors import InputError


def count_type(n: int) -> type[np.unsignedinteger]:
    """16 bits, or 32 above 65,535 draws."""
    return np.uint16 if n <= np.iinfo(np.uint16).max else np.uint32


def from_planes(planes: Iterable[Array], n: int) -> IntArray:
    """One array of the classes' counts."""
    return np.stack([np.asarray(plane, count_type(n)) for plane in planes])


def require_counts(
    counts: IntArray, candidate: IntArray, agree: IntArray | None, *, n: int, chosen_by_them: bool
) -> IntArray:
    """Read-only counts that add up to n at each component and hold ``agree``, where given, at the candidate.

    ``chosen_by_them`` says that the candidate is their most frequent class.
    """
    counts = np.asarray(counts)
    if not np.issubdtype(counts.dtype, np.integer) or counts.shape[1:] != candidate.shape or not len(counts):
        raise InputError(
            f"counts must be integers (classes, *{candidate.shape}), but are {counts.dtype} {counts.shape}"
        )
    if counts.min() < 0 or counts.max() > n or (sum(plane.astype(np.int64) for plane in counts) != n).any():
        raise InputError(f"counts must add up to n={n} at every component")
    if candidate.max() >= len(counts):
        raise InputError(f"candidates reach {candidate.max()}, but there are counts of {len(counts)} classes alone")
    at_candidate = np.take_along_axis(counts, np.asarray(candidate, np.int64)[None], 0)[0]
    if agree is not None and (at_candidate != agree).any():
        raise InputError("agree must be the count of the candidate")
    if chosen_by_them and (counts.max(0) != at_candidate).any():
        raise InputError("the candidate must be the most frequent class of the draws that chose it")
    wanted = count_type(n)
    if counts.dtype != wanted or counts.flags.writeable or counts.base is not None:
        counts = counts.astype(wanted)
        counts.flags.writeable = False
    return counts


def added(a: IntArray, b: IntArray, n: int) -> IntArray:
    """The counts of both, of n draws together; the longer one's classes."""
    total = np.zeros((max(len(a), len(b)), *a.shape[1:]), count_type(n))
    for counts in (a, b):
        total[: len(counts)] += counts.astype(total.dtype, copy=False)
    return total


def most_frequent(counts: IntArray) -> tuple[IntArray, IntArray]:
    """The most frequent class of each component, the lowest of equals, and its count."""
    labels, best = np.zeros(counts.shape[1:], np.int32), np.array(counts[0], np.int32)
    for label, plane in enumerate(counts):
        better = plane > best
        np.copyto(labels, label, where=better)
        np.copyto(best, plane, where=better)
    return labels, best
