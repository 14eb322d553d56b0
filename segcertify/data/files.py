"""Files of a data set: which there are, and the arrays of numbers in ``.npy`` files."""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import is_folder, is_there, readable

FOLDER_COUNTS = 20
"""As how many files a folder counts: it takes as long to look through."""


def find_files(folder: Path, suffixes: Sequence[str], *, others: Sequence[str] = ()) -> dict[str, Path]:
    """The files under a folder, by ID: the path below it without its suffix.

    A name that ends in a longer one of the ``others`` is left out.
    """
    require_folder(folder)
    found: dict[str, Path] = {}
    for path in _files_below(folder):
        own = max((len(suffix) for suffix in suffixes if path.name.endswith(suffix)), default=0)
        other = max((len(suffix) for suffix in others if path.name.endswith(suffix)), default=0)
        if path.name.startswith(".") or own <= other:
            continue
        key = path.relative_to(folder).as_posix()[:-own]
        if key in found:
            raise InputError(f"{found[key]} and {path} share the name {key!r}: keep one of them")
        found[key] = path
    return found


def require_folder(folder: Path) -> Path:
    """The folder, if there is one."""
    if not is_folder(folder):
        raise InputError(f"no folder at {folder}: check the path of the data set, and the split")
    return folder


def _files_below(folder: Path) -> Iterator[Path]:
    """All files under a folder, links followed. Refuses a folder that links to one above it, and too much of all."""
    above: dict[str, frozenset[tuple[int, int]]] = {str(folder): frozenset()}
    count = 0
    for parent, folders, names in os.walk(folder, followlinks=True):
        status, seen = os.stat(parent), above.pop(parent)
        here = (status.st_dev, status.st_ino)
        if here in seen:
            raise InputError(f"{parent} is a link to a folder above it, a loop of links: remove the link")
        if len(seen) > limits.FOLDERS:
            raise InputError(f"{parent} lies more than {limits.FOLDERS} folders deep: is {folder} the right folder?")
        count += FOLDER_COUNTS * len(folders) + len(names)
        if count > limits.FILES:
            raise InputError(f"there are too many files and folders under {folder}: is it the right folder?")
        above |= {os.path.join(parent, name): seen | {here} for name in folders}
        yield from (Path(parent, name) for name in names)


def first_folder(folders: Sequence[Path], holding: str, *, cure: str) -> Path:
    """The first of some folders that holds a file or folder of this name."""
    found = next((folder for folder in folders if is_there(folder / holding)), None)
    if found is None:
        raise InputError(f"no {holding} in {folders[0]}: {cure}")
    return found


def split_folder(parent: Path, split: str) -> Path:
    """The folder of one split, or an error that says which splits there are."""
    if not is_folder(parent):
        raise InputError(f"no folder at {parent}: check the path of the data set")
    if not split or Path(split).name != split or not is_folder(parent / split):
        there = ", ".join(sorted(path.name for path in parent.iterdir() if path.is_dir())) or "none"
        raise InputError(f"no split {split!r} in {parent}: the folders there are {there}")
    return parent / split


def read_npy(path: Path) -> Array:
    """The array of numbers in a ``.npy`` file; nothing is unpickled, and nothing larger than the file is made."""
    with readable(path, most=limits.ARRAY_BYTES).open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, fortran, dtype = read_header[version](file)
            content = file.read()
        except Exception as error:  # NumPy evaluates the header as Python's literals, which fail in many ways
            raise InputError(f"{path} is not a readable .npy file of numbers ({error!s:.200})") from None
    if dtype.hasobject:
        raise InputError(f"{path} is not a readable .npy file of numbers (it holds objects, which are not unpickled)")
    if not np.issubdtype(dtype, np.number):
        raise InputError(f"{path} must hold one array of numbers, but holds {dtype}")
    if not all(isinstance(side, int) and side >= 0 for side in shape) or len(shape) > 16:
        raise InputError(f"{path} is not a readable .npy file of numbers (its shape is {shape!s:.100})")
    size = math.prod(shape) * dtype.itemsize
    if size > len(content):
        raise InputError(f"{path} promises {size:,} bytes of numbers, but holds {len(content):,}: is it cut?")
    return np.ndarray(shape, dtype, content, order="F" if fortran else "C")
