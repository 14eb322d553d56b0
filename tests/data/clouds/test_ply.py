"""PLY files, against a writer of the test's own."""

import struct

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data.clouds.ply import read_ply

CODES = {"float": "f", "double": "d", "uchar": "B", "char": "b", "short": "h", "ushort": "H", "int": "i", "uint": "I"}
NEW_NAMES = {"float": "float32", "double": "float64", "uchar": "uint8", "char": "int8", "int": "int32"}
TYPES = {"x": "float", "y": "double", "z": "float", "red": "uchar", "nx": "float", "label": "int", "n": "short"}


def header(form, count, types, extra=""):
    lines = ["ply", f"format {form} 1.0", "comment made by hand", f"element vertex {count}"]
    lines += [f"property {kind} {name}" for name, kind in types.items()]
    return "\n".join([*lines, *([extra] if extra else []), "end_header"]) + "\n"


def vertices(seed=0, count=9):
    """Values that every type holds exactly."""
    rng = np.random.default_rng(seed)
    return [
        [
            float(rng.integers(0, 100)) if name in ("red", "label", "n") else float(rng.integers(-64, 64)) / 8
            for name in TYPES
        ]
        for _ in range(count)
    ]


def body(form, rows, types):
    """The vertices, one by one, with struct."""
    if form == "ascii":
        return "".join(" ".join(f"{value:g}" for value in row) + "\n" for row in rows).encode()
    order = "<" if "little" in form else ">"
    content = b""
    for row in rows:
        for value, kind in zip(row, types.values(), strict=True):
            content += struct.pack(order + CODES[kind], value if kind in ("float", "double") else int(value))
    return content


FORMATS = ["ascii", "binary_little_endian", "binary_big_endian"]
FACES = "element face 1\nproperty list uchar int vertex_indices\nproperty uchar flags"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("extra", ["", FACES])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_round_trip(tmp_path, form, extra, end):
    path, rows = tmp_path / "p.ply", vertices()
    faces = (b"3 0 1 2 7\n" if form == "ascii" else b"\x03" + bytes(13)) if extra else b""
    text = header(form, len(rows), TYPES, extra).replace("\n", end).encode()
    path.write_bytes(text + body(form, rows, TYPES) + faces)
    names = ("z", "x", "y", "label", "nx", "n", "red")
    expected = [[row[list(TYPES).index(name)] for name in names] for row in rows]
    assert read_ply(path, names).dtype == np.float64
    assert read_ply(path, names).tolist() == expected
    assert read_ply(path, ("label",)).tolist() == [[row[3]] for row in expected]


@pytest.mark.parametrize("form", FORMATS[1:])
def test_types_by_their_other_names(tmp_path, form):
    types = {name: NEW_NAMES.get(kind, kind) for name, kind in TYPES.items()}
    (tmp_path / "p.ply").write_bytes(header(form, 9, types).encode() + body(form, vertices(), TYPES))
    assert read_ply(tmp_path / "p.ply", tuple(TYPES)).tolist() == vertices()


def test_negative_and_large_whole_numbers(tmp_path):
    types = {"a": "char", "b": "uchar", "c": "short", "d": "ushort", "e": "int", "f": "uint"}
    rows = [[-128, 255, -32768, 65535, -(2**31), 2**32 - 1]]
    for form in FORMATS[1:]:
        (tmp_path / "p.ply").write_bytes(header(form, 1, types).encode() + body(form, rows, types))
        assert read_ply(tmp_path / "p.ply", tuple(types)).tolist() == rows


def lines(*changed):
    return "\n".join(["ply", *changed, "end_header", "1 2 3 0", "4 5 6 1", ""])


XYZ = ("property float x", "property float y", "property float z", "property int label")
ASCII, TWO = "format ascii 1.0", "element vertex 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.ply is not a PLY file: its first line must be 'ply'"),
        ("solid cube\n", "is not a PLY file"),
        ("ply\nformat ascii 1.0\n", "its header does not end, for there is no line 'end_header': is the file cut"),
        (lines(TWO, *XYZ), "does not say its format: add, for example, 'format ascii 1.0'"),
        (
            lines("format binary_middle_endian 1.0", TWO, *XYZ),
            "line 2: 'format binary_middle_endian 1.0' is no line of",
        ),
        (lines(ASCII, ASCII, TWO, *XYZ), "line 3: 'format ascii 1.0' is no line"),
        (
            lines(ASCII, f"element vertex {10**20 - 1}", *XYZ),
            "line 3: 'element vertex 9{20}' is no line of a PLY header",
        ),
        (lines(ASCII, "element vertex -2", *XYZ), "line 3: 'element vertex -2' is no line of a PLY header"),
        (lines(ASCII, "element vertex many", *XYZ), "line 3: 'element vertex many'"),
        (lines(ASCII, "vertex 2", *XYZ), "line 3: 'vertex 2' is no line"),
        (lines(ASCII, *XYZ), "line 3: 'property float x' is no line"),  # of no element
        (lines(ASCII), "starts with no element, but 'vertex' must come first"),
        (
            lines(ASCII, "element face 1", "property list uchar int i", TWO, *XYZ),
            "starts with the element 'face', but 'vertex' must come first: write its vertices first",
        ),
        (
            lines(ASCII, TWO, *XYZ, "property list uchar int near"),
            r"line 8: vertices with a list \(list uchar int near\) are not read: leave it out",
        ),
        (lines(ASCII, TWO, "property real x", *XYZ), "line 4: a property is a type and a name, but got 'real x': use"),
        (lines(ASCII, TWO, "property float", *XYZ), "line 4: a property is a type and a name, but got 'float'"),
        (lines(ASCII, TWO, *XYZ, "property float y"), "line 8: a second property 'y': rename one of them"),
        (lines(ASCII, TWO, *XYZ[:3]), "no vertex property 'label', only x, y, z: add it, or say what it is called"),
        (lines(ASCII, TWO), "no vertex property 'x', only none"),
        (lines(ASCII, "element vertex 3", *XYZ), "promises 3 vertices, but holds 2 lines of them: is it cut"),
        (lines(ASCII, TWO, *XYZ).replace("4 5 6 1", "4 5 1"), r"line 10: 4 numbers are expected \(x y z label\), but"),
        (lines(ASCII, TWO, *XYZ).replace("4 5 6 1", "4 5 six 1"), "line 10: 'six' is not a number"),
        (
            lines("format binary_little_endian 1.0", "element vertex 99999999999", *XYZ),
            "promises 99999999999 vertices of 16 bytes each, but holds 16 bytes: is it cut",
        ),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "p.ply"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_ply(path, ("x", "y", "z", "label"))
    assert "p.ply" in str(caught.value)


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_file_is_an_input_error_or_is_read(tmp_path, form):
    """Cut at every place, and a byte turned over at every place: never another exception."""
    whole = header(form, 3, TYPES).encode() + body(form, vertices(count=3), TYPES)
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :] for i in range(len(whole)) for flip in (1, 255)]
    refused = 0
    for content in damaged:
        (tmp_path / "p.ply").write_bytes(content)
        try:
            read_ply(tmp_path / "p.ply", ("x", "y", "z", "label"))
        except InputError as error:
            assert "p.ply" in str(error)  # noqa: PT017
            refused += 1
    assert refused > len(whole)
