"""Certified accuracy against the radius: against the radius map, over scenes of different size."""

import numpy as np
import pytest

from segcertify import Gaussian, InputError, Votes, certify_votes, metrics, radius_map
from segcertify.certification import radius_table


def some_votes(seed=0, shape=(20, 30), n=300, **more):
    rng = np.random.default_rng(seed)
    agree = rng.binomial(n, rng.choice([0.5, 0.8, 0.9, 0.99, 1.0], shape))
    return Votes(rng.integers(0, 5, shape), agree, n=n, n0=10, noise=Gaussian(0.25), **more)


def truth_of(votes, seed=1):
    """Ground truth that agrees with most candidates, 80 % valid."""
    rng = np.random.default_rng(seed)
    shape = votes.candidate.shape
    target = np.where(rng.random(shape) < 0.7, votes.candidate, rng.integers(0, 5, shape))
    valid = rng.random(shape) < 0.8
    return np.where(valid, target, 0), valid


@pytest.mark.parametrize("masked", [False, True])
def test_the_curve_is_the_radius_map_and_meets_bonferroni_at_every_tau(masked):
    mask = np.random.default_rng(7).random((20, 30)) < 0.5 if masked else None
    votes = some_votes(mask=mask)
    target, valid = truth_of(votes)
    counts = metrics.radius_counts(votes, target, valid)
    right = valid & (votes.candidate == target) & (True if mask is None else mask)
    assert counts.shape == (301,)
    assert [int(c) for c in counts] == [int((right & (votes.agree == k)).sum()) for k in range(301)]
    table = radius_table(votes.noise, n=votes.n, N=votes.N, alpha=0.01)
    radii = radius_map(votes, alpha=0.01)
    np.testing.assert_array_equal(radii, np.where(True if mask is None else mask, table[votes.agree], 0))
    curve = metrics.certified_accuracy_curve(counts, table, int(valid.sum()))
    for radius in (0, *np.linspace(1e-6, 0.8, 50)):
        expected = (right & (radii >= radius) & (radii > 0)).sum() / valid.sum()
        assert curve(radius) == pytest.approx(expected, rel=1e-12)
    for tau in np.linspace(0.51, 0.95, 23):
        certificate = certify_votes(votes, tau=tau, alpha=0.01, correction="bonferroni")
        matrix_at_tau = metrics.confusion(certificate.labels, target, valid, classes=5)
        assert curve(certificate.radius) == pytest.approx(metrics.accuracy(matrix_at_tau), rel=1e-12)
    assert [curve(radius) for radius in curve.radii] == curve.accuracy.tolist()  # the end of a step belongs to it
    assert 0 < curve(0.3) < curve(0)
    assert curve(9) == 0
    assert (np.diff(curve.radii) > 0).all()
    assert (np.diff(curve.accuracy) < 0).all()


def test_one_curve_for_scenes_of_different_size():
    """A small scene proves larger radii from the same counts; each row has its own table."""
    scenes = [some_votes(0), some_votes(1, shape=(4, 5))]
    truths = [truth_of(votes, seed) for seed, votes in enumerate(scenes)]
    counts = [metrics.radius_counts(votes, *truth) for votes, truth in zip(scenes, truths, strict=True)]
    tables = [radius_table(votes.noise, n=votes.n, N=votes.N, alpha=0.01) for votes in scenes]
    assert tables[1].max() > tables[0].max()
    totals = [int(valid.sum()) for _, valid in truths]
    curve = metrics.certified_accuracy_curve(np.stack(counts), np.stack(tables), sum(totals))
    alone = [metrics.certified_accuracy_curve(*each) for each in zip(counts, tables, totals, strict=True)]
    for radius in np.linspace(0, 0.7, 30):
        expected = sum(one(radius) * total for one, total in zip(alone, totals, strict=True)) / sum(totals)
        assert curve(radius) == pytest.approx(expected, abs=1e-12)


def test_a_curve_of_nothing():
    curve = metrics.certified_accuracy_curve(np.array([3, 0, 0]), np.array([0, 0.1, 0.2]), 3)
    assert (len(curve.radii), curve(0), curve(0.1)) == (0, 0.0, 0.0)


FOUR, ALL = np.zeros(4, int), np.ones(4, bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.radius_counts(some_votes(), FOUR, ALL), r"of shape \(20, 30\), as the labels"),
        (lambda: radius_table(Gaussian(1.0), n=10, N=0, alpha=0.1), "N must be an integer not less than 1"),
        (lambda: metrics.certified_accuracy_curve(FOUR, np.zeros(3), 4), "must have the same shape"),
        (lambda: metrics.certified_accuracy_curve(FOUR + 2, np.zeros(4), 7), "valid_total=7 is less than the 8"),
        (lambda: metrics.certified_accuracy_curve(FOUR, np.zeros(4), 0), "valid_total must be an integer not less"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
