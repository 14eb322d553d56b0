"""Surfaces of simple solids, and points spread evenly over them.

A surface is an array (T, 3, 3): T triangles, whose three corners run
anticlockwise seen from outside. Round forms are polyhedra with as many sides as
asked for. Sizes are whole lengths, radii are radii, and a form stands around
the origin until `placed` or `mirrored` says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from segcertify.arrays import BoolArray, FloatArray
from segcertify.errors import InputError, require_integer

Surface = npt.NDArray[np.float64]
Numbers = npt.ArrayLike
"""Any numbers that NumPy makes an array of: lists of points above all."""

_LEAN = np.array([0.31830989, 0.13579024])
"""How far a ray of `inside` leans in x and z for each unit of y, so that it meets no edge of a neat form."""


class Scatter(NamedTuple):
    """Points (n, 3) on a surface, outward unit normals (n, 3), and the triangles (n,) that they are on."""

    points: FloatArray
    normals: FloatArray
    triangles: npt.NDArray[np.int64]


def box(x: float, y: float, z: float) -> Surface:
    """A box with sides of these lengths.

    >>> box(1, 2, 3).shape, float(areas(box(1, 2, 3)).sum())
    ((16, 3, 3), 22.0)
    """
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)]) / 2
    return loft([[(x * a, y * level, z * b) for a, b in corners] for level in (-0.5, 0.5)])


def ellipsoid(x: float, y: float, z: float, *, sides: int = 16) -> Surface:
    """An ellipsoid with axes of these lengths; a sphere where they are equal."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1)
    ball = revolved(np.stack([np.cos(angle), np.sin(angle)], axis=1) / 2, sides=sides)
    return placed(ball, scale=(x, y, z))


def cylinder(radius: float, length: float, *, axis: str = "y", sides: int = 16) -> Surface:
    """A cylinder around an axis, with both lids."""
    return frustum(radius, radius, length, axis=axis, sides=sides)


def frustum(start: float, stop: float, length: float, *, axis: str = "y", sides: int = 16) -> Surface:
    """A cone around an axis, cut off: its radius goes from start to stop, one of which may be 0."""
    return revolved([(start, -length / 2), (stop, length / 2)], axis=axis, sides=sides)


def torus(radius: float, tube_radius: float, *, axis: str = "y", sides: int = 24) -> Surface:
    """A ring around an axis; ``radius`` is that of the circle along which the tube runs."""
    profile = [radius, 0.0] + tube_radius * circle(10)
    return revolved(profile, axis=axis, sides=sides, closed=True)


def revolved(
    profile: Numbers, *, axis: str = "y", sides: int = 16, closed: bool = False, sheet: bool = False
) -> Surface:
    """A profile (P, 2) of radius and height, turned around an axis.

    The ends get lids (none that has radius 0), unless the profile is ``closed``, a
    loop, or the surface a ``sheet`` that stays open.
    """
    radius, height = _array("profile", profile, 2).T[:, :, None]
    turns = circle(sides)
    ring = np.ones(sides)
    rings = np.stack([radius * turns[:, 0], height * ring, -radius * turns[:, 1]], axis=2)
    return placed(loft(rings, closed=closed, sheet=sheet), axis=axis)


def extruded(outline: Numbers, depth: float) -> Surface:
    """A flat outline (P, 2) in x and y, which may be concave but not cross itself, as thick as ``depth`` along z."""
    flat = _array("outline", outline, 2)
    ends = [np.insert(flat, 2, level, axis=1) for level in (-depth / 2, depth / 2)]
    corners = _ears(flat)
    return _outward(np.concatenate([_walls(np.stack(ends)), ends[0][corners][:, ::-1], ends[1][corners]]))


def tube(
    path: Numbers, section: float | Numbers, *, side: Numbers | None = None, closed: bool = False, sides: int = 8
) -> Surface:
    """A section swept along a path (P, 3): a handle, a wire, a leg.

    ``section`` is a radius, a radius (P,) for each point, or an outline (S, 2): its
    first coordinate lies along ``side`` (the axis that the path turns around,
    unless given), its second across the path. A ``closed`` path is a loop.
    """
    line = _array("path", path, 3)
    steps = np.roll(line, -1, axis=0) - np.roll(line, 1, axis=0) if closed else np.gradient(line, axis=0)
    along = _unit(steps)
    chosen = np.eye(3)[np.abs(along).max(axis=0).argmin()] if side is None else np.asarray(side, float)
    wide = _unit(chosen - along * (along @ chosen)[:, None])
    high = np.cross(along, wide)
    shape = np.asarray(section, float)
    flat = shape if shape.ndim == 2 else circle(sides) * shape.reshape(-1, 1, 1)
    flat = np.broadcast_to(flat, (len(line), *flat.shape[-2:]))
    rings = line[:, None] + flat[..., :1] * wide[:, None] + flat[..., 1:] * high[:, None]
    return loft(rings, closed=closed)


def loft(rings: Numbers, *, closed: bool = False, sheet: bool = False) -> Surface:
    """The skin over rings of points (R, P, 3), from each to the next, with flat lids on the first and the last.

    ``closed`` joins the last ring to the first; a ``sheet`` stays open at the ends.
    A lid is a fan around the ring's middle, which must see all of the ring.
    """
    stack = np.asarray(rings, float)
    if stack.ndim != 3 or stack.shape[2] != 3 or stack.shape[0] < 2 or stack.shape[1] < 3:
        raise InputError(f"rings must be (2 or more, 3 or more, 3), but got {stack.shape}")
    if closed:
        return _outward(_walls(np.concatenate([stack, stack[:1]])))
    walls = _walls(stack)
    skin = _outward(np.concatenate([walls, _lid(stack[0])[:, ::-1], _lid(stack[-1])]))
    return skin[: len(walls)] if sheet else skin


def placed(
    surface: Surface, *, axis: str = "y", scale: Numbers = 1.0, turn: Numbers = (0, 0, 0), move: Numbers = (0, 0, 0)
) -> Surface:
    """The surface scaled, then turned, then moved.

    ``axis`` names where the form's y points first (the other axes follow in
    turn); ``scale`` is one number or one for each axis, none negative; ``turn`` is
    in degrees around x, then y, then z.
    """
    if axis not in {"x", "y", "z"}:
        raise InputError(f"axis must be 'x', 'y' or 'z', but got {axis!r}")
    factors = np.asarray(scale, float)
    if (factors < 0).any():
        raise InputError(f"scale must not be negative, but got {scale!r}: use mirrored")
    result: Surface = np.roll(surface, "yzx".index(axis), axis=2) * factors
    for number, degrees in enumerate(np.asarray(turn, float)):
        if degrees:
            result = result @ _rotation(number, degrees).T
    return np.asarray(result + np.asarray(move, float))


def mirrored(surface: Surface, axis: str = "z") -> Surface:
    """The surface on the other side of the origin along an axis, with its outside still outside."""
    signs = np.where(np.array([*"xyz"]) == axis, -1.0, 1.0)
    return (surface * signs)[:, ::-1]


def circle(sides: int) -> FloatArray:
    """Points (sides, 2) on the unit circle, anticlockwise."""
    return rounded(2.0, 2.0, power=2.0, sides=sides)


def rounded(width: float, height: float, *, power: float = 4.0, sides: int = 16) -> FloatArray:
    """An outline (sides, 2) between an ellipse (power 2) and a rectangle (a large power), anticlockwise."""
    angle = 2 * np.pi * np.arange(require_integer("sides", sides, at_least=3)) / sides
    flat = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(np.sign(flat) * np.abs(flat) ** (2 / power) * [width / 2, height / 2])


def areas(surface: Surface) -> FloatArray:
    """The area (T,) of each triangle."""
    return np.asarray(np.linalg.norm(_crosses(surface), axis=1) / 2)


def normals(surface: Surface) -> FloatArray:
    """The outward unit normal (T, 3) of each triangle."""
    return _unit(_crosses(surface))


def scatter(surface: Surface, count: int, rng: np.random.Generator) -> Scatter:
    """Points drawn independently and uniformly by area."""
    upto = np.cumsum(areas(surface))
    chosen = np.searchsorted(upto, rng.random(count) * upto[-1], side="right").clip(max=len(surface) - 1)
    a, b = rng.random((2, count, 1))
    root = np.sqrt(a)
    corner = surface[chosen]
    points = corner[:, 0] * (1 - root) + corner[:, 1] * (root * (1 - b)) + corner[:, 2] * (root * b)
    return Scatter(points, normals(surface)[chosen], chosen)


def inside(points: FloatArray, surface: Surface) -> BoolArray:
    """Which points (n, 3) lie inside a closed surface: a ray upwards crosses it an odd number of times."""
    result = np.zeros(len(points), bool)
    low, high = surface.min(axis=(0, 1)), surface.max(axis=(0, 1))
    near = np.flatnonzero(((points > low) & (points < high)).all(axis=1))
    for some in np.array_split(near, -(-len(near) * len(surface) // 500_000)) if len(near) else []:
        result[some] = _crossings(points[some], surface) % 2 == 1
    return result


def _crossings(points: FloatArray, surface: Surface) -> npt.NDArray[np.int64]:
    """How many triangles lie above each point, along rays that lean by ``_LEAN``."""
    flat = surface[:, :, [0, 2]] - surface[:, :, 1:2] * _LEAN  # where the rays through the corners meet the ground
    side = flat[:, [1, 2, 0]] - flat
    inner = np.sign(side[:, 0, 0] * side[:, 1, 1] - side[:, 0, 1] * side[:, 1, 0])[:, None, None]
    edges = np.stack([-side[..., 1], side[..., 0], side[..., 1] * flat[..., 0] - side[..., 0] * flat[..., 1]], axis=2)
    plane = _crosses(surface)
    plane *= np.sign(plane[:, 1] + plane[:, [0, 2]] @ _LEAN)[:, None]  # upwards
    foot = points[:, [0, 2]] - points[:, 1:2] * _LEAN
    ground = np.insert(foot, 2, 1.0, axis=1)
    crossed = points @ plane.T < np.einsum("ti,ti->t", surface[:, 0], plane)
    for k in range(3):
        crossed &= ground @ (edges * inner)[:, k].T > 0
    return np.asarray(crossed.sum(axis=1))


def _walls(rings: FloatArray) -> Surface:
    """Two triangles for each side of each ring, up to the next ring."""
    low, high = rings[:-1], rings[1:]
    low_next, high_next = np.roll(low, -1, axis=1), np.roll(high, -1, axis=1)
    pairs = np.stack([np.stack([low, low_next, high_next], axis=2), np.stack([low, high_next, high], axis=2)])
    return pairs.reshape(-1, 3, 3)


def _lid(ring: FloatArray) -> Surface:
    """A fan of triangles from the middle of a ring."""
    middle = np.broadcast_to(ring.mean(axis=0), ring.shape)
    return np.stack([middle, ring, np.roll(ring, -1, axis=0)], axis=1)


def _ears(outline: FloatArray) -> npt.NDArray[np.int64]:
    """Corners (P - 2, 3) of the triangles that fill an outline, cut off one convex empty corner after another."""
    points = [(float(x), float(y)) for x, y in outline]
    turning = sum(ax * by - ay * bx for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True))
    left = list(range(len(points))) if turning > 0 else list(range(len(points)))[::-1]
    ears: list[tuple[int, int, int]] = []
    while len(left) > 2:
        for k in range(len(left)):
            ear = (left[k - 1], left[k], left[(k + 1) % len(left)])
            others = (points[i] for i in left if i not in ear)
            a, b, c = (points[i] for i in ear)
            if _side(a, b, c) > 0 and not any(_in_triangle(p, a, b, c) for p in others):
                ears.append(ear)
                del left[k]
                break
        else:
            raise InputError(
                f"outline must not cross or touch itself, nor go on straight: draw its {len(points)} points anew"
            )
    return np.array(ears)


def _side(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    """Twice the area of a triangle, positive where a, b, c run anticlockwise."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _in_triangle(p: Sequence[float], a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> bool:
    """Whether p lies in an anticlockwise triangle or on its edge."""
    return _side(a, b, p) >= 0 and _side(b, c, p) >= 0 and _side(c, a, p) >= 0


def _outward(surface: Surface) -> Surface:
    """The closed surface, turned inside out if its volume is negative."""
    volume = np.einsum("ti,ti->", surface[:, 0] - surface.mean(axis=(0, 1)), _crosses(surface))
    return surface if volume > 0 else surface[:, ::-1]


def _crosses(surface: Surface) -> FloatArray:
    """A normal (T, 3) of each triangle, twice as long as the triangle is large."""
    return np.cross(surface[:, 1] - surface[:, 0], surface[:, 2] - surface[:, 0])


def _unit(vectors: FloatArray) -> FloatArray:
    """Vectors (n, 3) at length 1; those of no length stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1))


def _rotation(axis: int, degrees: float) -> FloatArray:
    """The matrix of a turn around x (0), y (1) or z (2)."""
    angle = np.radians(degrees)
    matrix = np.eye(3)
    one, two = (axis + 1) % 3, (axis + 2) % 3
    matrix[[one, two], [one, two]] = np.cos(angle)
    matrix[two, one], matrix[one, two] = np.sin(angle), -np.sin(angle)
    return matrix


def _array(name: str, values: Numbers, columns: int) -> FloatArray:
    """Points as an array (P, columns) of at least two."""
    result = np.asarray(values, float)
    if result.ndim != 2 or result.shape[1] != columns or len(result) < 2:
        raise InputError(f"{name} must be (2 or more, {columns}), but got {result.shape}")
    return result
