"""The one style: tinted labels, hatched abstentions, blank where nothing was asked, outlines around what is wrong."""

import numpy as np
import pytest

from segcertify import ABSTAIN
from segcertify.figures.painting import BLANK, DARK, LIGHT, SIDE, TINT, WRONG, blanked, painted, rim

COLOURS = np.array([[1.0, 0, 0], [0, 0, 1.0]])


def test_labels_tint_a_photograph_and_are_plain_without_one():
    labels, grey = np.array([[0, 1]]), np.array([[0.2, 0.6]])
    np.testing.assert_allclose(painted(grey, labels, COLOURS, side=0)[0], TINT * COLOURS + (1 - TINT) * grey.T)
    np.testing.assert_array_equal(painted(None, labels, COLOURS, side=0)[0], COLOURS)
    rgb = np.random.default_rng(0).random((1, 2, 3))
    np.testing.assert_allclose(painted(rgb, labels, COLOURS, side=0, tint=0.5)[0], 0.5 * COLOURS + 0.5 * rgb[0])


@pytest.mark.parametrize("shape", [(20, 30), (700, 40), (1, 1)])
def test_abstentions_are_hatched_at_any_size(shape):
    shown = painted(None, np.full(shape, ABSTAIN), COLOURS)
    times = max(1, SIDE // max(shape))
    assert shown.shape == (shape[0] * times, shape[1] * times, 3)
    assert set(np.unique(shown)) == {DARK, LIGHT}
    assert 0.02 < (shown == DARK).mean() < 0.5


def test_what_was_not_asked_is_blank_also_on_a_photograph():
    labels = blanked(np.zeros((4, 4), int), np.eye(4, dtype=bool))
    assert (labels == np.where(np.eye(4), 0, BLANK)).all()
    shown = painted(np.zeros((4, 4)), labels, COLOURS, side=0)
    assert (shown[labels == BLANK] == 1).all()
    assert (shown[labels == 0] == TINT * COLOURS[0]).all()


def test_what_is_wrong_is_outlined_and_seen_inside():
    wrong = np.zeros((60, 60), bool)
    wrong[20:40, 20:40] = True
    shown = painted(None, np.zeros((60, 60), int), COLOURS, wrong=wrong)
    outline = (shown == WRONG).all(-1)
    times = SIDE // 60
    assert outline[20 * times, 20 * times : 40 * times].all()
    assert not outline[~wrong.repeat(times, 0).repeat(times, 1)].any()
    assert (shown[30 * times, 30 * times] == COLOURS[0]).all()
    alone = np.zeros((60, 60), bool)
    alone[5, 5] = True
    assert (painted(None, np.zeros((60, 60), int), COLOURS, wrong=alone)[55, 50] == WRONG).all()  # one pixel is seen


def test_a_rim_is_as_wide_as_asked():
    inside = np.zeros((9, 9), bool)
    inside[1:8, 1:8] = True
    assert (rim(inside).sum(), rim(inside, 2).sum(), rim(inside, 9).sum()) == (24, 40, 49)
