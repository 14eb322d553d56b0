"""Files of a data set: which there are, and the arrays of numbers in ``.npy`` files."""

import os
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError

import numpy as np

from segcertify.arrays import Array
from segcertify.errors import InputError


def require_file(path: Path) -> None:
    """Refuse a path without a file."""
    if not path.is_file():
        raise InputError(f"no file at {path}")


def find_files(folder: Path, suffixes: Sequence[str], *, others: Sequence[str] = ()) -> dict[str, Path]:
    """The files under a folder, by ID: the path below it without its suffix.

    A name that ends in a longer one of the ``others`` is left out.
    """
    if not folder.is_dir():
        raise InputError(f"no folder at {folder}: check the path of the data set, and the split")
    found: dict[str, Path] = {}
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            own = max((len(suffix) for suffix in suffixes if name.endswith(suffix)), default=0)
            other = max((len(suffix) for suffix in others if name.endswith(suffix)), default=0)
            if name.startswith(".") or own <= other:
                continue
            path = Path(parent, name)
            key = path.relative_to(folder).as_posix()[:-own]
            if key in found:
                raise InputError(f"{found[key]} and {path} share the name {key!r}: keep one of them")
            found[key] = path
    return found


def first_folder(folders: Sequence[Path], holding: str, *, cure: str) -> Path:
    """The first of some folders that holds a file or folder of this name."""
    found = next((folder for folder in folders if (folder / holding).exists()), None)
    if found is None:
        raise InputError(f"no {holding} in {folders[0]}: {cure}")
    return found


def split_folder(parent: Path, split: str) -> Path:
    """The folder of one split, or an error that says which splits there are."""
    if not parent.is_dir():
        raise InputError(f"no folder at {parent}: check the path of the data set")
    if not split or Path(split).name != split or not (parent / split).is_dir():
        there = ", ".join(sorted(path.name for path in parent.iterdir() if path.is_dir())) or "none"
        raise InputError(f"no split {split!r} in {parent}: the folders there are {there}")
    return parent / split


def read_npy(path: Path) -> Array:
    """The array of numbers in a ``.npy`` file; nothing is unpickled."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, SyntaxError, TokenError) as error:
        raise InputError(f"{path} is not a readable .npy file of numbers ({error})") from None
    if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.number):
        kind = getattr(array, "dtype", type(array).__name__)
        raise InputError(f"{path} must hold one array of numbers, but holds {kind}")
    return array
