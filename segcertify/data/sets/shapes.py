"""Generated shapes with parts, like those of ShapeNet-Part: they ship with segcertify, for the demo and for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from segcertify.data.clouds.cloudset import POINTS, name_suffix
from segcertify.data.dataset import DataSet
from segcertify.data.domain import CLOUD, Domain
from segcertify.data.scene import Scene
from segcertify.data.sets.shapenet import require_categories
from segcertify.errors import InputError, require_integer
from segcertify.figures.palette import part_colours
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.specs import FLAG, INTEGER, NAMES, Option
from segcertify.storage import archive

SEED = 2021
"""The seed of the shapes that ship: the model `parts` was trained on those of seed 0."""
KIND, VERSION = "shapes", 2
XYZ, NORMALS = 32767, 127
"""In the file, coordinates and normals are integers: 1 is written as this."""
OPTIONS = {"count": INTEGER, "seed": Option(str(SEED), int), "category": NAMES, "normals": FLAG, "points": INTEGER}


class Shape(NamedTuple):
    """A shape's name and category, its points and normals (points, 6), and the points' parts (points,)."""

    id: str
    category: str
    cloud: npt.NDArray[np.float32]
    parts: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class ShapeSet(DataSet):
    """The shapes that ship; ``x`` has the columns x, y, z and, with ``normals``, nx, ny, nz. Noise goes on x, y, z."""

    domain: ClassVar[Domain] = CLOUD
    categories = cast(Mapping[str, tuple[int, ...]], CATEGORIES)

    items: tuple[Shape, ...]
    normals: bool = False
    points: int = POINTS

    def __getitem__(self, index: int) -> Scene:
        """One shape, with the first ``points`` of its points."""
        name, category, cloud, parts = self.items[index]
        x = cloud[: self.points, : 6 if self.normals else 3].copy()
        return Scene(name, x, parts[: self.points].copy(), np.ones(self.points, bool), category)

    def check(self) -> None:
        """Nothing is left to read."""

    def _details(self) -> str:
        return f", {self.points} points{' with normals' if self.normals else ''}"


def load(
    split: str | None = None, *, count: int | None = None, seed: int = SEED, category: Sequence[str] = (),
    normals: bool = False, points: int = POINTS,
) -> ShapeSet:  # fmt: skip
    """The first ``count`` of the shapes that ship, three of each category; all of them by default.

    ``category`` names the categories to take. The points are independent and
    uniform over the surface, so the first ``points`` of them are a smaller sample.

    >>> load(category=["Chair"], normals=True)
    ShapeSet(shapes/3 of seed 2021 Chair with normals: 3 scenes, 50 classes, 2048 points with normals; first ...)
    """
    more = "make others with python -m tools.shapes of the repository, and load them as clouds:FOLDER"
    if split is not None:
        raise InputError(f"shapes have no splits, but got {split!r}: {more}")
    require_categories(category)
    if require_integer("seed", seed, at_least=0) != SEED:
        raise InputError(f"only the shapes of seed {SEED} ship with segcertify, but got seed {seed}: {more}")
    shapes = tuple(shape for shape in _shipped() if not category or shape.category in category)
    count = len(shapes) if count is None else require_integer("count", count)
    for what, wanted, most in (("shapes", count, len(shapes)), ("points", points, POINTS)):
        if wanted > most:
            raise InputError(f"{most} {what} ship with segcertify, but got {what} = {wanted}: {more}")
    require_integer("points", points, at_least=2)
    chosen = f" {','.join(category)}" if category else ""
    name = f"shapes/{count} of seed {SEED}{chosen}{name_suffix(points=points, normals=normals)}"
    return ShapeSet(name, PART_NAMES, part_colours(CATEGORIES.values()), shapes[:count], normals, points)


@cache
def _shipped() -> tuple[Shape, ...]:
    """The shapes in the file, in its order."""
    with as_file(files("segcertify.data.sets") / "shapes.safetensors") as path:
        header, arrays = archive.read(path, kind=KIND, version=VERSION, migrations={1: dict})
    normals = arrays["normals"].astype(np.float32)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    clouds = np.concatenate([arrays["xyz"] / np.float32(XYZ), normals], axis=-1)
    return tuple(map(Shape, header["ids"], header["categories"], clouds, arrays["parts"].astype(np.int32)))
