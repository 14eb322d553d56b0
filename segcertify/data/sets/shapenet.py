"""ShapeNet-Part (Yi et al. 2016) with normals: 16 categories of shapes, 50 parts."""

from collections.abc import Sequence
from pathlib import Path

from segcertify.data.clouds.cloudset import LABEL, NORMALS, POINTS, XYZ, CloudFile, CloudSet, name_suffix
from segcertify.data.files import first_folder
from segcertify.errors import InputError, unknown
from segcertify.figures.palette import part_colours
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.storage import limits
from segcertify.storage.plain_values import loads
from segcertify.storage.reading import is_file, read_lines, read_text

FOLDER = "shapenetcore_partanno_segmentation_benchmark_v0_normal"
SPLITS = {"train": ("train",), "val": ("val",), "test": ("test",), "trainval": ("train", "val")}
"""The lists that each split takes."""

_SYNSETS = "synsetoffset2category.txt"


def load(
    root: Path, split: str | None = None, *, category: Sequence[str] = (), normals: bool = False,
    points: int | None = POINTS, available: bool = False,
) -> CloudSet:  # fmt: skip
    """ShapeNet-Part from the original folders, split ``test`` (2,874 shapes) by default.

    ``root`` is ``shapenetcore_partanno_segmentation_benchmark_v0_normal`` or the folder that holds it. There lie
    ``synsetoffset2category.txt``, ``train_test_split/shuffled_{train,val,test}_file_list.json`` and
    ``SYNSET/ID.txt``, with x y z nx ny nz part in each line. Splits are ``train``, ``val``, ``test`` and
    ``trainval``; ``category`` takes some of the 16 categories, ``points`` how many points are drawn (`CloudSet`).
    A listed shape that is absent is an error, unless ``available`` takes those that are there.

    A shape's id is ``Airplane/ID``. The order is by category and then by name, as in the code that the paper
    uses: ``.every(28).limit(100)`` gives 100 shapes [Fischer2021, app. A]; without the limit there are 103.
    """
    split = split or "test"
    folders, cure = [root, root / FOLDER], f"give the folder {FOLDER}, or the one that holds it"
    folder = first_folder(folders, _SYNSETS, cure=cure)
    if split not in SPLITS:
        raise InputError(f"no split {split!r} in shapenet: use {', '.join(SPLITS)}")
    require_categories(category)
    synsets = _synsets(folder / _SYNSETS)
    listed = sorted(cloud for part in SPLITS[split] for cloud in _listed(folder, part, synsets))
    clouds = [cloud for cloud in listed if not category or cloud.category in category]
    name = f"{split} {','.join(category)}" if category else split
    if not clouds:
        raise InputError(f"{folder} lists no shapes of {name}: check the split and the category")
    return CloudSet(
        f"shapenet/{name}{name_suffix(points=points, normals=normals)}", PART_NAMES, part_colours(CATEGORIES.values()),
        _present(clouds, split, available=available), codes={part: part for part in range(len(PART_NAMES))},
        columns=(*XYZ, *NORMALS, LABEL), categories=CATEGORIES, normals=normals, points=points,
    )  # fmt: skip


def require_categories(category: Sequence[str]) -> None:
    """Refuse a name that is none of the 16 categories."""
    if isinstance(category, str):
        raise InputError(f"category must be a sequence of names such as [{category!r}], but got {category!r}")
    if others := [name for name in category if name not in CATEGORIES]:
        raise unknown("category", others[0], CATEGORIES)


def _synsets(path: Path) -> dict[str, str]:
    """The category of each synset."""
    synsets = {}
    for number, line in enumerate(read_lines(path, cure="fetch it again"), 1):
        if not line.strip() and number > 1:
            continue
        words = line.split()
        if len(words) != 2 or words[0] not in CATEGORIES:
            raise InputError(
                f"{path}, line {number}: expected a category and its synset, such as 'Airplane 02691156', "
                f"but got {line[:60]!r}: fetch the file again"
            )
        synsets[words[1]] = words[0]
    return synsets


def _listed(folder: Path, split: str, synsets: dict[str, str]) -> list[CloudFile]:
    """The shapes of one list, there or not."""
    path = folder / "train_test_split" / f"shuffled_{split}_file_list.json"
    missing = f"no list of the split {split!r} at {path}: fetch it with the data set"
    try:
        entries = loads(read_text(path, most=limits.JSON_BYTES, missing=missing, cure="fetch it again"))
    except InputError as error:
        raise InputError(
            str(error) if str(path) in str(error) else f"{path} cannot be read ({error}): fetch it again"
        ) from None
    clouds = []
    for entry in entries if isinstance(entries, list) else [entries]:
        parts = entry.split("/") if isinstance(entry, str) else []
        if len(parts) != 3 or parts[1] not in synsets:
            raise InputError(
                f"{path} holds {entry!r:.100}, but an entry is shape_data/SYNSET/ID with a synset of {_SYNSETS}: "
                "fetch it again"
            )
        _, synset, shape = parts
        clouds.append(CloudFile(f"{synsets[synset]}/{shape}", folder / synset / f"{shape}.txt", synsets[synset]))
    return clouds


def _present(clouds: Sequence[CloudFile], split: str, *, available: bool) -> tuple[CloudFile, ...]:
    """The shapes whose files are there: all of them, unless fewer are asked for."""
    present = tuple(cloud for cloud in clouds if is_file(cloud.path))
    absent = len(clouds) - len(present)
    if absent and not (available and present):
        first = next(cloud.path for cloud in clouds if not is_file(cloud.path))
        cure = "" if available or not present else f", or take the {len(present)} others with available=true"
        raise InputError(
            f"{absent} of {len(clouds)} shapes of the split {split!r} are absent, such as {first}: "
            f"fetch the data set again{cure}"
        )
    return present
