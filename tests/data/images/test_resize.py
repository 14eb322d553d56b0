"""Data sets at another size."""

import numpy as np
import pytest
import trees
from PIL import Image

from segcertify import InputError, data
from segcertify.data.images.resize import Resize
from segcertify.preprocessing import in_words


def test_a_resized_set(tmp_path):
    whole = data.load(f"pets:{trees.pets(tmp_path, size=(9, 12))}")
    small = whole.limit(3).resized(6)
    assert small.name == "pets/trainval at short side 6"
    for index, scene in enumerate(small):
        assert scene.x.shape == (3, 6, 8)
        with Image.open(whole.items[index].image) as image:
            expected = np.asarray(image.resize((8, 6), Image.Resampling.BILINEAR))
        np.testing.assert_allclose(scene.x, expected.transpose(2, 0, 1) / 255, atol=1.01 / 255)
        labels = Resize((9, 12), (6, 8)).labels(whole[index].labels)
        np.testing.assert_array_equal(scene.labels, labels)
    assert small.resized(3)[0].x.shape == (3, 3, 4)
    with pytest.raises(InputError, match="short_side must be an integer not less than 1"):
        whole.resized(0)


def test_a_set_of_a_fixed_size_keeps_its_ratio(tmp_path):
    scenes = data.load(f"folder:{trees.folder(tmp_path)}")
    assert scenes[0].x.shape == (3, 6, 10)
    assert scenes.resized(3)[0].x.shape == (3, 3, 5)


def test_pixels_are_not_rounded_to_8_bits():
    """A step of one grey level in one pixel reaches the result, as the matrices say."""
    pixels = np.full((40, 60, 3), 100, np.uint8)
    changed = pixels.copy()
    changed[20, 30, 1] = 101
    for method in ("antialiased", "box"):
        resize = Resize((40, 60), (10, 15), method)
        change = resize.image(changed).astype(float) - resize.image(pixels)
        assert 0 < np.linalg.norm(change) * 255 <= resize.norm() + 1e-4
        np.testing.assert_allclose(change.sum() * 255, 1 / 16, rtol=0.2)
    assert resize.norm() == pytest.approx(1 / 4)
    assert resize.norm("l1") == pytest.approx(1 / 16)


def test_clouds_have_no_sides(tmp_path):
    with pytest.raises(
        InputError, match="short_side=6 is for sets of image files, which furniture/val is not: leave it out"
    ):
        data.load(f"clouds:{trees.clouds(tmp_path)}").resized(6)


def test_scenes_shrink_and_are_not_enlarged(tmp_path):
    """At most 160 pixels on the short side: a small scene stays as it is, and the words say so."""
    small = data.load(f"pets:{trees.pets(tmp_path / 'small', size=(30, 40), count=1)}").shrunk(160)
    large = data.load(f"pets:{trees.pets(tmp_path / 'large', size=(320, 400), count=1)}").shrunk(160)
    assert (small.shape(0), large.shape(0)) == ((30, 40), (160, 200))
    assert small[0].x.shape == (3, 30, 40)
    assert small[0].preprocessing["before"] == small[0].preprocessing["after"] == [30, 40]
    assert "resized to a short side of at most 160 pixels" in in_words(small.preprocessing)
    assert large.name.endswith("at short side up to 160")
    assert "at most" not in in_words(large.resized(80).preprocessing)
