"""Points in files: one cloud as rows of numbers, from text, ``.npy`` or PLY."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.data.files import read_npy
from segcertify.data.ply import read_ply
from segcertify.data.rows import numbered, parse_rows
from segcertify.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)


def read_points(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> FloatArray:
    """The wanted columns of each point, (points, wanted), all finite.

    ``.npy`` files and text files (all but ``.npy`` and ``.ply``) hold
    ``columns``, a row for each point; PLY files say themselves what they hold.
    """
    if not path.is_file():
        raise InputError(f"no file at {path}")
    if path.suffix == ".ply":
        table = read_ply(path, wanted)
    else:
        rows = _array(path, columns) if path.suffix == ".npy" else parse_rows(_lines(path), columns, path=path)
        table = rows[:, [columns.index(name) for name in wanted]]
    if not len(table):
        raise InputError(f"{path} holds no points: remove it, or fetch it again")
    bad = ~(np.abs(table) <= _LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{place(path, row)}: {wanted[column]} is {table[row, column]:g}, not a finite number of single precision: "
            "correct it, or remove the point"
        )
    return table


def place(path: Path, row: int) -> str:
    """Where a row of a file lies: its line in a text file, else which point it is, counted from 1."""
    if path.suffix in (".npy", ".ply"):
        return f"{path}, point {row + 1}"
    return f"{path}, line {[number for number, _ in numbered(_lines(path))][row]}"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file of numbers: its suffix must say what it is") from None


def _array(path: Path, columns: Sequence[str]) -> FloatArray:
    array = read_npy(path)
    if array.ndim != 2 or array.shape[1] != len(columns) or np.iscomplexobj(array):
        raise InputError(
            f"{path} must hold real numbers (points, {len(columns)}), the columns {' '.join(columns)}, "
            f"but holds {array.dtype} {array.shape}: correct the file, or say which columns it has"
        )
    return array.astype(np.float64)
