"""The points' neighbours on a CPU: the same indices as `segcertify.models.networks.grouping` finds, in NumPy.

Its steps are small, and NumPy's small steps are several times as fast as torch's. Distances are computed once, while
centres are chosen, in memory that the processor's cache holds. Of them are kept who lies in the largest ball, and
the least of each few centres, which is all that balls and nearest centres need. Clouds are shared among threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Integers = NDArray[np.int64]

CLOUDS = 8
"""How many clouds are worked on at once: their distances to one centre fit in a core's cache."""
CENTRES = 64
"""How many centres' balls are filled at once."""
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
    (size, points), count = planes.shape[1:], found.chosen.shape[1]
    together = max(1, min(TOGETHER, count // NEAREST))  # three groups at least
    least = np.full((-(-count // together), size, points), np.inf, planes.dtype)
    within = squared(planes, max((radius for radius, _ in balls), default=0.0))
    inside = np.empty((CENTRES, size, points), bool)
    steps = _choose(planes, start, found.chosen, least, together)
    for i, distances in enumerate(steps):
        np.less_equal(distances, within, out=inside[i % CENTRES])
        if (i + 1) % CENTRES == 0 or i + 1 == count:
            some = slice(i - i % CENTRES, i + 1)
            filled = [(points[:, some], sizes[:, some]) for points, sizes in found.balls]
            _fill(planes, found.chosen[:, some], inside[: i % CENTRES + 1], balls, filled)
    for k in range(size):
        _find_nearest(planes[:, k], found.chosen[k], least[:, k], together, found.nearest[k])


def squared(like: Floats, radius: float) -> Any:
    """A squared radius in the precision of the points, as torch compares it."""
    return like.dtype.type(radius**2)


def _choose(planes: Floats, start: Integers, chosen: Integers, least: Floats, together: int) -> Iterator[Floats]:
    """Farthest-point sampling, written to ``chosen``: the distances (B, N) to each centre, in memory used again.

    The least distances to each group of centres are written to ``least`` (groups, B, N).
    """
    size, points = planes.shape[1:]
    flat, first = planes.reshape(3, -1), np.arange(size) * points
    differences, separation = np.empty_like(planes), np.full_like(planes[0], np.inf)
    distances, others, more = differences
    for i in range(chosen.shape[1]):
        chosen[:, i] = start
        differences[:] = flat.take(start + first, axis=1)[:, :, None]
        np.subtract(planes, differences, out=differences)  # into what was read: twice as fast as elsewhere
        np.multiply(differences, differences, out=differences)
        np.add(distances, others, out=distances)
        np.add(distances, more, out=distances)
        group = least[i // together]
        np.minimum(group, distances, out=group)
        np.minimum(separation, distances, out=separation)
        start = separation.argmax(1)
        yield distances


def _fill(
    planes: Floats, chosen: Integers, inside: NDArray[np.bool_], balls: Sequence[tuple[float, int]],
    filled: list[tuple[Integers, Integers]],
) -> None:  # fmt: skip
    """Some centres' balls, from who is inside the largest (S, B, N): smaller ones are picked out of it."""
    count, size, points = inside.shape
    found = _where(inside)  # ball after ball, and each one's points in their order
    ball = np.arange(count * size)
    counts = np.diff(np.searchsorted(found, ball * points), append=len(found))
    of, point = np.repeat(ball, counts), found - np.repeat(ball * points, counts)
    flat, cloud = planes.reshape(3, -1), np.tile(np.arange(size) * points, count)
    centres = flat.take(chosen.T.reshape(-1) + cloud, axis=1)
    differences = flat.take(point + np.repeat(cloud, counts), axis=1) - np.repeat(centres, counts, axis=1)
    apart = _sum_of_squares(differences)
    for (radius, most), (indices, sizes) in zip(balls, filled, strict=True):
        near = np.flatnonzero(apart <= squared(planes, radius))
        mine, what = of.take(near), point.take(near)
        counts = np.bincount(mine, minlength=len(ball))
        first = np.cumsum(counts) - counts
        order = np.arange(most)
        position = np.multiply(order, order < counts[:, None])  # the first again where there are no more
        np.add(position, first[:, None], out=position)
        indices[:] = what.take(position, mode="clip").reshape(count, size, most).transpose(1, 0, 2)
        sizes[:] = np.minimum(counts, most).reshape(count, size).T


def _where(rare: NDArray[np.bool_]) -> Integers:
    """`np.flatnonzero` of what is mostly false: in eights first, and then in those that are not false altogether."""
    whole = rare.size - rare.size % 8
    eights, rest = rare.reshape(-1)[:whole], rare.reshape(-1)[whole:]
    some = np.flatnonzero(eights.view(np.uint64) != 0)
    found = np.flatnonzero(eights.reshape(-1, 8).take(some, axis=0))
    found = some.take(found >> 3) * 8 + (found & 7)
    return np.concatenate([found, whole + np.flatnonzero(rest)])


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
