"""Pieces: the surfaces that a shape is put together from, each with its part; points over what is seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from segcertify.arrays import BoolArray, FloatArray
from tools.shapes.surfaces import Numbers, Scatter, Surface, inside, loft, mirrored, rounded, scatter, tube

NOTHING = -1
"""The part of a triangle that gets no points: a hole, or a piece that only cuts away from others."""

_MARGIN = 2e-3
"""A point is hidden if the place this far in front of it is inside another piece; shapes are about 2 long."""

Labels = npt.NDArray[np.int32]


class Piece(NamedTuple):
    """A surface, its part (or a part for each triangle), and the parts whose points are hidden inside it.

    ``hides`` is None for all parts. A ``sheet`` has no inside, and its normals
    point to either side.
    """

    part: int | npt.NDArray[np.int64]
    surface: Surface
    hides: tuple[int, ...] | None = None
    sheet: bool = False


Builder = Callable[[np.random.Generator], list[Piece]]


def one_of(rng: np.random.Generator, styles: Mapping[Builder, float]) -> list[Piece]:
    """A shape in one of several styles, each with its weight."""
    weights = np.array([*styles.values()])
    return [*styles][rng.choice(len(styles), p=weights / weights.sum())](rng)


def sheet(part: int, surface: Surface) -> Piece:
    """A piece of no thickness, which hides nothing."""
    return Piece(part, surface, hides=(), sheet=True)


def pair(piece: Piece, axis: str = "z") -> list[Piece]:
    """A piece and its mirror image, on either side of the middle."""
    return [piece, piece._replace(surface=mirrored(piece.surface, axis))]


def four(piece: Piece) -> list[Piece]:
    """A piece at each of four corners, in x and z."""
    return [each for half in pair(piece, "x") for each in pair(half, "z")]


def off(points: Numbers, *by: float) -> FloatArray:
    """A place, or places (n, 2 or 3), moved by so much along each axis."""
    return np.asarray(np.asarray(points, float) + np.array(by))


def arc(radius: float, start: float, stop: float, count: int = 12) -> FloatArray:
    """Points (count, 2) on a circle, between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, count))
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def bow(start: float, stop: float, power: float, count: int = 12) -> FloatArray:
    """Points (count, 2) on the unit circle between two angles, drawn out towards a square by a power below 1."""
    flat = arc(1.0, start, stop, count)
    return np.asarray(np.sign(flat) * np.abs(flat) ** power)


def rod(start: Numbers, stop: Numbers, radius: float | Numbers, *, sides: int = 8) -> Surface:
    """A round bar from one place to another; two radii make it taper."""
    return tube([np.asarray(start, float), np.asarray(stop, float)], radius, sides=sides)


def cushion(x: float, y: float, z: float, *, bevel: float = 0.0, power: float = 8.0) -> Surface:
    """A box with rounded corners seen from above and with edges that are cut off by ``bevel``."""
    levels = [(-y / 2, bevel), (bevel - y / 2, 0.0), (y / 2 - bevel, 0.0), (y / 2, bevel)]
    rings = []
    for level, cut in levels if bevel else levels[::3]:
        flat = rounded(x - 2 * cut, z - 2 * cut, power=power, sides=20)
        rings.append(np.insert(flat, 1, level, axis=1))
    return loft(rings)


def seen(pieces: Iterable[Piece], points: int, rng: np.random.Generator) -> tuple[FloatArray, Labels]:
    """Points with normals (points, 6), uniform over what no other piece hides, and their parts (points,)."""
    listed = list(pieces)
    sizes = [len(piece.surface) for piece in listed]
    parts = np.concatenate([np.full(size, piece.part) for size, piece in zip(sizes, listed, strict=True)])
    real = parts != NOTHING
    surface = np.concatenate([piece.surface for piece in listed])[real]
    owner = np.repeat(np.arange(len(listed)), sizes)[real]
    parts = parts[real].astype(np.int32)
    found: list[FloatArray] = []
    labels: list[Labels] = []
    missing = points
    while missing > 0:
        drawn = scatter(surface, points + points // 2, rng)
        part = parts[drawn.triangles]
        kept = np.flatnonzero(~_hidden(drawn, part, owner[drawn.triangles], listed))[:missing]
        found.append(np.concatenate([drawn.points, _either_side(drawn, owner, listed, rng)], axis=1)[kept])
        labels.append(part[kept])
        missing -= len(kept)
    return np.concatenate(found), np.concatenate(labels)


def _hidden(drawn: Scatter, part: Labels, owner: npt.NDArray[np.int64], pieces: list[Piece]) -> BoolArray:
    """Which points lie inside a piece that is not their own."""
    before = drawn.points + _MARGIN * drawn.normals
    result = np.zeros(len(part), bool)
    for number, piece in enumerate(pieces):
        open_to = owner != number if piece.hides is None else (owner != number) & np.isin(part, piece.hides)
        asked = np.flatnonzero(open_to & ~result)
        result[asked] = inside(before[asked], piece.surface)
    return result


def _either_side(
    drawn: Scatter, owner: npt.NDArray[np.int64], pieces: list[Piece], rng: np.random.Generator
) -> FloatArray:
    """The normals, of which half on each sheet are turned round."""
    thin = np.array([piece.sheet for piece in pieces])[owner[drawn.triangles]]
    turned = thin & (rng.random(len(thin)) < 0.5)
    return np.where(turned[:, None], -drawn.normals, drawn.normals)
