"""PCD files: the fields of the points, from text or from binary numbers."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.data.clouds.text import parse_lines
from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import read_bytes, require_lines

NORMALS = {"normal_x": "nx", "normal_y": "ny", "normal_z": "nz"}
"""What the Point Cloud Library calls the components of a normal."""

_TYPES = {
    ("I", 1): "<i1", ("I", 2): "<i2", ("I", 4): "<i4", ("I", 8): "<i8", ("U", 1): "<u1", ("U", 2): "<u2",
    ("U", 4): "<u4", ("U", 8): "<u8", ("F", 4): "<f4", ("F", 8): "<f8",
}  # fmt: skip
_KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
_NUMBERS = 4096
"""How many numbers a point may have."""


class _Field(NamedTuple):
    """A field of a point: its name, the type of its numbers, how many there are, and at which byte they start."""

    name: str
    type: str
    length: int
    offset: int


class _Header(NamedTuple):
    """What a file says of itself: its kind, its fields, how many points, and where they start."""

    kind: str
    fields: tuple[_Field, ...]
    points: int
    lines: int
    size: int


def read_pcd(path: Path, names: Sequence[str]) -> FloatArray:
    """Some fields of each point, (points, names)."""
    content = read_bytes(path, most=limits.HEADED_BYTES)
    header = _header(path, content)
    held = [field.name for field in header.fields]
    if missing := [name for name in names if held.count(name) != 1]:
        raise InputError(f"{path}: the field {missing[0]!r} must be there once, but there are {' '.join(held)}")
    fields = [header.fields[held.index(name)] for name in names]
    if several := [field.name for field in fields if field.length != 1]:
        raise InputError(f"{path}: the field {several[0]!r} has several numbers (COUNT): write it as one")
    body = content[header.size :]
    return _text(path, body, header, fields) if header.kind == "ascii" else _binary(path, body, header, fields)


def pcd_fields(path: Path) -> tuple[str, ...]:
    """What each point has, by name."""
    return tuple(field.name for field in _header(path, read_bytes(path, most=limits.HEADED_BYTES)).fields)


def _text(path: Path, body: bytes, header: _Header, fields: Sequence[_Field]) -> FloatArray:
    count, columns = header.points, [field.name for field in header.fields for _ in range(field.length)]
    require_lines(path, min(count, body.count(b"\n")))
    table = parse_lines(body.decode("latin-1").split("\n", count)[:count], columns, path=path, first=header.lines + 1)
    if len(table) < count:
        raise InputError(f"{path} promises {count} points, but holds {len(table)} lines of them: is it cut?")
    return table[:, [columns.index(field.name) for field in fields]]


def _binary(path: Path, body: bytes, header: _Header, fields: Sequence[_Field]) -> FloatArray:
    row, count = sum(field.length * int(field.type[2:]) for field in header.fields), header.points
    if len(body) < count * row:
        raise InputError(f"{path} promises {count} points of {row} bytes each, but holds {len(body)} bytes: is it cut?")
    if count > limits.POINTS:
        raise InputError(f"{path} has {count:,} points, but at most {limits.POINTS:,} are read: thin it out")
    names, types, offsets = ([getattr(field, key) for field in fields] for key in ("name", "type", "offset"))
    kind = np.dtype({"names": names, "formats": types, "offsets": offsets, "itemsize": row})
    points = np.frombuffer(body, kind, count)
    return np.stack([points[name].astype(np.float64) for name in names], axis=1)


def _header(path: Path, content: bytes) -> _Header:
    """The header, which ends with the line DATA."""
    found, start = dict[str, list[str]](), 0
    for number in range(1, 100):
        line, end, _ = content[start : start + 65_536].partition(b"\n")
        if not end:
            break
        start += len(line) + 1
        key, *words = line.decode("latin-1").partition("#")[0].split() or [""]
        if key.upper() not in ("", *_KEYS):
            break
        found[key.upper()] = words
        if key.upper() == "DATA":
            if words not in (["ascii"], ["binary"]):
                raise InputError(
                    f"{path} is PCD of the kind {' '.join(words)[:60]!r}, but ascii and binary are read: convert it"
                )
            return _Header(words[0], _fields(path, found), _points(path, found), number, start)
    raise InputError(f"{path} is not a PCD file: it has no header that ends with DATA ascii or DATA binary")


def _fields(path: Path, header: Mapping[str, list[str]]) -> tuple[_Field, ...]:
    names, sizes = header.get("FIELDS", []), header.get("SIZE", [])
    lengths = [_whole(word) for word in header.get("COUNT", ["1"] * len(names))]
    types = [_TYPES.get((kind, _whole(size)), "") for kind, size in zip(header.get("TYPE", []), sizes, strict=False)]
    if not names or len(names) != len(types) or len(names) != len(lengths) or not all(types) or 0 in lengths:
        said = "; ".join(f"{key} {' '.join(header.get(key, []))[:60]}" for key in ("FIELDS", "TYPE", "SIZE", "COUNT"))
        raise InputError(f"{path} describes its fields as {said}, which does not fit together: correct its header")
    if (total := sum(lengths)) > _NUMBERS:
        raise InputError(f"{path} has {total:,} numbers a point, but at most {_NUMBERS:,} are read: leave some out")
    bytes_each = [length * int(kind[2:]) for length, kind in zip(lengths, types, strict=True)]
    named = [NORMALS.get(name, name) for name in names]
    return tuple(_Field(*each) for each in zip(named, types, lengths, accumulate(bytes_each, initial=0), strict=False))


def _points(path: Path, header: Mapping[str, list[str]]) -> int:
    """How many points there are: POINTS, or WIDTH times HEIGHT, which must agree."""
    told = {key: " ".join(header[key]) for key in ("POINTS", "WIDTH", "HEIGHT") if key in header}
    numbers = {key: int(text) for key, text in told.items() if text.isdecimal() and len(text) < 18}
    product = numbers["WIDTH"] * numbers["HEIGHT"] if {"WIDTH", "HEIGHT"} <= numbers.keys() else None
    count = numbers.get("POINTS", product)
    if count is None or product not in (None, count):
        said = ", ".join(f"{key} {text[:60]}" for key, text in told.items()) or "nothing of its points"
        raise InputError(f"{path} says {said}: write POINTS, the product of WIDTH and HEIGHT")
    return count


def _whole(word: str) -> int:
    """A small whole number; 0 for anything else."""
    return int(word) if word.isdecimal() and len(word) < 6 else 0
