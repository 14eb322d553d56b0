"""A scene: its shapes, and what it says of itself."""

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data import Scene


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_images_and_clouds():
    image = Scene("p", zeros(3, 4, 5), np.zeros((4, 5), np.int32), np.ones((4, 5), bool))
    assert repr(image) == "Scene('p': 4 x 5 pixels, 100.0% with ground truth)"
    assert image.category == ""
    cloud = Scene("q", zeros(8, 6), np.zeros(8, np.int32), np.arange(8) < 6, "Mug")
    assert repr(cloud) == "Scene('q': Mug, 8 points, 75.0% with ground truth)"


@pytest.mark.parametrize(
    ("x", "target", "valid"),
    [
        ((3, 2, 2), (2, 3), (2, 2)),
        ((3, 2, 2), (2, 2), (2, 3)),
        ((3, 2, 2), (3,), (3,)),
        ((8, 6), (6,), (6,)),
        ((8, 6), (8,), (7,)),
        ((8, 6), (8, 6), (8, 6)),
        ((8,), (8,), (8,)),
        ((1, 3, 2, 2), (2, 2), (2, 2)),
    ],
)
def test_shapes_that_do_not_fit(x, target, valid):
    with pytest.raises(InputError, match=r"scene 'p': x must be \(3, height, width\) .* or \(points, columns\) with"):
        Scene("p", zeros(*x), np.zeros(target, np.int32), np.ones(valid, bool))
