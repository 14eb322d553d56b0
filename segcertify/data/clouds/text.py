"""Rows of numbers written as text; an error names the line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.errors import InputError


def parse_lines(lines: Sequence[str], columns: Sequence[str], *, path: Path, first: int = 1) -> FloatArray:
    """A number per column in each line, (rows, columns); blank lines and what follows a ``#`` are passed over.

    ``first`` is the number of the first line in the file at ``path``.
    """
    rows = [text for _, text in numbered_lines(lines)]
    if not rows:
        return np.empty((0, len(columns)))
    try:
        table = np.loadtxt(rows, comments=None, ndmin=2)
    except (ValueError, OverflowError) as error:
        _require_numbers(lines, columns, path=path, first=first)
        raise InputError(f"{path} is not a file of numbers ({error}): correct it") from None
    if table.shape[1] != len(columns):
        _require_numbers(lines, columns, path=path, first=first)
    return table


def numbered_lines(lines: Sequence[str], *, first: int = 1) -> Iterator[tuple[int, str]]:
    """The lines that hold a row, each with its number."""
    for number, line in enumerate(lines, first):
        text = line.partition("#")[0].strip()
        if text:
            yield number, text


def _require_numbers(lines: Sequence[str], columns: Sequence[str], *, path: Path, first: int) -> None:
    """Refuse the first line that is not a number per column."""
    for number, text in numbered_lines(lines, first=first):
        words = text.split()
        for word in words:
            try:
                float(word)
            except ValueError:
                raise InputError(
                    f"{path}, line {number}: {word[:40]!r} is not a number: write {' '.join(columns)}, "
                    "with spaces between"
                ) from None
        if len(words) != len(columns):
            raise InputError(
                f"{path}, line {number}: {len(columns)} numbers are expected ({' '.join(columns)}), "
                f"but there are {len(words)}: correct the file, or say which columns it has"
            )
