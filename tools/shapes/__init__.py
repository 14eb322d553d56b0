"""Generated shapes with parts, like those of ShapeNet-Part: for the file that segcertify ships, and for training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from segcertify.data.scene import Scene
from segcertify.errors import InputError, require_integer
from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.air import airplane, rocket
from tools.shapes.assembly import Builder, Labels, seen
from tools.shapes.furniture import chair, table
from tools.shapes.handheld import guitar, knife, pistol
from tools.shapes.home import bag, lamp, laptop, mug
from tools.shapes.motorbike import motorbike
from tools.shapes.road import car, skateboard
from tools.shapes.worn import cap, earphone

_BUILDERS = (
    airplane, bag, cap, car, chair, earphone, guitar, knife, lamp, laptop, motorbike, mug, pistol, rocket, skateboard,
    table,
)  # fmt: skip
BUILDERS: dict[str, Builder] = dict(zip(CATEGORIES, _BUILDERS, strict=True))
"""The function that puts together a shape of each category."""

STRETCH = 0.06
"""How much a shape is stretched along each axis: the standard deviation of the factor's logarithm."""
TWO_SIDED = 0.3
"""The share of shapes whose normals point to either side. About a third of the real ones have such normals."""
POINTS = 2048


def shapes(*, count: int, seed: int, category: Sequence[str] = (), points: int = POINTS) -> Iterator[Scene]:
    """``count`` shapes with normals, x of the columns x, y, z, nx, ny, nz; another seed gives other shapes.

    The categories take turns: all 16, or those that ``category`` names. Shape i
    depends on ``seed`` and i alone and has an id such as ``Chair-000004``.
    """
    require_integer("seed", seed, at_least=0)
    cycle = [*category] or [*BUILDERS]
    for name in cycle:
        _require_category(name)
    for number in range(require_integer("count", count)):
        name = cycle[number % len(cycle)]
        cloud, parts = generate(name, np.random.default_rng([seed, number]), points)
        yield Scene(f"{name}-{number:06d}", cloud, parts, np.ones(points, bool), name)


def generate(category: str, rng: np.random.Generator, points: int = POINTS) -> tuple[npt.NDArray[np.float32], Labels]:
    """A random shape of a category: x, y, z, nx, ny, nz (points, 6) and the points' parts (points,).

    It stands as in ShapeNet-Part: y is up, x is forward, its points' mean is the
    origin and the farthest point is at distance 1. The points are independent and
    uniform by area over the visible surface, and the parts are numbered as
    in ``CATEGORIES``. Normals point outwards, but to either side on thin sheets
    and on all of a shape for ``TWO_SIDED`` of the shapes.

    >>> cloud, parts = generate("Mug", np.random.default_rng(0), points=100)
    >>> cloud.shape, sorted(set(parts.tolist()))
    ((100, 6), [36, 37])
    """
    _require_category(category)
    require_integer("points", points, at_least=2)
    stretch = np.exp(rng.normal(0, STRETCH, 3))
    pieces = [piece._replace(surface=piece.surface * stretch) for piece in BUILDERS[category](rng)]
    cloud, labels = seen(pieces, points, rng)
    cloud[:, :3] -= cloud[:, :3].mean(axis=0)
    cloud[:, :3] /= np.linalg.norm(cloud[:, :3], axis=1).max()
    if rng.random() < TWO_SIDED:
        cloud[:, 3:] *= rng.choice([-1, 1], (points, 1))
    return cloud.astype(np.float32), labels


def _require_category(name: str) -> None:
    if name not in BUILDERS:
        raise InputError(f"unknown category {name!r}: use {', '.join(BUILDERS)}")
