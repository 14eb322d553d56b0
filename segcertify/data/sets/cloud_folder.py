"""Any folder of labelled point clouds, described by a small ``dataset.toml``."""

from collections.abc import Mapping
from pathlib import Path

from segcertify.data.clouds.cloudset import LABEL, POINTS, XYZ, CloudFile, CloudSet, name_suffix
from segcertify.data.files import find_files
from segcertify.data.label_codes import IGNORE
from segcertify.data.sets.dataset_toml import DatasetToml
from segcertify.errors import InputError
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES

_KEYS = ("clouds", "suffix", "columns", "label", "categories")


def load(root: Path, split: str | None = None, *, normals: bool = False, points: int | None = POINTS) -> CloudSet:
    """The data set that ``root/dataset.toml`` describes; only ``classes`` is required::

        name = "my clouds"                     # by default the folder's name
        clouds = "{split}/clouds"              # the folder below root; {split} is filled in ("val" by default)
        suffix = [".txt", ".npy", ".ply"]      # a cloud is clouds/ID + suffix; one or several
        columns = ["x", "y", "z", "red", "nx", "ny", "nz", "label"]  # by default x, y, z, label
        label = "label"                        # the column, or the PLY property, with the label
        classes = ["seat", "leg", "top"]       # labels 0, 1, ... unless there is a label_map
        colours = [[68, 119, 170], [238, 102, 119], [34, 136, 51]]  # of the classes, 0 .. 255
        ignore = -1                            # one label or several: no ground truth there

        [label_map]                            # label = class, where labels are not 0, 1, ...
        7 = "seat"
        8 = "leg"
        9 = "top"

        [categories]                           # subfolder = what its clouds show
        chairs = "Chair"
        tables = "Table"

    A text file (every suffix but ``.npy`` and ``.ply``) has the columns' numbers in each line, with spaces between; a
    ``.npy`` file is an array (points, columns); a PLY file, text or binary, names the properties of its vertices.
    Other columns and properties than x, y, z, the normals and the label are passed over. Each cloud is pre-processed
    as `CloudSet` says. With categories every cloud must lie in one of the subfolders. Where the classes are
    ShapeNet's 50 parts (``segcertify.metrics.shapenet.PART_NAMES``) and the category is one of its 16, only that
    category's parts may occur; else a category may have any of the classes.
    """
    toml = DatasetToml(root, _KEYS, see="segcertify.data.sets.cloud_folder")
    name, (folder,) = toml.folders(split, "clouds")
    categories, own = _categories(toml), CATEGORIES if toml.classes == PART_NAMES else {}
    return CloudSet(
        f"{name}{name_suffix(points=points, normals=normals)}", toml.classes, toml.colours(),
        _clouds(folder, toml.texts("suffix", [".txt", ".npy", ".ply"]), categories),
        codes=toml.codes(smallest=IGNORE), columns=toml.texts("columns", [*XYZ, LABEL]),
        categories={category: own.get(category, tuple(range(len(toml.classes)))) for category in categories.values()},
        label=toml.text("label", LABEL), normals=normals, points=points,
    )  # fmt: skip


def _categories(toml: DatasetToml) -> dict[str, str]:
    """The category of each subfolder."""
    categories = toml.table("categories")
    for folder, category in categories.items():
        if not isinstance(category, str) or not category:
            raise InputError(
                f'{toml.path}: categories takes a subfolder and a name, such as chairs = "Chair", '
                f"but has {folder} = {category!r}"
            )
    return categories


def _clouds(folder: Path, suffixes: tuple[str, ...], categories: Mapping[str, str]) -> tuple[CloudFile, ...]:
    """Every cloud under a folder, by name, with the category of the subfolder that it lies in."""
    found = find_files(folder, suffixes)
    if not found:
        raise InputError(f"no cloud ending in {' or '.join(suffixes)} in {folder}: check the path and the suffix")
    clouds = []
    for name, path in sorted(found.items()):
        below = name.partition("/")[0] if "/" in name else ""
        if categories and below not in categories:
            raise InputError(
                f"{path} lies in none of the subfolders that have a category ({', '.join(categories)}): "
                "move it there, or add its subfolder to the categories"
            )
        clouds.append(CloudFile(name, path, categories.get(below, "")))
    return tuple(clouds)
