"""CloudSet: labelled point clouds in files, pre-processed as the paper's code does."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from segcertify.arrays import FloatArray, IntArray
from segcertify.data.clouds.normals import NEIGHBOURS, estimated_normals
from segcertify.data.clouds.points import form, layout_of, location, read_points
from segcertify.data.dataset import DataSet
from segcertify.data.domain import CLOUD, Domain
from segcertify.data.label_codes import IGNORE, Target, decode, require_codes
from segcertify.data.scene import Scene
from segcertify.errors import InputError, require_integer
from segcertify.numerals import upper_digits
from segcertify.preprocessing import Preprocessing, of_cloud
from segcertify.storage import limits

XYZ = ("x", "y", "z")
NORMALS = ("nx", "ny", "nz")
LABEL = "label"
LAYOUTS = (XYZ, (*XYZ, LABEL), (*XYZ, *NORMALS), (*XYZ, *NORMALS, LABEL))
"""What a row of a single cloud's file may hold."""
POINTS = 2048
"""How many points the paper draws from each shape."""


class CloudFile(NamedTuple):
    """A file of labelled points, and what it shows."""

    id: str
    path: Path
    category: str = ""


class Cloud(NamedTuple):
    """A cloud as it was read: ``target`` is None where there are no labels."""

    x: npt.NDArray[np.float32]
    target: Target | None
    preprocessing: Preprocessing


@dataclass(frozen=True, eq=False, repr=False)
class CloudSet(DataSet):
    """Point clouds with ground truth, in a fixed order, each read from its file when asked for.

    The whole shape is centred at its mean and scaled so that its farthest point is at distance 1; then
    ``points`` rows are drawn with replacement, or all are taken (None). The draw depends on ``seed`` and the
    cloud's id alone, not on the order of reading. ``x`` has the columns x, y, z, with ``normals`` also nx, ny,
    nz as they are in the file; noise goes on x, y, z only.

    ``codes`` give the class, or IGNORE, of each label that a file may hold; any other label is an error, as is
    a class that is none of a cloud's category in ``categories``. ``columns`` are those of the files: x y z nx ny
    nz, ``label``, and others, which are passed over; PLY files name their own.
    """

    domain: ClassVar[Domain] = CLOUD

    items: tuple[CloudFile, ...]
    codes: Mapping[int, int]
    columns: tuple[str, ...]
    categories: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    label: str = LABEL
    normals: bool = False
    points: int | None = POINTS
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_codes(self.name, self.codes, len(self.classes), smallest=IGNORE)
        if self.points is not None and require_integer("points", self.points) > limits.POINTS:
            raise InputError(f"points must be at most {limits.POINTS:,}, but got {self.points!r:.40}")
        require_integer("seed", self.seed, at_least=0)
        wrong = [name for name in self._wanted() if self.columns.count(name) != 1]
        if wrong and any(form(cloud.path) != ".ply" for cloud in self.items):
            cure = ", or leave the normals out" if wrong[0] in NORMALS else ""
            raise InputError(
                f"{self.name}: the column {wrong[0]!r} must be there once, but the columns are "
                f"{' '.join(self.columns)}: say which columns the files have{cure}"
            )
        if others := {cloud.category for cloud in self.items if cloud.category} - set(self.categories):
            known = ", ".join(self.categories) or "none"
            raise InputError(f"{self.name}: unknown category {min(others)!r}: expected one of {known}")

    def __getitem__(self, index: int) -> Scene:
        """Read one scene."""
        cloud = self.items[index]
        x, target, preprocessing = self._shape(cloud)
        if self.points is not None:
            chosen = draw(len(x), self.points, seed=self.seed, cloud_id=cloud.id)
            drawn = {"points": [len(x), self.points], "repeats": int(np.bincount(chosen).max())}
            x, target = x[chosen], target[chosen]
            preprocessing = {**preprocessing, **drawn, "spread": _spread(x)}
        valid = target != IGNORE
        target = np.where(valid, target, 0)
        return Scene(cloud.id, x.astype(np.float32), target, valid, cloud.category, preprocessing)

    @property
    def preprocessing(self) -> Preprocessing:
        """Every cloud is centred and scaled."""
        return of_cloud()

    def check(self) -> None:
        """Read every file; an error names the first bad one."""
        for cloud in self.items:
            self._shape(cloud)

    def _shape(self, cloud: CloudFile) -> tuple[FloatArray, Target, Preprocessing]:
        """The whole shape, at the origin and of radius 1, its points' classes (or IGNORE), and its pre-processing."""
        _, path, category = cloud
        own = {IGNORE, *self.categories.get(category, range(len(self.classes)))}
        codes = {value: code for value, code in self.codes.items() if code in own}
        table = read_points(path, self.columns, self._wanted())
        x, preprocessing = _at_unit_radius(path, table[:, :-1])
        return x, _classes(path, table[:, -1], codes, category=category), preprocessing

    def _wanted(self) -> tuple[str, ...]:
        return (*XYZ, *(NORMALS if self.normals else ()), self.label)

    def _details(self) -> str:
        return f", {self.points or 'all'} points{' with normals' if self.normals else ''}"


def read_cloud(
    path: Path, codes: Mapping[int, int] | None, *, category: str = "", normals: bool | None = None
) -> Cloud:
    """One cloud from its file, with all its points, as a `CloudSet` makes it: x, and the target where there are labels.

    The columns (in PLY files the properties) are those of one of ``LAYOUTS``: x y z, then normals, labels, both
    or none. ``codes`` and ``category`` are as of a `CloudSet`; the target is IGNORE where there is no ground
    truth. Without ``codes`` labels are passed over. ``normals`` says whether ``x`` has them: None is as in the
    file. Where they are asked for and the file has none, they are estimated from its points, and the pre-processing
    says so.
    """
    columns = layout_of(path, LAYOUTS)
    left_out = {*(NORMALS if normals is False else ()), *((LABEL,) if codes is None else ())}
    wanted = [name for name in columns if name not in left_out]
    table, target = read_points(path, columns, wanted), None
    if codes is not None and LABEL in wanted:
        table, target = table[:, :-1], _classes(path, table[:, -1], codes, category=category)
    x, preprocessing = _at_unit_radius(path, table)
    if normals and not set(NORMALS) <= set(columns):
        x = np.concatenate([x, estimated_normals(x)], axis=1)
        preprocessing = {**preprocessing, "normals_from": NEIGHBOURS}
    return Cloud(x.astype(np.float32), target, preprocessing)


def _classes(path: Path, labels: FloatArray, codes: Mapping[int, int], *, category: str) -> Target:
    """The class of each label in a file, IGNORE where there is none."""
    broken = labels != np.rint(labels)
    if broken.any():
        row = int(broken.argmax())
        raise InputError(f"{location(path, row)}: the label {labels[row]:g} is not a whole number: correct it")
    kind = f"a class of {category}" if category else "a class"
    return decode(labels, codes, where=lambda row: location(path, row), kind=kind)


def name_suffix(*, points: int | None, normals: bool) -> str:
    """What a data set's name adds where a cloud is not made as in the paper's rows without normals."""
    drawn = "" if points == POINTS else f" of {points or 'all'} points"
    return f"{drawn}{' with normals' if normals else ''}"


def _at_unit_radius(path: Path, table: FloatArray) -> tuple[FloatArray, Preprocessing]:
    """Points moved so that their mean is 0, scaled so that the farthest is at distance 1; normals stay as they are."""
    centre: FloatArray = table[:, :3].mean(axis=0)
    centred: FloatArray = table[:, :3] - centre
    radius = float(np.linalg.norm(centred, axis=1).max())
    if not radius > 0:
        raise InputError(f"{path}: all {len(table)} points lie in one place, so the shape has no size: remove it")
    x = np.concatenate([centred / radius, table[:, 3:]], axis=1)
    return x, of_cloud(centre.tolist(), 1 / radius, spread=_spread(x))


def _spread(x: FloatArray) -> float:
    """The square root of the sum of all squared distances from the origin, rounded up to six digits."""
    return float(upper_digits(math.sqrt(float(np.square(x[:, :3]).sum()))))


def draw(count: int, points: int, *, seed: int, cloud_id: str) -> IntArray:
    """Which ``points`` of ``count`` rows are taken, with replacement: a function of the arguments alone."""
    text = json.dumps(["segcertify cloud 1", seed, cloud_id])
    key = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(key, "little"))).integers(count, size=points)
