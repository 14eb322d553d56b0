"""The palette: whoever looks can tell its colours apart."""

import numpy as np
import pytest

from segcertify import ABSTAIN
from segcertify.data.sets.camvid import COLOURS
from segcertify.figures.painting import WRONG
from segcertify.figures.palette import colour, palette

SEEN = {
    "all receptors": np.eye(3),
    "no green receptors": [  # Machado, Oliveira and Fernandes 2009, severity 1, of linear RGB
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ],
    "no red receptors": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ],
}  # fmt: skip
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = [0.95047, 1.0, 1.08883]


def lab(colours, seen):
    """CIE L*a*b* of sRGB colours (classes, 3) in [0, 1], as somebody sees them."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    t = np.clip(linear @ np.transpose(seen), 0, 1) @ np.transpose(XYZ) / WHITE
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])


def ciede2000(one, other):
    """The difference of colours L*a*b* (3, ...), after Sharma, Wu and Dalal 2005."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    g = 0.5 * (1 - np.sqrt(1 / (1 + (25 / np.maximum((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2, 1e-9)) ** 7)))
    c1, c2 = np.hypot((1 + g) * a1, b1), np.hypot((1 + g) * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, (1 + g) * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180
    grey = c1 * c2 == 0
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(np.where(grey, 0, turn)) / 2)
    light, c = (l1 + l2) / 2, (c1 + c2) / 2
    h = np.where(grey, h1 + h2, np.where(abs(h1 - h2) <= 180, (h1 + h2) / 2, ((h1 + h2 + 360) / 2) % 360))
    cos = [np.cos(np.radians(angle)) for angle in (h - 30, 2 * h, 3 * h + 6, 4 * h - 63)]
    t = 1 - 0.17 * cos[0] + 0.24 * cos[1] + 0.32 * cos[2] - 0.20 * cos[3]
    sl, sc, sh = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2), 1 + 0.045 * c, 1 + 0.015 * c * t
    turned = np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    rt = -2 * turned * np.sqrt(1 / (1 + (25 / np.maximum(c, 1e-9)) ** 7))
    return np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh)


def least(colours):
    """The least difference of any two colours for any reader."""
    i, j = np.triu_indices(len(colours), 1)
    return min(ciede2000(seen[:, i], seen[:, j]).min() for seen in (lab(colours, each) for each in SEEN.values()))


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [  # from Sharma, Wu and Dalal 2005, table 1
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((50, 2.5, 0), (58, 24, 15), 19.4535),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_is_the_published_one(one, other, difference):
    assert ciede2000(np.array(one), np.array(other)) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize(("classes", "difference"), [(6, 14), (11, 14), (20, 9)])
def test_colour_blind_readers_can_tell_colours_apart(classes, difference):
    assert least(palette(classes)) >= difference
    assert least(np.array([*COLOURS.values()]) / 255) < 4  # the test finds CamVid's building and pedestrian


@pytest.mark.parametrize("mark", [(1.0, 1.0, 1.0), WRONG])
def test_no_colour_looks_like_a_mark(mark):
    assert min(least(np.array([each, mark])) for each in palette(20)) > 7


@pytest.mark.parametrize("classes", [1, 3, 10, 19, 59, 150])
def test_colours_differ_and_are_never_white(classes):
    colours = palette(classes)
    assert colours.shape == (classes, 3)
    assert len({tuple(row.round(3)) for row in colours}) == classes
    assert (colours.min(1) < 0.9).all()


def test_abstentions_are_white_where_labels_stand_alone():
    image = colour(np.array([[0, ABSTAIN], [2, 1]]))
    assert (image[0, 1] == 1).all()
    np.testing.assert_array_equal(image[1, 0], palette(3)[2])
