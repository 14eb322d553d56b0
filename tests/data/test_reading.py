"""One input from a file: what it becomes, its domain, its ground truth, its size."""

from pathlib import Path

import numpy as np
import pytest
import trees
from PIL import Image
from trees import write

from segcertify import InputError, data
from segcertify.data.domain import ARRAY, CLOUD, IMAGE, VOLUME
from segcertify.data.images.resize import Resize


@pytest.mark.parametrize(("kind", "becomes"), [(">f4", "f4"), (">f8", "f8"), ("f2", "f4"), (np.longdouble, "f8")])
def test_any_floats_become_native_ones(tmp_path, kind, becomes):
    array = np.array([0.5, -2.25, 1024], kind)
    np.save(tmp_path / "a.npy", array)
    read = data.read_input(tmp_path / "a.npy").x
    assert read.dtype == becomes
    assert read.dtype.isnative
    assert read.tolist() == [0.5, -2.25, 1024]


def test_an_array_stays_as_it_is(tmp_path):
    cloud = np.random.default_rng(0).random((9, 6))
    np.save(tmp_path / "a.npy", cloud)
    np.testing.assert_array_equal(data.read_input(tmp_path / "a.npy").x, cloud)


def test_bad_files(tmp_path):
    np.save(tmp_path / "ints.npy", np.arange(3))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "text.png").write_text("not an image")
    write(tmp_path / "whole.png", np.zeros((64, 64, 3), np.uint8))
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    write(tmp_path / "deep.png", np.full((4, 4), 1000, np.uint16))
    for name, message in [
        ("missing.png", "no file at"),
        ("ints.npy", "must hold one array of floats, but holds int64: save array.astype"),
        ("objects.npy", "not a readable .npy file of numbers"),
        ("broken.npy", "not a readable .npy file"),
        ("text.png", "not an image that is read"),
        ("cut.png", r"(cannot be read|not an image)"),
        ("deep.png", "more than 8 bits a channel .* save it as an 8-bit image"),
    ]:
        with pytest.raises(InputError, match=message):
            data.read_input(tmp_path / name)


def test_domains(tmp_path):
    """A file's suffix says what it holds; of arrays, the shape of colours makes an image."""
    write(tmp_path / "a.png", trees.picture(0, (5, 7)))
    np.savetxt(tmp_path / "a.txt", trees.rows(0, [0, 1])[:, :3])
    for name, shape in {
        "colours": (3, 5, 7),
        "grey": (1, 5, 7),
        "table": (9, 6),
        "line": (4,),
        "number": (),
        "voxels": (2, 3, 4, 5),
    }.items():
        np.save(tmp_path / f"{name}.npy", np.zeros(shape))
    found = {path.name: data.read_input(path).domain for path in tmp_path.iterdir()}
    assert found == {
        "a.png": IMAGE, "a.txt": CLOUD, "colours.npy": IMAGE, "grey.npy": ARRAY, "table.npy": ARRAY, "line.npy": ARRAY,
        "number.npy": ARRAY, "voxels.npy": VOLUME,
    }  # fmt: skip


@pytest.mark.parametrize(("size", "after"), [((12, 30), (6, 15)), ((30, 12), (15, 6)), ((4, 4), (6, 6))])
def test_a_short_side(tmp_path, size, after):
    """Pixels bilinearly, as Pillow but for its 8 bits, labels to the nearest."""
    pixels, labels = trees.picture(0, size), trees.values(0, size, [0, 1, 2, 255])
    write(tmp_path / "a.png", pixels)
    write(tmp_path / "label.png", labels)
    found = data.read_input(tmp_path / "a.png", label=tmp_path / "label.png", ignore=255, classes=3, short_side=6)
    assert found.resize == Resize(size, after)
    expected = np.asarray(Image.fromarray(pixels).resize(after[::-1], Image.Resampling.BILINEAR))
    np.testing.assert_allclose(found.x, expected.transpose(2, 0, 1) / 255, atol=1.01 / 255)
    nearest = np.asarray(Image.fromarray(labels).resize(after[::-1], Image.Resampling.NEAREST)).astype(int)
    np.testing.assert_array_equal(found.target, np.where(nearest == 255, -1, nearest))
    whole = data.read_input(tmp_path / "a.png", label=tmp_path / "label.png", ignore=255)
    assert (whole.resize, whole.x.shape, whole.target.shape) == (None, (3, *size), size)


def test_a_photograph_is_resized_as_it_is_seen(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its side
    Image.fromarray(trees.picture(0, (8, 4))).save(tmp_path / "a.png", exif=exif)
    found = data.read_input(tmp_path / "a.png", short_side=2)
    assert (found.resize, found.x.shape) == (Resize((4, 8), (2, 4)), (3, 2, 4))


def test_a_label_says_which_way_its_photograph_lies(tmp_path):
    """Upright where only that fits; as stored where that fits, as in data sets."""
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its side
    Image.fromarray(trees.picture(0, (4, 8))).save(tmp_path / "a.png", exif=exif)
    labels = trees.values(0, (8, 4), [0, 1])
    write(tmp_path / "upright.png", labels)
    write(tmp_path / "stored.png", labels.T.copy())
    seen = data.read_input(tmp_path / "a.png")
    found = data.read_input(tmp_path / "a.png", label=tmp_path / "upright.png")
    np.testing.assert_array_equal(found.x, seen.x)
    np.testing.assert_array_equal(found.target, labels)
    assert found.preprocessing == seen.preprocessing
    stored = data.read_input(tmp_path / "a.png", label=tmp_path / "stored.png")
    assert (stored.x.shape, stored.target.shape) == ((3, 4, 8), (4, 8))
    np.testing.assert_array_equal(np.rot90(stored.x, -1, (1, 2)), seen.x)


def test_what_is_refused(tmp_path):
    write(tmp_path / "a.png", trees.picture(0, (5, 7)))
    write(tmp_path / "label.png", np.full((5, 7), 3, np.uint8))
    write(tmp_path / "small.png", np.zeros((4, 7), np.uint8))
    np.savetxt(tmp_path / "a.txt", trees.rows(0, [0, 1])[:, :3])
    np.save(tmp_path / "a.npy", np.zeros((3, 5, 7)))
    for name, options, message in [
        ("a.txt", {"short_side": 5}, "only images are resized, but .*a.txt holds a cloud: leave short_side out"),
        ("a.npy", {"short_side": 5}, "only images are resized, but .*a.npy holds an array: leave"),
        ("a.png", {"short_side": 0}, "short_side must be an integer not less than 1, but got 0"),
        ("a.txt", {"label": tmp_path / "label.png"}, "label is for images and volumes, but .*a.txt is a cloud"),
        ("a.png", {"label": tmp_path / "label.png", "classes": 3}, r"pixel \(0, 0\), holds the value 3, which"),
        ("a.png", {"label": tmp_path / "small.png"}, "small.png is 4 x 7 pixels, but .*a.png is 5 x 7: a label needs"),
        ("a.npy", {"label": tmp_path / "small.png"}, "small.png is 4 x 7 pixels, but .*a.npy is 5 x 7"),
    ]:
        with pytest.raises(InputError, match=message):
            data.read_input(tmp_path / name, **options)


def test_a_volume_and_its_labels(tmp_path):
    """Of an array the labels are a class for each component after its channels; values outside are refused."""
    labels = np.array([[[0, 1], [2, 255]]], np.uint8)
    np.save(tmp_path / "a.npy", np.zeros((2, 1, 2, 2), np.float32))
    np.save(tmp_path / "labels.npy", labels)
    found = data.read_input(tmp_path / "a.npy", label=tmp_path / "labels.npy", classes=3, ignore=255)
    assert found.domain is VOLUME
    assert found.target.tolist() == [[[0, 1], [2, -1]]]
    with pytest.raises(InputError, match=r"component \(0, 1, 1\), holds the value 255, .* --ignore 255"):
        data.read_input(tmp_path / "a.npy", label=tmp_path / "labels.npy", classes=3)
    np.save(tmp_path / "grey.npy", np.zeros((1, 2, 2), np.float32))
    np.save(tmp_path / "flat.npy", labels[0])
    assert data.read_input(tmp_path / "grey.npy", label=tmp_path / "flat.npy", ignore=255).target.shape == (2, 2)


@pytest.mark.parametrize(
    ("file", "name"), [("a/scan.nii.gz", "scan"), ("SCAN.NII.GZ", "SCAN"), ("scan.nii", "scan"), ("b.c.png", "b.c")]
)
def test_the_name_of_an_input(file, name):
    assert data.reading.input_name(Path(file)) == name
