"""Scores of sets: by hand, and as bounds that an attacker of the majority-or-nothing model cannot get below."""

import json
import math

import numpy as np
import pytest

import segcertify as sc
from segcertify import metrics
from segcertify.metrics.sets import set_counts, set_scores, small_sets, worst_case_set_iou
from segcertify.sets.groups import Groups

NOISE = sc.Gaussian(0.25)


def certificate(sets, labels, **options):
    sets, labels = np.asarray(sets, bool), np.asarray(labels, np.int32)
    radius = NOISE.radius(0.75)
    return sc.SetCertificate(sets, labels, radius, "l2", 0.75, 0.01, "holm", 100, 0, NOISE, labels.size, **options)


def test_scores_by_hand():
    """Truth 0 0 1 1 2, and one that is ignored."""
    found = certificate([[1, 1, 1, 0, 0, 1], [0, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 1]], [0, -1, -1, -1, 1, -1], classes=3)
    target, valid = np.array([0, 0, 1, 1, 2, 0]), np.array([True] * 5 + [False])
    counts = set_counts(found, target, valid, classes=3)
    assert counts.right.tolist() == [1, 0, 0]
    assert counts.possible.tolist() == [1, 2, 1]
    iou = [1 / 3, 0, 0]
    assert worst_case_set_iou(counts).tolist() == pytest.approx(iou)
    more = set_counts(found, target, valid, classes=4)
    assert np.isnan(worst_case_set_iou(more)).tolist() == [False] * 3 + [True]  # no pixel is of the fourth
    assert set_scores(more).worst_case_miou == pytest.approx(1 / 9)
    scores = set_scores(counts)
    gains = [1, 1 - math.log(3) / math.log(4), 0, 1 - math.log(2) / math.log(4), 0]
    assert scores.information_gain == pytest.approx(sum(gains) / 5)
    assert scores.worst_case_miou == pytest.approx(1 / 9)
    assert (scores.certified_accuracy, scores.truth_in_set, scores.certified) == (0.2, 0.8, 0.4)
    assert (scores.at_most_1, scores.at_most_2, scores.at_most_3, scores.only) == (0.6, 0.8, 1.0, 0.2)
    assert (counts.small, counts.small_true) == ({(0, 1): 1, (0, 1, 2): 1}, {(0, 1): 1, (0, 1, 2): 1})


def test_no_attack_gets_below_the_bound():
    """Whatever answers the sets allow, majority or nothing: the IoU of every class stays above."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        sets = rng.random((4, 30)) < 0.4
        sets[rng.integers(0, 4, 30), np.arange(30)] = True
        labels = np.where((sets.sum(0) == 1) & (rng.random(30) < 0.7), sets.argmax(0), -1)
        target = rng.integers(0, 4, 30)
        counts = set_counts(certificate(sets, labels, classes=4), target, np.ones(30, bool), classes=4)
        bound = worst_case_set_iou(counts)
        for _ in range(20):
            allowed = np.concatenate([sets, [labels < 0]])  # the last: nothing
            answer = np.where(allowed, rng.random(allowed.shape), -1).argmax(0)
            for c in range(4):
                both, either = ((answer == c) & (target == c)).sum(), ((answer == c) | (target == c)).sum()
                assert not (target == c).any() or both / either >= bound[c] - 1e-12


def test_scenes_add_up():
    found, target = certificate([[1, 1], [0, 1]], [0, -1], classes=2), np.array([0, 1])
    one = set_counts(found, target, np.ones(2, bool), classes=2)
    both = set_scores(one + one)
    assert both == set_scores(one)
    assert (one + one).valid == 4


def test_classes_never_seen():
    """Where their number was not known they are excluded too; not where nothing is."""
    for excludes, inside in ((True, 0), (False, 1)):
        found = certificate([[1], [1]], [-1], excludes=excludes)
        counts = set_counts(found, np.array([3]), np.array([True]), classes=4)
        assert counts.inside.sum() == inside
        assert counts.of_size.tolist() == ([0, 1, 1] if excludes else [0, 0, 0])


def test_bad_input_and_nothing_valid():
    found = certificate([[1], [1]], [-1])
    with pytest.raises(sc.InputError, match="sets are of 2 classes, but the data set has 1"):
        set_counts(found, np.array([0]), np.array([True]), classes=1)
    with pytest.raises(sc.InputError, match=r"target must lie in 0 \.\. 1"):
        set_counts(found, np.array([5]), np.array([True]), classes=2)
    with pytest.raises(sc.InputError, match="shape"):
        set_counts(found, np.array([0, 1]), np.array([True]), classes=2)
    scores = set_scores(set_counts(found, np.array([0]), np.array([False]), classes=2))
    assert math.isnan(scores.worst_case_miou)


def random_counts(seed, classes=5, N=200):
    rng = np.random.default_rng(seed)
    sets = rng.random((classes, N)) < 0.4
    sets[rng.integers(0, classes, N), np.arange(N)] = True
    labels = np.where((sets.sum(0) == 1) & (rng.random(N) < 0.7), sets.argmax(0), -1)
    target, valid = rng.integers(0, classes, N), rng.random(N) < 0.9
    return sets[:, valid], target[valid], set_counts(
        certificate(sets, labels, classes=classes), target, valid, classes=classes
    )  # fmt: skip


def test_small_sets_are_counted_by_their_labels():
    sets, target, counts = random_counts(1)
    by_hand, true = {}, {}
    for column, y in zip(sets.T, target, strict=True):
        key = tuple(np.flatnonzero(column).tolist())
        if len(key) in (2, 3):
            by_hand[key] = by_hand.get(key, 0) + 1
            true[key] = true.get(key, 0) + (y in key)
    assert counts.small == by_hand
    assert {key: counts.small_true[key] for key in true} == true
    assert not small_sets(np.ones((5, 3), bool))
    assert not small_sets(np.ones((1, 3), bool))


def test_counts_survive_json():
    for seed in range(5):
        counts = random_counts(seed)[2]
        plain = json.loads(json.dumps(metrics.sets_to_plain(counts)))
        assert metrics.sets_to_plain(metrics.sets_from_plain(plain)) == plain
        assert set_scores(metrics.sets_from_plain(plain)) == set_scores(counts)


@pytest.mark.parametrize(
    "change",
    [
        {"truth": []}, {"classes": 4}, {"right": [1]}, {"valid": -1}, {"valid": "5"}, {"of_size": [1, 2]},
        {"small": [[[0, 9], 3, 1]]}, {"small": [[[0, 1], 3, 4]]}, {"small": 5}, {"only": None}, {"possible": [0.5] * 5},
    ],
)  # fmt: skip
def test_counts_that_cannot_be_are_refused(change):
    plain = metrics.sets_to_plain(random_counts(0)[2])
    with pytest.raises(sc.InputError, match="not counts of sets"):
        metrics.sets_from_plain(plain | change)
    with pytest.raises(sc.InputError, match="do not add up"):
        _ = random_counts(0)[2] + random_counts(0, classes=4)[2]


def test_groups_are_scored_as_sets():
    """A group of one class is a certified label; a component without a level has a full set."""
    sets = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], bool)
    groups = Groups(np.array([0, 1, -1]), sets, NOISE.radius(0.75), 0.01)
    counts = set_counts(groups, np.array([0, 1, 2]), np.ones(3, bool), classes=3)
    alike = set_counts(certificate(sets, [0, -1, -1], classes=3), np.array([0, 1, 2]), np.ones(3, bool), classes=3)
    assert metrics.sets_to_plain(counts) == metrics.sets_to_plain(alike)
    assert groups.labels.tolist() == [0, -1, -1]
