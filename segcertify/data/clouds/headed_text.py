"""Text files of points that say what they hold: ``.csv`` with a line of names, ``.pcd`` (ascii)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from segcertify.arrays import FloatArray
from segcertify.data.clouds.text import numbered_lines, parse_lines
from segcertify.errors import InputError
from segcertify.storage.reading import read_lines

FORMS = (".csv", ".pcd")
_NORMALS = {"normal_x": "nx", "normal_y": "ny", "normal_z": "nz"}


class HeadedText(NamedTuple):
    """The names of the columns, none if the file has no header, and the lines: those of the header are empty."""

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


def read_headed(path: Path) -> HeadedText:
    """A ``.csv`` or ``.pcd`` file taken apart."""
    lines = read_lines(path, cure="a file's suffix must say what it is")
    return _csv(lines) if path.suffix.lower() == ".csv" else _pcd(lines, path)


def _csv(lines: list[str]) -> HeadedText:
    """Columns between commas or semicolons, with or without a first line of names."""
    plain = [line.lstrip("\ufeff").replace(",", " ").replace(";", " ") for line in lines]
    number, first = next(numbered_lines(plain), (0, ""))
    names = tuple(word.strip("\"'").lower() for word in first.split())
    if not names or _is_number(names[0]):
        return HeadedText((), plain)
    return HeadedText(tuple(_NORMALS.get(name, name) for name in names), _without(plain, number))


def _pcd(lines: list[str], path: Path) -> HeadedText:
    """The header's fields, and the points that follow ``DATA ascii``."""
    fields: dict[str, list[str]] = {}
    for number, text in numbered_lines(lines):
        key, *words = text.split()
        fields[key.upper()] = words
        if key.upper() != "DATA":
            continue
        if words != ["ascii"]:
            raise InputError(
                f"{path} is PCD of the kind {' '.join(words)!r}, but only ascii is read: convert it, or use .ply"
            )
        names = tuple(_NORMALS.get(name, name) for name in fields.get("FIELDS", []))
        if set(fields.get("COUNT", ["1"])) != {"1"}:
            raise InputError(f"{path} has fields of several numbers (COUNT), which are not read: leave them out")
        return HeadedText(names, _without(lines, number))
    raise InputError(f"{path} is not a PCD file: it has no line DATA ascii")


def _without(lines: list[str], count: int) -> list[str]:
    """The lines with the first ones empty, so that errors still name the right line."""
    return [""] * count + lines[count:]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
