"""Thumbnails: what each pixel and point looks like, and how large they are."""

import io

import numpy as np
import pytest
from PIL import Image

from segcertify.figures.thumbnail import MOST_POINTS, SIDE, cloud_thumbnail, image_thumbnail

COLOURS = np.array([[1.0, 0, 0], [0, 0, 1.0]])


def opened(content):
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "JPEG"
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("shape", [(40, 60), (1024, 2048), (1, 1), (1, 5000), (700, 3)])
def test_sizes(shape):
    labels = np.zeros(shape, int)
    found = opened(image_thumbnail(np.full((3, *shape), 0.5), labels, COLOURS))
    assert max(found.shape[:2]) == min(SIDE, max(shape))
    assert min(found.shape[:2]) >= 1


def test_labels_tint_the_photograph_and_abstentions_are_hatched():
    x, labels = np.full((3, 60, 90), 0.5), np.repeat([0, 1, -1], 30)[None].repeat(60, 0)
    found = opened(image_thumbnail(x, labels, COLOURS))
    red, blue, hatched = (found[5:-5, start : start + 20] for start in (5, 35, 65))
    assert (red[..., 0] > red[..., 2] + 80).all()
    assert (blue[..., 2] > blue[..., 0] + 80).all()
    assert np.ptp(hatched.mean(2)) > 60
    assert np.ptp(red.mean(2)) < 12


def test_wrong_labels_are_outlined_and_ignored_ones_are_not():
    x, labels = np.full((3, 60, 60), 0.5), np.zeros((60, 60), int)
    target = labels.copy()
    assert image_thumbnail(x, labels, COLOURS, target=target - 1) == image_thumbnail(x, labels, COLOURS)
    target[20:40, 20:40] = 1
    plain, outlined = (opened(image_thumbnail(x, labels, COLOURS, target=each)) for each in (labels, target))
    changed = np.abs(plain - outlined).sum(2) > 50
    assert changed[20, 22:38].all()
    assert not changed[26:34, 26:34].any()
    assert not changed[:10].any()


def test_clouds_show_their_labels():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 6))
    above = points[:, 1] > 0
    for labels, few in ((above.astype(int), 0), (np.where(above, 1, -1), 1)):
        found = opened(cloud_thumbnail(points, labels, COLOURS, target=labels))
        assert found.shape == (SIDE, SIDE, 3)
        blue = found[..., 2] > found[..., 0] + 60
        red = found[..., 0] > found[..., 2] + 60
        assert blue.sum() > 500
        assert (red.sum() > 500) == (few == 0)
        assert np.nonzero(blue)[0].mean() < SIDE / 2  # up is up


def test_odd_clouds():
    assert opened(cloud_thumbnail(np.zeros((1, 3)), np.array([0]), COLOURS)).shape == (SIDE, SIDE, 3)
    many = np.random.default_rng(0).normal(size=(5 * MOST_POINTS, 3))
    assert opened(cloud_thumbnail(many, np.zeros(len(many), int), COLOURS)).shape == (SIDE, SIDE, 3)


def test_the_same_input_gives_the_same_bytes():
    x, labels = np.random.default_rng(0).random((3, 30, 40)), np.zeros((30, 40), int)
    assert image_thumbnail(x, labels, COLOURS) == image_thumbnail(x, labels, COLOURS)
