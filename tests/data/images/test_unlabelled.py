"""Images without labels."""

from pathlib import Path

import numpy as np
import pytest
from toys import tree

from segcertify import InputError
from segcertify.data.images.unlabelled import unlabelled

COLOURS = np.array([[0, 0, 0], [255, 0, 0]], np.uint8)


def test_every_image_of_a_folder_without_its_labels(tmp_path):
    tree(tmp_path / "toys")
    data = unlabelled(tmp_path / "toys/train/images", ("a", "b"), COLOURS)
    assert (len(data), data.classes, data.name) == (6, ("a", "b"), "images without labels")
    scene = data[1]
    assert (scene.x.shape, scene.target.shape) == ((3, 20, 28), (20, 28))
    assert data.shape(1) == (20, 28)
    assert scene.valid.all()  # all of it may be labelled later
    data.check()


def test_a_folder_without_images(tmp_path):
    with pytest.raises(InputError, match=r"no image ending in \.jpg, \.jpeg, \.png in"):
        unlabelled(Path(tmp_path), ("a", "b"), COLOURS)
