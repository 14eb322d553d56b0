"""Inputs from files."""

import numpy as np
import pytest
from PIL import Image

from segcertify import InputError, data


def test_an_image_becomes_rgb_in_0_1(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    x = data.read_input(tmp_path / "a.png")
    assert (x.dtype, x.shape) == (np.float32, (3, 5, 7))
    np.testing.assert_array_equal(x, pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    Image.fromarray(pixels[..., 0]).save(tmp_path / "grey.png")
    assert data.read_input(tmp_path / "grey.png").shape == (3, 5, 7)


def test_an_array_stays_as_it_is(tmp_path):
    cloud = np.random.default_rng(0).random((9, 6))
    np.save(tmp_path / "a.npy", cloud)
    np.testing.assert_array_equal(data.read_input(tmp_path / "a.npy"), cloud)


def test_bad_files(tmp_path):
    np.save(tmp_path / "ints.npy", np.arange(3))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "text.png").write_text("not an image")
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    for name, message in [
        ("missing.png", "no file at"),
        ("ints.npy", "must hold one array of floats, but holds int64"),
        ("objects.npy", "not a readable .npy file of numbers"),
        ("broken.npy", "not a readable .npy file"),
        ("text.png", "not an image that Pillow can read"),
        ("cut.png", r"(cannot be read|not an image)"),
    ]:
        with pytest.raises(InputError, match=message):
            data.read_input(tmp_path / name)
