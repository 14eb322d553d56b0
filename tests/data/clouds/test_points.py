"""One cloud in a file: text and .npy."""

import io

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data.clouds.points import layout_of, location, read_points

COLUMNS = ("x", "y", "z", "label")


def read(path, wanted=COLUMNS):
    return read_points(path, COLUMNS, wanted)


def test_text(tmp_path):
    path = tmp_path / "p.txt"
    path.write_bytes(b"# x y z label\n0.5 -1e-3 +3 0\n\r  4\t5 6.25 1.000000  # a remark\r\n7 8 9 2")
    expected = [[0.5, -1e-3, 3, 0], [4, 5, 6.25, 1], [7, 8, 9, 2]]
    assert read(path).tolist() == expected
    assert read(path, ("label", "z")).tolist() == [[0, 3], [1, 6.25], [2, 9]]
    assert read(path.rename(tmp_path / "p.xyz")).tolist() == expected
    assert [location(tmp_path / "p.xyz", row)[-6:] for row in range(3)] == ["line 2", "line 4", "line 5"]


def test_text_is_what_numpy_reads(tmp_path):
    table = np.random.default_rng(0).normal(size=(300, 4)) * 10.0 ** np.random.default_rng(1).integers(-9, 9, (300, 4))
    np.savetxt(tmp_path / "p.txt", table)
    np.testing.assert_array_equal(read(tmp_path / "p.txt"), np.genfromtxt(tmp_path / "p.txt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.txt holds no points: remove it, or fetch it again"),
        ("\n \n# x y z label\n", "p.txt holds no points"),
        ("1 2 3 0\n1 2 3", r"p.txt, line 2: 4 numbers are expected \(x y z label\), but there are 3: correct the file"),
        ("1 2 3\n1 2 3", "p.txt, line 1: 4 numbers are expected .*, but there are 3"),
        ("1 2 3 0 9\n", "p.txt, line 1: 4 numbers are expected .*, but there are 5"),
        (
            "\n1 2 3 0\n\n1 2 chair 0\n",
            "p.txt, line 4: 'chair' is not a number: write x y z label, with spaces between",
        ),
        ("1,2,3,0\n", "p.txt, line 1: '1,2,3,0' is not a number: .* with spaces between"),
        ("1 2 3 0\n\n1 nan 3 0\n", "p.txt, line 3: y is nan, not a finite number"),
        ("1 2 3 0\n1 2 3 0x1", "p.txt, line 2: '0x1' is not a number"),
        ("1 2 3 1_0\n", "p.txt is not a file of numbers"),
    ],
)
def test_bad_text(tmp_path, text, message):
    path = tmp_path / "p.txt"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=message):
        read(path)


def test_files_that_are_not_text(tmp_path):
    (tmp_path / "p.txt").write_bytes(b"\xff\xfe1\x002\x00")
    with pytest.raises(
        InputError, match=r"p\.txt is not a text \(byte 0 is no UTF-8\): a file's suffix must say what it is"
    ):
        read(tmp_path / "p.txt")
    with pytest.raises(InputError, match="no file at"):
        read(tmp_path / "q.txt")


@pytest.mark.parametrize("kind", ["f4", ">f8", "i2", "u1", "f2"])
def test_arrays(tmp_path, kind):
    table = np.arange(12).reshape(3, 4).astype(kind)
    np.save(tmp_path / "p.npy", table)
    points = read(tmp_path / "p.npy", ("z", "label"))
    assert points.dtype == np.float64
    assert points.tolist() == [[2, 3], [6, 7], [10, 11]]
    assert location(tmp_path / "p.npy", 2).endswith("p.npy, point 3")


def test_bad_arrays(tmp_path):
    path = tmp_path / "p.npy"
    for array, message in [
        (
            np.zeros((5, 3)),
            r"must hold real numbers \(points, 4\), the columns x y z label, but holds float64 \(5, 3\)",
        ),
        (np.zeros(4), r"but holds float64 \(4,\): correct the file, or say which columns it has"),
        (np.zeros((5, 4), complex), "but holds complex128"),
        (np.zeros((5, 4), bool), "must hold one array of numbers, but holds bool"),
        (np.full((5, 4), "x"), "must hold one array of numbers, but holds <U1"),
        (np.full((5, 4), None), "not a readable .npy file of numbers"),  # would need unpickling
        (np.zeros((0, 4)), "holds no points"),
    ]:
        np.save(path, array, allow_pickle=True)
        with pytest.raises(InputError, match=message):
            read(path)
    np.savez(tmp_path / "p.npz", a=np.zeros((5, 4)))
    (tmp_path / "p.npz").rename(path)
    with pytest.raises(InputError, match=r"not a readable \.npy file of numbers"):
        read(path)


def test_a_damaged_array_is_an_input_error_or_is_read(tmp_path):
    """Cut at every place, and a byte turned over at every place: never another exception."""
    file = io.BytesIO()
    np.save(file, np.random.default_rng(0).normal(size=(4, 4)))
    whole, path = file.getvalue(), tmp_path / "p.npy"
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :] for i in range(len(whole)) for flip in (1, 255)]
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            read(path)
        except InputError as error:
            assert "p.npy" in str(error)  # noqa: PT017
            refused += 1
    assert refused > len(whole)


LAYOUTS = (("x", "y"), ("x", "y", "label"), ("x", "y", "nx", "ny"))


def test_the_layout_is_the_one_with_as_many_columns(tmp_path):
    path = tmp_path / "p.txt"
    for layout in LAYOUTS:
        path.write_text("# a remark\n" + " 1" * len(layout) + "\n")
        np.save(tmp_path / "p.npy", np.zeros((5, len(layout)), int))
        for file in (path, tmp_path / "p.npy"):
            assert layout_of(file, LAYOUTS) == layout


def test_the_layout_of_a_ply_file_is_the_longest_that_it_names(tmp_path):
    path = tmp_path / "p.ply"
    for names, layout in [
        (("y", "x"), ("x", "y")),
        (("label", "x", "y", "red"), ("x", "y", "label")),
        (("x", "y", "nx"), ("x", "y")),
        (("x", "y", "nx", "ny", "label"), ("x", "y", "nx", "ny")),
    ]:
        properties = "".join(f"property float {name}\n" for name in names)
        path.write_text(f"ply\nformat ascii 1.0\nelement vertex 0\n{properties}end_header\n")
        assert layout_of(path, LAYOUTS) == layout
    path.write_text("ply\nformat ascii 1.0\nelement vertex 0\nproperty float y\nend_header\n")
    with pytest.raises(InputError, match=r"p.ply has the properties y, but a cloud has 2 \(x y\), 3 \(x y label\), 4"):
        layout_of(path, LAYOUTS)


def test_files_of_no_layout(tmp_path):
    path = tmp_path / "p.txt"
    for text, message in [
        (
            "1 2 3 4 5",
            r"has 5 columns, but a cloud has 2 \(x y\), 3 \(x y label\), 4 \(x y nx ny\): write one of these",
        ),
        ("1,2,3", r"has 1 column, but .* in text with spaces between"),
        ("# nothing\n", "holds no points"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            layout_of(path, LAYOUTS)
    np.save(tmp_path / "p.npy", np.zeros((3, 4, 5)))
    with pytest.raises(InputError, match=r"must hold one cloud \(points, columns\), but holds float64 \(3, 4, 5\)"):
        layout_of(tmp_path / "p.npy", LAYOUTS)
    with pytest.raises(InputError, match=r"no file at .*gone.ply"):
        layout_of(tmp_path / "gone.ply", LAYOUTS)


def test_a_mark_of_the_byte_order_is_no_number(tmp_path):
    """As editors on Windows write text, with its ends of lines."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf1 2 3\r\n4 5 6\r\n")
    assert layout_of(path, [("x", "y", "z")]) == ("x", "y", "z")
    assert read_points(path, "xyz", "xyz").tolist() == [[1, 2, 3], [4, 5, 6]]
