"""Clouds in .csv files, and in .xyz."""

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data import read_input
from segcertify.data.clouds.csv import read_csv

PLAIN = "0 0 0\n2 0 0\n0 2 0\n"
FILES = {
    "cloud.txt": PLAIN,
    "cloud.xyz": PLAIN,
    "plain.csv": PLAIN.replace(" ", ","),
    "named.csv": "X,Y,Z\n" + PLAIN.replace(" ", ", "),
    "german.csv": '\ufeff"y";"x";"z";red\n0;0;0;9\n0;2;0;9\n2;0;0;9\n',
}


@pytest.mark.parametrize("name", FILES)
def test_the_same_points_from_every_form(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    (tmp_path / "same.txt").write_text(PLAIN)
    found, same = (read_input(tmp_path / each, normals=False) for each in (name, "same.txt"))
    assert np.array_equal(found.x, same.x)
    assert found.domain.name == "cloud"


def test_labels_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("label,x,y,z\n3,0,0,0\n1,2,0,0\n")
    found = read_input(tmp_path / "a.csv", ignore=3)
    assert found.target.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y,z\n0,0,0\n1,0\n", "line 3: 3 numbers are expected"),
        ("x,y\n0,0\n", "has the properties x, y, but a cloud has"),
        ("", "holds no points"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_input(tmp_path / "a.csv")


def test_lines_keep_their_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n0,1,2\n")
    found = read_csv(tmp_path / "a.csv")
    assert found.names == ("x", "y", "z")
    assert [line.strip() for line in found.lines[:2]] == ["", "0 1 2"]
