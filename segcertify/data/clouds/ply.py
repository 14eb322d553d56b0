"""PLY files: the properties of the vertices, from text or from binary numbers of either byte order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.data.clouds.text import parse_lines
from segcertify.errors import InputError

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
    content = path.read_bytes()
    header = _header(path, content)
    missing = [name for name in names if name not in header.properties]
    if missing:
        raise InputError(
            f"{path}: no vertex property {missing[0]!r}, only {', '.join(header.properties) or 'none'}: "
            "add it, or say what it is called"
        )
    read = _text if header.format == "ascii" else _binary
    return read(path, content[header.size :], header, names)


def ply_properties(path: Path) -> tuple[str, ...]:
    """What each vertex has, by name."""
    return tuple(_header(path, path.read_bytes()).properties)


def _text(path: Path, body: bytes, header: _Header, names: Sequence[str]) -> FloatArray:
    lines = body.decode("latin-1").split("\n")[: header.vertices]
    columns = list(header.properties)
    table = parse_lines(lines, columns, path=path, first=header.lines + 1)
    if len(table) < header.vertices:
        raise InputError(
            f"{path} promises {header.vertices} vertices, but holds {len(table)} lines of them: is it cut?"
        )
    return table[:, [columns.index(name) for name in names]]


def _binary(path: Path, body: bytes, header: _Header, names: Sequence[str]) -> FloatArray:
    order = _FORMATS[header.format]
    kind = np.dtype([(name, order + code) for name, code in header.properties.items()])
    if len(body) < header.vertices * kind.itemsize:
        raise InputError(
            f"{path} promises {header.vertices} vertices of {kind.itemsize} bytes each, but holds {len(body)} bytes: "
            "is it cut?"
        )
    vertices = np.frombuffer(body, kind, header.vertices)
    return np.stack([vertices[name].astype(np.float64) for name in names], axis=1)


def _header(path: Path, content: bytes) -> _Header:
    """The header, whose first element must be the vertices, without lists."""
    form, vertices, properties, elements = "", 0, dict[str, str](), list[str]()
    lines, size = _lines(path, content)
    for number, line in enumerate(lines, 1):
        match line.split():
            case ["format", name, _] if name in _FORMATS and not form:
                form = name
            case ["element", name, count] if count.isdecimal():
                elements.append(name)
                vertices = int(count) if elements == ["vertex"] else vertices
            case ["property", *rest] if elements == ["vertex"]:
                name, code = _property(path, number, rest)
                if name in properties:
                    raise InputError(f"{path}, line {number}: a second property {name!r}: rename one of them")
                properties[name] = code
            case ["property", *_] if elements:
                pass  # of an element that is not read
            case [] | ["ply"] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise InputError(f"{path}, line {number}: {line[:60]!r} is no line of a PLY header: correct it")
    if not form:
        raise InputError(f"{path} does not say its format: add, for example, 'format ascii 1.0' to its header")
    if not elements or elements[0] != "vertex":
        found = f"the element {elements[0]!r}" if elements else "no element"
        raise InputError(f"{path} starts with {found}, but 'vertex' must come first: write its vertices first")
    return _Header(form, vertices, properties, len(lines) + 1, size)


def _lines(path: Path, content: bytes) -> tuple[list[str], int]:
    """The header's lines without the last, which is ``end_header``, and how many bytes it takes."""
    lines: list[str] = []
    start = 0
    while True:
        end = content.find(b"\n", start)
        line = content[start : end if end >= 0 else None].decode("latin-1").strip()
        if not lines and line != "ply":
            raise InputError(f"{path} is not a PLY file: its first line must be 'ply'")
        if end < 0:
            raise InputError(f"{path}: its header does not end, for there is no line 'end_header': is the file cut?")
        start = end + 1
        if line == "end_header":
            return lines, start
        lines.append(line)


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
