"""PLY files: the properties of the vertices, from text or from binary numbers of either byte order."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.data.clouds.text import parse_lines
from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import read_bytes, require_lines

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8",
}  # fmt: skip
_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class _Header(NamedTuple):
    """What a file says of itself: its format, how many vertices with which properties, and where they start."""

    format: str
    vertices: int
    properties: dict[str, str]
    lines: int
    size: int


def read_ply(path: Path, names: Sequence[str]) -> FloatArray:
    """Some properties of each vertex, (vertices, names). Vertices come first in the file; what follows is not read."""
    content = read_bytes(path, most=limits.HEADED_BYTES)
    header = _header(path, content)
    missing = [name for name in names if name not in header.properties]
    if missing:
        raise InputError(
            f"{path}: no vertex property {missing[0]!r}, only {', '.join(header.properties) or 'none'}: "
            "add it, or say what it is called"
        )
    body, count, columns = content[header.size :], header.vertices, list(header.properties)
    if header.format == "ascii":
        require_lines(path, min(count, body.count(b"\n")))
        lines = body.decode("latin-1").split("\n", count)[:count]
        table = parse_lines(lines, columns, path=path, first=header.lines + 1)
        if len(table) < count:
            raise InputError(f"{path} promises {count} vertices, but holds {len(table)} lines of them: is it cut?")
        return table[:, [columns.index(name) for name in names]]
    kind = np.dtype([(name, _FORMATS[header.format] + code) for name, code in header.properties.items()])
    if len(body) < count * kind.itemsize:
        promised = f"{count} vertices of {kind.itemsize} bytes each"
        raise InputError(f"{path} promises {promised}, but holds {len(body)} bytes: is it cut?")
    if count > limits.POINTS:
        raise InputError(f"{path} has {count:,} vertices, but at most {limits.POINTS:,} are read: thin it out")
    vertices = np.frombuffer(body, kind, count)
    return np.stack([vertices[name].astype(np.float64) for name in names], axis=1)


def ply_properties(path: Path) -> tuple[str, ...]:
    """What each vertex has, by name."""
    return tuple(_header(path, read_bytes(path, most=limits.HEADED_BYTES)).properties)


def _header(path: Path, content: bytes) -> _Header:
    """The header, whose first element must be the vertices, without lists."""
    if content.partition(b"\n")[0].strip() != b"ply":
        raise InputError(f"{path} is not a PLY file: its first line must be 'ply'")
    end = re.search(rb"^[ \t]*end_header[ \t\r]*\n", content, re.MULTILINE)
    if end is None:
        raise InputError(f"{path}: its header does not end, for there is no line 'end_header': is the file cut?")
    form, vertices, properties, elements = "", 0, dict[str, str](), list[str]()
    lines = content[: end.start()].decode("latin-1").split("\n")
    for number, line in enumerate(lines, 1):
        match line.split():
            case ["format", name, _] if name in _FORMATS and not form:
                form = name
            case ["element", name, count] if count.isdecimal() and len(count) <= 18:
                elements.append(name)
                vertices = int(count) if elements == ["vertex"] else vertices
            case ["property", *rest] if elements == ["vertex"]:
                name, code = _property(path, number, rest)
                if name in properties:
                    raise InputError(f"{path}, line {number}: a second property {name!r}: rename one of them")
                properties[name] = code
            case [] | ["ply"] | ["comment" | "obj_info", *_]:
                pass
            case ["property", *_] if elements:
                pass  # of an element that is not read
            case _:
                raise InputError(f"{path}, line {number}: {line.strip()[:60]!r} is no line of a PLY header: correct it")
    if not form:
        raise InputError(f"{path} does not say its format: add, for example, 'format ascii 1.0' to its header")
    if not elements or elements[0] != "vertex":
        found = f"the element {elements[0]!r}" if elements else "no element"
        raise InputError(f"{path} starts with {found}, but 'vertex' must come first: write its vertices first")
    return _Header(form, vertices, properties, len(lines), end.end())


def _property(path: Path, line: int, rest: Sequence[str]) -> tuple[str, str]:
    """The name and the type of a vertex property."""
    if rest and rest[0] == "list":
        raise InputError(f"{path}, line {line}: vertices with a list ({' '.join(rest)}) are not read: leave it out")
    if len(rest) != 2 or rest[0] not in _TYPES:
        raise InputError(
            f"{path}, line {line}: a property is a type and a name, but got {' '.join(rest)[:60]!r}: "
            f"use one of {', '.join(_TYPES)}"
        )
    return rest[1], _TYPES[rest[0]]
