"""Clouds in .csv and .pcd files, and in .xyz."""

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data import read_input
from segcertify.data.clouds.headed_text import read_headed

PCD = """# .PCD v0.7
VERSION 0.7
FIELDS x y z rgb normal_x normal_y normal_z
SIZE 4 4 4 4 4 4 4
TYPE F F F U F F F
COUNT 1 1 1 1 1 1 1
WIDTH 3
HEIGHT 1
POINTS 3
DATA ascii
0 0 0 7 0 0 1
2 0 0 7 0 1 0
0 2 0 7 1 0 0
"""
PLAIN = "0 0 0\n2 0 0\n0 2 0\n"
FILES = {
    "cloud.txt": PLAIN,
    "cloud.xyz": PLAIN,
    "plain.csv": PLAIN.replace(" ", ","),
    "named.csv": "X,Y,Z\n" + PLAIN.replace(" ", ", "),
    "german.csv": '\ufeff"y";"x";"z";red\n0;0;0;9\n0;2;0;9\n2;0;0;9\n',
    "cloud.pcd": PCD,
}


@pytest.mark.parametrize("name", FILES)
def test_the_same_points_from_every_form(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    (tmp_path / "same.txt").write_text(PLAIN)
    found, same = (read_input(tmp_path / each, normals=False) for each in (name, "same.txt"))
    assert np.array_equal(found.x, same.x)
    assert found.domain.name == "cloud"


def test_normals_and_labels_by_name(tmp_path):
    (tmp_path / "a.pcd").write_text(PCD)
    assert read_input(tmp_path / "a.pcd").x[:, 3:].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    (tmp_path / "a.csv").write_text("label,x,y,z\n3,0,0,0\n1,2,0,0\n")
    found = read_input(tmp_path / "a.csv", ignore=3)
    assert found.target.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.pcd", PCD.replace("ascii", "binary"), "kind 'binary', but only ascii is read"),
        ("a.pcd", PCD.replace("COUNT 1", "COUNT 3"), "fields of several numbers"),
        ("a.pcd", "x y z\n", "it has no line DATA ascii"),
        ("a.pcd", PCD.replace("0 2 0 7", "0 two 0 7"), "line 13: 'two' is not a number"),
        ("a.csv", "x,y,z\n0,0,0\n1,0\n", "line 3: 3 numbers are expected"),
        ("a.csv", "x,y\n0,0\n", "has the properties x, y, but a cloud has"),
        ("a.csv", "", "holds no points"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_input(tmp_path / name)


def test_lines_keep_their_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n0,1,2\n")
    found = read_headed(tmp_path / "a.csv")
    assert found.names == ("x", "y", "z")
    assert [line.strip() for line in found.lines[:2]] == ["", "0 1 2"]
