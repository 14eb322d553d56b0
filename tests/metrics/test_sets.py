"""Scores of sets: by hand, and as bounds that an attacker of the majority-or-nothing model cannot get below."""

import math

import numpy as np
import pytest

import segcertify as sc
from segcertify.metrics.sets import set_counts, set_scores, worst_case_set_iou

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
    scores = set_scores(counts)
    gains = [1, 1 - math.log(3) / math.log(4), 0, 1 - math.log(2) / math.log(4), 0]
    assert scores.information_gain == pytest.approx(sum(gains) / 5)
    assert scores.worst_case_miou == pytest.approx(1 / 9)
    assert (scores.certified_accuracy, scores.truth_in_set, scores.certified) == (0.2, 0.8, 0.4)
    assert (scores.at_most_1, scores.at_most_2, scores.at_most_3) == (0.6, 0.8, 1.0)


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
        assert counts.truth_in_set == inside
        assert counts.of_size.tolist() == ([0, 1, 1] if excludes else [0, 0, 0])


def test_bad_input_and_nothing_valid():
    found = certificate([[1], [1]], [-1])
    with pytest.raises(sc.InputError, match="sets are of 2 classes, but the data set has 1"):
        set_counts(found, np.array([0]), np.array([True]), classes=1)
    with pytest.raises(sc.InputError, match=r"target must lie in 0 \.\. 1"):
        set_counts(found, np.array([5]), np.array([True]), classes=2)
    scores = set_scores(set_counts(found, np.array([0]), np.array([False]), classes=2))
    assert math.isnan(scores.worst_case_miou)
