"""Nested groups: by hand, and what is refused."""

import numpy as np
import pytest
from segmenters import NOISE

import segcertify as sc
from segcertify.sets.groups import certify_groups

COUNTS = np.array([[99, 50, 40, 30], [1, 50, 30, 20], [0, 0, 30, 25], [0, 0, 0, 25]])
LEVELS = [np.arange(4), np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])]


def votes(n0=5, counts=COUNTS):
    return sc.Votes(COUNTS.argmax(0), COUNTS.max(0), 100, n0, NOISE, counts=counts, classes=4)


def test_the_finest_level_that_holds_is_kept():
    found = certify_groups(votes(), LEVELS, tau=0.75, alpha=0.01)
    assert found.level.tolist() == [0, 1, 2, -1]
    assert found.sets.astype(int).tolist() == [[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert found.radius == NOISE.radius(0.75)


def test_each_level_has_its_share_of_alpha():
    """A single level at alpha is the certificate of labels at alpha."""
    for alpha in (0.1, 0.01, 1e-6):
        alone = certify_groups(votes(), LEVELS[:1], tau=0.75, alpha=alpha)
        assert np.array_equal(alone.level >= 0, ~sc.certify_votes(votes(), tau=0.75, alpha=alpha).abstained)
        three = certify_groups(votes(), [LEVELS[0]] * 3, tau=0.75, alpha=alpha)
        assert np.array_equal(three.level >= 0, ~sc.certify_votes(votes(), tau=0.75, alpha=alpha / 3).abstained)


def test_refusals():
    with pytest.raises(sc.InputError, match="groups need votes with a pilot"):
        certify_groups(votes(n0=0), LEVELS, tau=0.75, alpha=0.01)
    with pytest.raises(sc.InputError, match="groups need votes with a pilot"):
        certify_groups(sc.Votes(np.array([0]), np.array([9]), 10, 3, NOISE), LEVELS, tau=0.75, alpha=0.01)
    with pytest.raises(sc.InputError, match="must give the group of 4 classes"):
        certify_groups(votes(), [np.arange(3)], tau=0.75, alpha=0.01)
