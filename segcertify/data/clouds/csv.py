"""Tables of points with commas or semicolons (``.csv``), with or without a first line of names."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from segcertify.arrays import FloatArray
from segcertify.data.clouds.pcd import NORMALS
from segcertify.data.clouds.text import numbered_lines, parse_lines
from segcertify.errors import InputError
from segcertify.storage.reading import read_lines


class Csv(NamedTuple):
    """The names of the columns, none if the file has no header, and the lines: that of the names is empty."""

    names: tuple[str, ...]
    lines: list[str]

    def table(self, wanted: Sequence[str], *, path: Path) -> FloatArray:
        """The wanted columns of each point, by their names."""
        if missing := [name for name in wanted if self.names.count(name) != 1]:
            raise InputError(
                f"{path}: the column {missing[0]!r} must be there once, but there are {' '.join(self.names)}"
            )
        table = parse_lines(self.lines, self.names, path=path)
        return table[:, [self.names.index(name) for name in wanted]]


def read_csv(path: Path) -> Csv:
    """A ``.csv`` file taken apart."""
    lines = read_lines(path, cure="a file's suffix must say what it is")
    plain = [line.lstrip("\ufeff").replace(",", " ").replace(";", " ") for line in lines]
    number, first = next(numbered_lines(plain), (0, ""))
    names = tuple(word.strip("\"'").lower() for word in first.split())
    if not names or _is_number(names[0]):
        return Csv((), plain)
    # errors still name the right line
    return Csv(tuple(NORMALS.get(name, name) for name in names), [""] * number + plain[number:])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
