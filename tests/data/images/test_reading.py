"""Inputs from files: images, label images, pairs."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from segcertify import InputError, data
from segcertify.data.images.reading import image_size, pair_files, read_image
from segcertify.data.images.resize import Resize


def write(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def write_grey_png(path, values, *, bits):
    """A greyscale PNG of less than 8 bits a pixel, which Pillow cannot write: 8 / bits values to a byte."""
    rows = [np.packbits((row[:, None] >> np.arange(bits)[::-1]) & 1).tobytes() for row in values]

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], bits, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b""))
    return path


def test_an_image_becomes_rgb_in_0_1(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    write(tmp_path / "a.png", pixels)
    x = read_image(tmp_path / "a.png")
    assert (x.dtype, x.shape) == (np.float32, (3, 5, 7))
    np.testing.assert_array_equal(x, pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    write(tmp_path / "grey.png", pixels[..., 0])
    assert read_image(tmp_path / "grey.png").shape == (3, 5, 7)
    assert image_size(tmp_path / "a.png") == (5, 7)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_as_its_camera_says(tmp_path, orientation):
    """What a viewer shows, by the definition of EXIF's orientation; a data set's pixels stay as they are stored."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    write(tmp_path / "a.png", pixels, exif=exif)
    seen = pixels.transpose(1, 0, 2) if orientation > 4 else pixels
    seen = seen[:, ::-1] if orientation in (2, 3, 6, 7) else seen
    seen = seen[::-1] if orientation in (3, 4, 7, 8) else seen
    upright = data.read_input(tmp_path / "a.png").x
    np.testing.assert_array_equal(upright, seen.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    assert image_size(tmp_path / "a.png", upright=True) == seen.shape[:2]
    assert read_image(tmp_path / "a.png").shape == (3, 5, 7)
    assert image_size(tmp_path / "a.png") == (5, 7)


def test_a_photograph_whose_exif_is_damaged_elsewhere_is_turned(tmp_path):
    """Its resolution is a word, not a number."""
    entries = struct.pack("<HHII", 0x0112, 3, 1, 6) + struct.pack("<HHI4s", 0x011A, 2, 4, b"abc")
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4)
    write(tmp_path / "a.jpg", np.zeros((5, 7, 3), np.uint8), exif=exif)
    assert data.read_input(tmp_path / "a.jpg").x.shape == (3, 7, 5)


def test_an_image_can_be_resized(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    x = read_image(write(tmp_path / "a.png", pixels), resize=Resize((5, 7), (4, 6)))
    expected = np.asarray(Image.fromarray(pixels).resize((6, 4), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(x, expected.transpose(2, 0, 1) / 255, atol=1.01 / 255)  # Pillow rounds to 8 bits, twice
    same = read_image(tmp_path / "a.png", resize=Resize((5, 7), (5, 7)))
    np.testing.assert_array_equal(same, read_image(tmp_path / "a.png"))


LABELS = np.random.default_rng(1).integers(0, 4, (9, 8)).astype(np.uint8)


def palette_file(path):
    image = Image.fromarray(LABELS).convert("P")
    image.putpalette([9, 9, 9, 200, 0, 0, 9, 9, 9, 0, 0, 200])  # two values, one colour: only indices tell them apart
    image.save(path)


@pytest.mark.parametrize(
    "save",
    [
        lambda path: write(path, LABELS),
        lambda path: write(path, LABELS.astype(np.uint16)),
        lambda path: write(path, LABELS.astype(np.int32), format="TIFF"),
        palette_file,
        lambda path: write_grey_png(path, LABELS, bits=2),
        lambda path: write_grey_png(path, LABELS, bits=4),
    ],
    ids=["grey", "grey of 16 bits", "integers (TIFF)", "palette", "grey of 2 bits", "grey of 4 bits"],
)
def test_labels_are_the_numbers_in_the_file(tmp_path, save):
    save(tmp_path / "a.png")
    labels = data.read_label(tmp_path / "a.png")
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, LABELS)


def test_large_and_two_valued_labels(tmp_path):
    np.testing.assert_array_equal(
        data.read_label(write(tmp_path / "a.png", LABELS.astype(np.uint16) * 9999)), LABELS * np.int32(9999)
    )
    np.testing.assert_array_equal(data.read_label(write(tmp_path / "b.png", LABELS > 1)), LABELS > 1)


def test_label_images_with_colours_are_refused(tmp_path):
    write(tmp_path / "rgb.png", np.zeros((4, 4, 3), np.uint8))
    write(tmp_path / "rgba.png", np.zeros((4, 4, 4), np.uint8))
    write(tmp_path / "lossy.jpg", np.zeros((4, 4), np.uint8))
    for name in ("rgb.png", "rgba.png"):
        with pytest.raises(InputError, match=rf"{name} must hold one class number .* turn its colours into class num"):
            data.read_label(tmp_path / name)
    with pytest.raises(InputError, match=r"lossy.jpg is a JPEG, .* save labels as PNG"):
        data.read_label(tmp_path / "lossy.jpg")


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_damaged_file_is_an_input_error_or_is_read(tmp_path, name):
    """Cut at every place, and a byte turned over at every place: never another exception."""
    whole = write(tmp_path / name, np.random.default_rng(2).integers(0, 256, (6, 6), np.uint8)).read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(0, len(whole), 3)]
    refused = 0
    for content in damaged:
        (tmp_path / name).write_bytes(content)
        for read in (read_image, data.read_label):
            try:
                read(tmp_path / name)
            except InputError as error:
                assert name in str(error)  # noqa: PT017
                refused += 1
    assert refused > len(whole)


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_pairs_are_sorted_and_named_by_what_they_share(tmp_path):
    touch(tmp_path, "images/b/2.jpg", "images/a.JPG.jpg", "images/._a.jpg", "images/notes.txt")
    touch(tmp_path, "labels/b/2_mask.png", "labels/a.JPG_mask.png", "labels/a.JPG_colour.png")
    pairs = pair_files(tmp_path / "images", tmp_path / "labels", image_suffix=".jpg", label_suffix="_mask.png")
    assert [p.id for p in pairs] == ["a.JPG", "b/2"]
    assert pairs[1].image == tmp_path / "images/b/2.jpg"
    assert pairs[1].label == tmp_path / "labels/b/2_mask.png"
    touch(tmp_path, "images/c.png")
    listed = pair_files(
        tmp_path / "images", tmp_path / "labels", image_suffix=(".jpg", ".png"), label_suffix="_mask.png", ids=["b/2"]
    )
    assert listed == pairs[1:]


def test_images_and_labels_may_share_a_folder(tmp_path):
    touch(tmp_path, "a.png", "a_mask.png", "b.png", "b_mask.png")
    pairs = pair_files(tmp_path, tmp_path, image_suffix=".png", label_suffix="_mask.png")
    assert [(p.image.name, p.label.name) for p in pairs] == [("a.png", "a_mask.png"), ("b.png", "b_mask.png")]
    swapped = pair_files(tmp_path, tmp_path, image_suffix="_mask.png", label_suffix=".png")
    assert [(p.image.name, p.label.name) for p in swapped] == [("a_mask.png", "a.png"), ("b_mask.png", "b.png")]


@pytest.mark.parametrize(
    ("files", "ids", "message"),
    [
        (["i/a.jpg"], None, r"no folder at .*l: check the path"),
        (["i/a.txt", "l/a.png"], None, r"no image ending in \.jpg, in .*i \(it holds 'a.txt'\): check the path"),
        (["i/a.jpg", "i/b.jpg", "l/a.png"], None, r"b\.jpg has no label: expected .*b\.png; add it or remove"),
        (["i/a.jpg", "i/b.jpg", "i/c.jpg", "l/z.png"], None, r"a\.jpg has no label: .*\(2 more like it\)"),
        (["i/a.jpg", "l/a.png", "l/b.png"], None, r"b\.png has no image ending in \.jpg, in .*: add it or remove"),
        (["i/a.jpg", "l/a.png", "l/b.png"], ["a", "b"], r"no image 'b', ending in .*: add it or take it off the list"),
        (["i/a.jpg", "i/b.jpg", "l/a.png"], ["a", "b"], r"b\.jpg has no label"),
    ],
)
def test_what_does_not_pair(tmp_path, files, ids, message):
    touch(tmp_path, *files)
    with pytest.raises(InputError, match=message):
        pair_files(tmp_path / "i", tmp_path / "l", image_suffix=".jpg", label_suffix=".png", ids=ids)


def test_two_images_of_one_name(tmp_path):
    touch(tmp_path, "i/a.jpg", "i/a.png", "l/a.png")
    with pytest.raises(InputError, match="share the name 'a': keep one of them"):
        pair_files(tmp_path / "i", tmp_path / "l", image_suffix=(".jpg", ".png"), label_suffix=".png")


def test_a_long_thin_image_is_refused_by_its_header(tmp_path):
    """One of 5 x 8,388,612 pixels, within the limit of pixels, took more than 5 seconds to be resized."""
    Image.new("1", (70_000, 2)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="has 2 x 70,000 pixels, but at most 50,331,648 pixels, and 65,536 on a side"):
        read_image(tmp_path / "a.png")
    with pytest.raises(InputError, match="resized to 2 x 70000 pixels"):
        Resize((2, 2), (2, 70_000))


def test_a_png_that_names_more_pixels_than_its_bytes_can_hold_is_refused(tmp_path):
    """Pillow would give 36 million black pixels."""
    Image.new("RGB", (5, 4)).save(tmp_path / "a.png")
    content = bytearray((tmp_path / "a.png").read_bytes())
    content[16:24] = struct.pack(">II", 6000, 6000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot hold the 6,000 x 6,000 pixels that it names in \d+ bytes"):
        read_image(tmp_path / "a.png")
    Image.new("1", (6000, 6000)).save(tmp_path / "b.png", optimize=True)  # of one colour: nothing is smaller
    assert read_image(tmp_path / "b.png").shape == (3, 6000, 6000)
