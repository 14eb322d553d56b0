"""Nested groups: by hand, and what is refused."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from segmenters import NOISE

import segcertify as sc
from segcertify.sets.groups import certify_by_gap, certify_groups, chosen_levels
from segcertify.stats.binomial import p_values

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
    with pytest.raises(sc.InputError, match="at least one level"):
        certify_groups(votes(), [], tau=0.75, alpha=0.01)


PILOT = np.array([[10, 5, 4, 4], [0, 5, 3, 0], [0, 0, 3, 3], [0, 0, 0, 3]])
"""Gaps of 1, 0, 0.1 and 0.1; at level 1 the last one's most frequent group is the second."""


def piloted(pilot=PILOT):
    return sc.Votes(
        pilot.argmax(0), COUNTS[pilot.argmax(0), np.arange(4)], 100, 10, NOISE, counts=COUNTS, classes=4,
        pilot_counts=pilot,
    )  # fmt: skip


def test_the_pilot_alone_chooses_the_level():
    assert chosen_levels(PILOT, (0.25, 0.0)).tolist() == [0, 2, 1, 1]
    assert chosen_levels(PILOT, ()).tolist() == [0] * 4
    found = certify_by_gap(piloted(), LEVELS, tau=0.75, alpha=0.01, thresholds=(0.25, 0.0))
    assert found.level.tolist() == [0, 2, -1, -1]  # 100 of 100 in {0, 1, 2}; 70 in {0, 1}; 50 in {2, 3}
    assert found.sets.astype(int).tolist() == [[1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert found.labels.tolist() == [0, -1, -1, -1]
    one = certify_by_gap(piloted(), LEVELS, tau=0.75, alpha=0.01, thresholds=(0.25, 0.25))
    assert one.level.tolist() == [0, 2, 2, -1]


def test_the_group_of_a_level_is_the_pilots_most_frequent_one():
    """At the last component the candidate is 0, with 4 of 10 draws, but 6 are in {2, 3}, as are 95 of 100 later."""
    counts = COUNTS.copy()
    counts[:, 3] = [5, 0, 50, 45]
    found = certify_by_gap(
        replace(piloted(), counts=counts, agree=counts[PILOT.argmax(0), np.arange(4)]), LEVELS[:2], tau=0.75, alpha=0.01
    )
    assert found.level[3] == 1
    assert found.sets[:, 3].tolist() == [False, False, True, True]


def test_the_later_draws_choose_nothing():
    """The pilot's group is {0, 1}; that 95 of 100 later draws are in {2, 3} comes too late."""
    counts, pilot = np.array([[5], [0], [50], [45]]), np.array([[3], [3], [2], [2]])
    given = sc.Votes(
        np.array([0]), np.array([5]), 100, 10, NOISE, counts=counts, classes=4, pilot_counts=pilot
    )  # fmt: skip
    found = certify_by_gap(given, LEVELS[:2], tau=0.75, alpha=0.01)
    assert found.level.tolist() == [-1]
    assert found.sets.all()


def test_all_of_alpha_and_no_more_goes_to_the_chosen_groups():
    pilot, counts = np.array([[5], [5], [0], [0]]), np.array([[50], [43], [7], [0]])
    given = sc.Votes(
        np.array([0]), np.array([50]), 100, 10, NOISE, counts=counts, classes=4, pilot_counts=pilot
    )  # fmt: skip
    needed = float(p_values(100, 0.75)[93])
    for alpha, level in ((needed * (1 + 1e-9), 1), (needed * (1 - 1e-9), -1)):
        assert certify_by_gap(given, LEVELS[:2], tau=0.75, alpha=alpha).level.tolist() == [level]


def test_with_one_level_the_gap_chooses_nothing():
    """All of alpha then goes to the candidates: the certificate of labels."""
    for alpha in (0.1, 0.01, 1e-6):
        alone = certify_by_gap(piloted(), LEVELS[:1], tau=0.75, alpha=alpha)
        labels = sc.certify_votes(piloted(), tau=0.75, alpha=alpha).labels
        assert np.array_equal(alone.labels, labels)


def test_a_mask_and_classes_never_seen():
    mask = np.array([True, True, False, False])
    masked = certify_by_gap(replace(piloted(), mask=mask), LEVELS, tau=0.75, alpha=0.01)
    assert (masked.level[2:] == -1).all()
    assert masked.sets[:, 2:].all()
    wide = [np.arange(5), np.array([0, 0, 2, 2, 4])]
    for certify in (certify_groups, certify_by_gap):
        found = certify(replace(piloted(), classes=None), wide, tau=0.75, alpha=0.01)
        assert found.sets.shape == (5, 4)
        assert found.sets[4].tolist() == (found.level < 0).tolist()


def test_refusals_of_the_gap():
    with pytest.raises(sc.InputError, match="needs the pilot's counts"):
        certify_by_gap(votes(), LEVELS, tau=0.75, alpha=0.01)
    with pytest.raises(sc.InputError, match="3 levels need 2 thresholds, but got 1"):
        certify_by_gap(piloted(), LEVELS, tau=0.75, alpha=0.01, thresholds=(0.25,))
    for wrong in ((0.0, 0.25), (2.0, 0.0), (0.1, -0.1)):
        with pytest.raises(sc.InputError, match="must not rise with the level"):
            certify_by_gap(piloted(), LEVELS, tau=0.75, alpha=0.01, thresholds=wrong)


def test_a_pilot_of_one_draw_chooses_its_group():
    pilot = np.array([[0, 1], [0, 0], [1, 0], [0, 0]])
    counts = np.array([[0, 100], [0, 0], [100, 0], [0, 0]])
    found = certify_by_gap(
        sc.Votes(np.array([2, 0]), np.array([100, 100]), 100, 1, NOISE, counts=counts, classes=4, pilot_counts=pilot),
        LEVELS[:2], tau=0.75, alpha=0.01,
    )  # fmt: skip
    assert found.sets.argmax(0).tolist() == [2, 0]
    assert found.labels.tolist() == [2, 0]
    with pytest.raises(FrozenInstanceError):
        found.radius = 1.0
