"""The points' neighbours on a CPU: the same indices as `segcertify.models.networks.grouping` finds, in NumPy.

Its steps are small, and NumPy's small steps are several times as fast as torch's. Distances are computed once, while
centres are chosen, in memory that the processor's cache holds. Of them are kept who lies in the largest ball, and
the least of each few centres, which is all that balls and nearest centres need. Clouds are shared among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Integers = NDArray[np.int64]

CLOUDS = 8
"""How many clouds are worked on at once: their distances to one centre fit in a core's cache."""
TOGETHER = 8
"""How many centres share the least of their distances to a point."""
NEAREST = 3


class Found(NamedTuple):
    """Centres (B, S) among points, each ball's points (B, S, most) and sizes (B, S), and nearest centres (B, N, 3)."""

    chosen: Integers
    balls: list[tuple[Integers, Integers]]
    nearest: Integers

    def of(self, some: slice | int) -> Found:
        """The part that belongs to some clouds."""
        return Found(
            self.chosen[some], [(points[some], sizes[some]) for points, sizes in self.balls], self.nearest[some]
        )


def neighbours(xyz: Floats, count: int, start: Integers, balls: Sequence[tuple[float, int]], *, threads: int) -> Found:
    """The neighbours of points (B, N, 3): ``count`` centres of each cloud, their balls, and each point's centres."""
    size, points = xyz.shape[:2]
    filled = [(np.empty((size, count, most), np.int64), np.empty((size, count), np.int64)) for _, most in balls]
    found = Found(np.empty((size, count), np.int64), filled, np.empty((size, points, NEAREST), np.int64))
    once = max(1, min(CLOUDS, -(-size // threads)))

    def work(first: int) -> None:
        some = slice(first, first + once)
        _neighbours(xyz[some], start[some], balls, found.of(some))

    if threads == 1 or size <= once:
        for first in range(0, size, once):
            work(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(0, size, once)))
    return found


def _neighbours(xyz: Floats, start: Integers, balls: Sequence[tuple[float, int]], found: Found) -> None:
    """The same for few clouds, written to ``found``."""
    planes = np.ascontiguousarray(xyz.transpose(2, 0, 1))  # x, y and z apart: (3, B, N)
    together = max(1, min(TOGETHER, found.chosen.shape[1] // NEAREST))  # three groups at least
    within = squared(planes, max((radius for radius, _ in balls), default=0.0))
    inside, least = _choose(planes, start, found.chosen, within, together)
    for k in range(len(xyz)):
        mine = found.of(k)
        _fill(planes[:, k], mine.chosen, inside[k], balls, mine.balls)
        _find_nearest(planes[:, k], mine.chosen, least[k], together, mine.nearest)


def squared(like: Floats, radius: float) -> Any:
    """A squared radius in the precision of the points, as torch compares it."""
    return like.dtype.type(radius**2)


def _choose(
    planes: Floats, start: Integers, chosen: Integers, within: Any, together: int
) -> tuple[NDArray[np.bool_], Floats]:
    """Farthest-point sampling, written to ``chosen``.

    Gives who is near each centre (B, S, N), and the least distances (B, groups, N) to each group of centres.
    """
    (size, points), count = planes.shape[1:], chosen.shape[1]
    inside = np.empty((size, count, points), bool)
    least = np.full((size, -(-count // together), points), np.inf, planes.dtype)
    entries = np.arange(len(start))
    differences, separation = np.empty_like(planes), np.full_like(planes[0], np.inf)
    distances, others, more = differences
    for i in range(count):
        chosen[:, i] = start
        np.subtract(planes, planes[:, entries, start, None], out=differences)
        np.multiply(differences, differences, out=differences)
        np.add(distances, others, out=distances)
        np.add(distances, more, out=distances)
        np.less_equal(distances, within, out=inside[:, i])
        group = least[:, i // together]
        np.minimum(group, distances, out=group)
        np.minimum(separation, distances, out=separation)
        start = separation.argmax(1)
    return inside, least


def _fill(
    planes: Floats, chosen: Integers, inside: NDArray[np.bool_], balls: Sequence[tuple[float, int]],
    filled: list[tuple[Integers, Integers]],
) -> None:  # fmt: skip
    """All balls of one cloud: smaller ones are picked out of the largest."""
    count, points = inside.shape
    found = np.flatnonzero(inside)  # by centre, and each centre's points in their order
    firsts = np.arange(count) * points
    counts = np.diff(np.searchsorted(found, firsts), append=len(found))
    centre = np.repeat(np.arange(count), counts)
    point = found - np.repeat(firsts, counts)
    differences = planes.take(point, axis=1) - np.repeat(planes.take(chosen, axis=1), counts, axis=1)
    apart = _sum_of_squares(differences)
    for (radius, most), (index, sizes) in zip(balls, filled, strict=True):
        near = np.flatnonzero(apart <= squared(planes, radius))
        of, what = centre.take(near), point.take(near)
        counts = np.bincount(of, minlength=count)
        first = np.cumsum(counts) - counts
        place = np.arange(len(of)) - first.take(of)
        room = np.flatnonzero(place < most)
        index[:] = what.take(first)[:, None]
        index.reshape(-1)[(of * most + place).take(room)] = what.take(room)
        np.minimum(counts, most, out=sizes)


def _find_nearest(planes: Floats, chosen: Integers, least: Floats, together: int, nearest: Integers) -> None:
    """The three nearest centres are in the three groups with the least distances; of equals, the first counts."""
    groups = _three_least(np.ascontiguousarray(least.T))
    groups.sort(axis=1)
    centres = np.full((3, len(least) * together), np.inf, planes.dtype)
    centres[:, : len(chosen)] = planes.take(chosen, axis=1)
    differences = centres.reshape(3, len(least), together).take(groups, axis=1)  # (3, N, 3, together)
    differences -= planes[:, :, None, None]
    places = _three_least(_sum_of_squares(differences).reshape(len(groups), -1))
    nearest[:] = np.take_along_axis(groups, places // together, 1) * together + places % together


def _sum_of_squares(differences: Floats) -> Floats:
    """Squared distances (...) from differences (3, ...), which are overwritten; added in the order of `_choose`."""
    np.multiply(differences, differences, out=differences)
    sums: Floats
    sums, others, more = differences
    np.add(sums, others, out=sums)
    np.add(sums, more, out=sums)
    return sums


def _three_least(values: Floats) -> Integers:
    """Where the three least of each row are, of equals the first; overwrites the values."""
    rows, places = np.arange(len(values)), np.empty((len(values), NEAREST), np.int64)
    for k in range(NEAREST):
        places[:, k] = values.argmin(1)
        values[rows, places[:, k]] = np.inf
    return places
