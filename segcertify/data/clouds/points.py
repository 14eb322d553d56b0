"""Points in files: one cloud as a table of numbers, from text, ``.npy``, PLY or PCD."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.data.clouds.csv import read_csv
from segcertify.data.clouds.pcd import pcd_fields, read_pcd
from segcertify.data.clouds.ply import ply_properties, read_ply
from segcertify.data.clouds.text import numbered_lines, parse_lines
from segcertify.data.files import read_npy
from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import read_lines

_LARGEST = float(np.finfo(np.float32).max)


def form(path: Path) -> str:
    """The form of a file by its suffix, in whatever case."""
    return path.suffix.lower()


def read_points(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> FloatArray:
    """The wanted columns of each point, (points, wanted), all finite.

    ``.npy`` files and text files (all but ``.npy``, ``.ply`` and ``.pcd``) hold
    ``columns``, a row for each point; PLY files, PCD files and CSV files with a line of names say what they hold.
    """
    if form(path) == ".ply":
        table = read_ply(path, wanted)
    elif form(path) == ".pcd":
        table = read_pcd(path, wanted)
    elif form(path) == ".csv" and (csv := read_csv(path)).names:
        table = csv.table(wanted, path=path)
    else:
        rows = _array(path, columns) if form(path) == ".npy" else parse_lines(_lines(path), columns, path=path)
        table = rows[:, [columns.index(name) for name in wanted]]
    if not len(table):
        raise InputError(f"{path} holds no points: remove it, or fetch it again")
    bad = ~(np.abs(table) <= _LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{location(path, row)}: {wanted[column]} is {table[row, column]:g}, not a finite number of single "
            "precision: correct it, or remove the point"
        )
    return table


def layout_of(path: Path, layouts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The layout of a file: the one with as many columns, or the longest whose names the file has all."""
    names = _names(path)
    if names is not None:
        fitting = [layout for layout in layouts if set(layout) <= set(names)]
        found = f"the properties {', '.join(names) or 'none'}"
    else:
        count = _width(path)
        fitting = [layout for layout in layouts if len(layout) == count]
        found = f"{count} column{'s' * (count != 1)}"
    if not fitting:
        ways = ", ".join(f"{len(layout)} ({' '.join(layout)})" for layout in layouts)
        raise InputError(f"{path} has {found}, but a cloud has {ways}: write one of these, in text with spaces between")
    return max(fitting, key=len)


def _names(path: Path) -> tuple[str, ...] | None:
    """What a file calls the numbers of its points; None if it does not name them."""
    match form(path):
        case ".ply":
            return ply_properties(path)
        case ".pcd":
            return pcd_fields(path)
        case ".csv":
            return read_csv(path).names or None
    return None


def location(path: Path, index: int) -> str:
    """Where a point is in its file: the line of a text file, else its number, counted from 1."""
    if form(path) in (".npy", ".ply", ".pcd"):
        return f"{path}, point {index + 1}"
    return f"{path}, line {[number for number, _ in numbered_lines(_lines(path))][index]}"


def _width(path: Path) -> int:
    """How many columns a file has, by its first point."""
    if form(path) == ".npy":
        array = read_npy(path)
        if array.ndim != 2:
            raise InputError(f"{path} must hold one cloud (points, columns), but holds {array.dtype} {array.shape}")
        return int(array.shape[1])
    first = next((text for _, text in numbered_lines(_lines(path))), None)
    if first is None:
        raise InputError(f"{path} holds no points: remove it, or fetch it again")
    return len(first.split())


def _lines(path: Path) -> list[str]:
    if form(path) == ".csv":
        return read_csv(path).lines
    return read_lines(path, cure="a file's suffix must say what it is")


def _array(path: Path, columns: Sequence[str]) -> FloatArray:
    array = read_npy(path)
    if len(array.shape) == 2 and len(array) > limits.POINTS:
        raise InputError(f"{path} has {len(array):,} points, but at most {limits.POINTS:,} are read: thin it out")
    if array.ndim != 2 or array.shape[1] != len(columns) or np.iscomplexobj(array):
        raise InputError(
            f"{path} must hold real numbers (points, {len(columns)}), the columns {' '.join(columns)}, "
            f"but holds {array.dtype} {array.shape}: correct the file, or say which columns it has"
        )
    return array.astype(np.float64)
