"""Clouds in .pcd files, written by hand: text, and binary numbers as the Point Cloud Library lays them out."""

import struct

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data import read_input
from segcertify.data.clouds.pcd import pcd_fields, read_pcd

HEAD = """# .PCD v0.7 - Point Cloud Data file format
VERSION 0.7
FIELDS x y z rgb normal_x normal_y normal_z
SIZE 4 4 4 4 4 4 4
TYPE F F F U F F F
COUNT 1 1 1 1 1 1 1
WIDTH 3
HEIGHT 1
VIEWPOINT 0 0 0 1 0 0 0
POINTS 3
DATA ascii
"""
ROWS = [(0, 0, 0, 7, 0, 0, 1), (2, 0, 0, 7, 0, 1, 0), (0, 2, 0, 7, 1, 0, 0)]
TEXT = HEAD + "".join(" ".join(map(str, row)) + "\n" for row in ROWS)
BINARY = HEAD.replace("ascii", "binary").encode() + b"".join(struct.pack("<fffIfff", *row) for row in ROWS)


@pytest.mark.parametrize("content", [TEXT.encode(), TEXT.replace("\n", "\r\n").encode(), BINARY, BINARY + b"more"])
def test_text_and_binary_hold_the_same(tmp_path, content):
    path = tmp_path / "a.pcd"
    path.write_bytes(content)
    assert pcd_fields(path) == ("x", "y", "z", "rgb", "nx", "ny", "nz")
    assert read_pcd(path, ["z", "rgb", "y"]).tolist() == [[row[2], row[3], row[1]] for row in ROWS]
    assert read_input(path).x[:, 3:].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    (tmp_path / "same.txt").write_text("0 0 0\n2 0 0\n0 2 0\n")
    np.testing.assert_array_equal(read_input(path, normals=False).x, read_input(tmp_path / "same.txt").x)


def test_fields_of_several_numbers_and_of_any_type_are_passed_over(tmp_path):
    """A histogram of three numbers, a padding of two bytes, and points in double precision behind them."""
    head = "FIELDS h _ x y z\nSIZE 2 1 8 8 8\nTYPE I U F F F\nCOUNT 3 2 1 1 1\nWIDTH 1\nHEIGHT 2\nDATA {}\n"
    rows = [(-1, 2, 3, 0, 9, 0.5, 1e-9, 2.0), (4, 5, 6, 9, 0, -3.0, 4.0, 5.0)]
    (tmp_path / "b.pcd").write_bytes(
        head.format("binary").encode() + b"".join(struct.pack("<3h2B3d", *r) for r in rows)
    )
    (tmp_path / "t.pcd").write_text(head.format("ascii") + "".join(" ".join(map(str, row)) + "\n" for row in rows))
    for name in ("b.pcd", "t.pcd"):
        assert read_pcd(tmp_path / name, ["x", "y", "z"]).tolist() == [list(row[-3:]) for row in rows]
        with pytest.raises(InputError, match="the field 'h' has several numbers"):
            read_pcd(tmp_path / name, ["h"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BINARY.replace(b"DATA binary", b"DATA binary_compressed"), "kind 'binary_compressed', but ascii and binary"),
        (BINARY[:-1], "promises 3 points of 28 bytes each, but holds 83 bytes: is it cut"),
        (TEXT[: TEXT.index("0 2 0")].encode(), "promises 3 points, but holds 2 lines"),
        (b"x y z\n", "it has no header that ends with DATA"),
        (b"VERSION 0.7\n" * 200, "it has no header"),
        (TEXT.replace("0 2 0 7", "0 two 0 7").encode(), "line 14: 'two' is not a number"),
        (TEXT.replace("FIELDS x y", "FIELDS x x").encode(), "has the properties x, x, z.* but a cloud has"),
        (TEXT.replace("SIZE 4", "SIZE 3").encode(), "does not fit together"),
        (TEXT.replace("COUNT 1", "COUNT 0").encode(), "does not fit together"),
        (TEXT.replace("COUNT 1 1 1 1", "COUNT 1 1 1 9999").encode(), "10,005 numbers a point, but at most 4,096"),
        (TEXT.replace("WIDTH 3", "WIDTH 4").encode(), "says POINTS 3, WIDTH 4, HEIGHT 1: write POINTS"),
        (TEXT.replace("POINTS 3", "POINTS -3").replace("WIDTH 3\n", "").encode(), "says POINTS -3, HEIGHT 1"),
        (BINARY.replace(b"3\n", b"99999999999\n"), "promises 99999999999 points of 28 bytes"),
        (TEXT.replace("3\n", "0\n").encode(), "holds no points"),
    ],
)
def test_bad_files(tmp_path, content, message):
    (tmp_path / "a.pcd").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_input(tmp_path / "a.pcd")


def test_a_field_twice(tmp_path):
    (tmp_path / "a.pcd").write_text(TEXT.replace("rgb", "x"))
    with pytest.raises(InputError, match="the field 'x' must be there once"):
        read_input(tmp_path / "a.pcd")
