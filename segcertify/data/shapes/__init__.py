"""Generated shapes with parts, like those of ShapeNet-Part: for training, the demo and tests, without a download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from segcertify.data.clouds.cloudset import POINTS, name_suffix
from segcertify.data.dataset import DataSet
from segcertify.data.domain import CLOUD, Domain
from segcertify.data.scene import Scene
from segcertify.data.shapes.air import airplane, rocket
from segcertify.data.shapes.furniture import chair, table
from segcertify.data.shapes.held import guitar, knife, pistol
from segcertify.data.shapes.home import bag, lamp, laptop, mug
from segcertify.data.shapes.motorbike import motorbike
from segcertify.data.shapes.pieces import Builder, Labels, seen
from segcertify.data.shapes.road import car, skateboard
from segcertify.data.shapes.worn import cap, earphone
from segcertify.errors import InputError, require_integer, unknown
from segcertify.figures.palette import part_colours
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.specs import FLAG, INTEGER, NAMES

BUILDERS: dict[str, Builder] = {
    "Airplane": airplane,
    "Bag": bag,
    "Cap": cap,
    "Car": car,
    "Chair": chair,
    "Earphone": earphone,
    "Guitar": guitar,
    "Knife": knife,
    "Lamp": lamp,
    "Laptop": laptop,
    "Motorbike": motorbike,
    "Mug": mug,
    "Pistol": pistol,
    "Rocket": rocket,
    "Skateboard": skateboard,
    "Table": table,
}
"""What puts together a shape of each category."""

STRETCH = 0.06
"""How much a shape is stretched along each axis: the standard deviation of the factor's logarithm."""
TWO_SIDED = 0.3
"""The share of shapes whose normals point to either side, as about a third of the real ones do."""
OPTIONS = {"count": INTEGER, "seed": INTEGER, "category": NAMES, "normals": FLAG, "points": INTEGER}
"""What a spec may say of these shapes: ``shapes:?count=160&seed=0&category=Chair,Table&normals=true``."""


class Plan(NamedTuple):
    """Which shape is to be made: its number says how it differs from others of its category."""

    id: str
    category: str
    number: int


@dataclass(frozen=True, eq=False, repr=False)
class ShapeSet(DataSet):
    """Generated shapes, each made when asked for, always alike: from ``seed`` and its number alone.

    ``x`` is as `generate` gives it, without the normals unless ``normals`` says
    so; noise goes on x, y, z only.
    """

    domain: ClassVar[Domain] = CLOUD
    categories = cast(Mapping[str, tuple[int, ...]], CATEGORIES)

    items: tuple[Plan, ...]
    seed: int = 0
    normals: bool = False
    points: int = POINTS

    def __getitem__(self, index: int) -> Scene:
        """Make one scene."""
        name, category, number = self.items[index]
        cloud, parts = generate(category, np.random.default_rng([self.seed, number]), self.points)
        return Scene(name, cloud if self.normals else cloud[:, :3], parts, np.ones(self.points, bool), category)

    def check(self) -> None:
        """Nothing is read, so nothing can be wrong."""

    def _details(self) -> str:
        return f", {self.points} points{' with normals' if self.normals else ''}"


def load(
    split: str | None = None,
    *,
    count: int = 160,
    seed: int = 0,
    category: Sequence[str] = (),
    normals: bool = False,
    points: int = POINTS,
) -> ShapeSet:
    """``count`` generated shapes; those of another seed are others.

    Shape i is of category i in turn, of all 16 unless ``category`` names some,
    and called ``Chair-000004``. There are no splits.

    >>> load(count=100, category=["Chair", "Table"])
    ShapeSet(shapes/100 of seed 0 Chair,Table: 100 scenes, 50 classes, 2048 points; first 'Chair-000000')
    """
    if split is not None:
        raise InputError(f"shapes have no splits, but got {split!r}: take another seed for other shapes")
    if isinstance(category, str):
        raise InputError(f"category must be a sequence of names such as [{category!r}], but got {category!r}")
    for name in category:
        _require_category(name)
    require_integer("seed", seed, at_least=0)
    cycle = [*category] or [*BUILDERS]
    numbered = [(number, cycle[number % len(cycle)]) for number in range(require_integer("count", count))]
    chosen = f" {','.join(category)}" if category else ""
    return ShapeSet(
        name=f"shapes/{count} of seed {seed}{chosen}{name_suffix(points=points, normals=normals)}",
        classes=PART_NAMES,
        colours=part_colours(CATEGORIES.values()),
        items=tuple(Plan(f"{name}-{number:06d}", name, number) for number, name in numbered),
        seed=seed,
        normals=normals,
        points=require_integer("points", points, at_least=2),
    )


def generate(category: str, rng: np.random.Generator, points: int = POINTS) -> tuple[npt.NDArray[np.float32], Labels]:
    """A random shape of a category: x, y, z, nx, ny, nz (points, 6) and the points' parts (points,).

    It stands as in ShapeNet-Part: y is up, x is forward, its points' mean is the
    origin and the farthest point at distance 1. The points are independent and
    uniform by area over what is seen of its pieces, and the parts are numbered as
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
        raise unknown("category", name, BUILDERS)
