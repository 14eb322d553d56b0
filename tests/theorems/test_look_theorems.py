"""Looks, measured: the family-wise error of sequential certificates on exact adversaries, and of planted defects.

Components have exactly probability tau, so that a certificate of them is false, or 0.99. Each test of soundness
simulates thousands of runs and fails if an exact binomial test of errors against alpha has p < 1e-5: together, sound
procedures fail with probability at most 2e-4. Planted defects must exceed alpha with p < 1e-9.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

import segcertify as sc
from segcertify.looks import certified_by_looks, union_of_looks
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import procedure

pytestmark = pytest.mark.statistical

TAU, ALPHA, RUNS, N = 0.6, 0.2, 4000, 8
LOOKS = (20, 30, 45, 60)
LEVEL = ALPHA / len(LOOKS)
EVERYTHING = np.ones(N, bool)


def drawn(kind, true_ones=0, *, runs=RUNS, seed=0):
    """The counts of all runs at every look, (runs, looks, components); ``true_ones`` have probability 0.99."""
    rng, draws = np.random.default_rng([seed, true_ones]), LOOKS[-1]
    columns = {"independent": N, "identical": 1, "blocks": 2, "opposed": N // 2}[kind]
    u = rng.random((runs, draws, columns))
    u = np.concatenate([u, 1 - u], 2) if kind == "opposed" else np.repeat(u, N // columns, 2)
    probabilities = np.where(np.arange(N) < true_ones, 0.99, TAU)
    return (u < probabilities).cumsum(1)[:, np.array(LOOKS) - 1]


def certified(counts, *, level=LEVEL, correction="holm", looks=LOOKS):
    """The components that a run's counts certify."""
    given = dict(zip(looks, counts, strict=True))
    return union_of_looks(given, EVERYTHING, tau=TAU, level=level, chosen=procedure(correction))


def errors(runs, true_ones=0, decide=certified):
    """How many runs certify a component whose probability is tau."""
    return sum(bool(decide(counts)[true_ones:].any()) for counts in runs)


def require_at_most(count, runs=RUNS, alpha=ALPHA):
    assert binomtest(count, runs, alpha, alternative="greater").pvalue > 1e-5, count / runs


def require_more(count, runs=RUNS, alpha=ALPHA):
    assert binomtest(count, runs, alpha, alternative="greater").pvalue < 1e-9, count / runs


def as_votes(counts, n=LOOKS[-1]):
    """A run's votes, as they are if it stopped after n draws."""
    earlier = {time: each for time, each in zip(LOOKS, counts, strict=True) if time < n}
    agree = counts[LOOKS.index(n)]
    return sc.Votes(np.zeros(N, int), agree, n=n, n0=10, noise=sc.Gaussian(1.0), looks=LOOKS, earlier=earlier)


@pytest.mark.parametrize("true_ones", [0, 6, 7])
@pytest.mark.parametrize("kind", ["independent", "identical", "blocks", "opposed"])
def test_the_family_wise_error_is_at_most_alpha(kind, true_ones):
    """Also where others are certified early and drop out of the count. No rule of stopping certifies more than this."""
    require_at_most(errors(drawn(kind, true_ones), true_ones))


def test_bonferroni_too():
    require_at_most(errors(drawn("independent"), decide=lambda counts: certified(counts, correction="bonferroni")))


def test_an_adversary_who_stops_at_the_worst_look_gains_nothing():
    """Votes that stopped at a look certify a part of what all looks do, whichever look it is."""
    for counts in drawn("independent", 4, runs=100):
        union = certified(counts)
        for n in LOOKS:
            stopped = certified_by_looks(as_votes(counts, n), tau=TAU, alpha=ALPHA, chosen=procedure("holm"))
            assert not (stopped & ~union).any()
        assert np.array_equal(sc.certify_votes(as_votes(counts), tau=TAU, alpha=ALPHA).labels == 0, union)


def test_radius_maps_of_votes_that_stopped_at_the_worst_look():
    proved, runs = sc.Gaussian(1.0).radius(TAU), drawn("independent", runs=500)
    false = 0
    for counts in runs:
        false += any((sc.radius_map(as_votes(counts, n), alpha=ALPHA) > proved).any() for n in LOOKS)
    require_at_most(false, len(runs))


def test_the_tests_above_have_power():
    """The error is not far below alpha where one false component is left."""
    assert errors(drawn("independent", 7), 7) > 0.3 * ALPHA * RUNS


# Planted defects


def test_levels_that_are_not_divided_are_found():
    assert errors(drawn("independent", 7), 7, lambda counts: certified(counts, level=ALPHA)) > 1.2 * ALPHA * RUNS
    require_more(errors(drawn("independent", 7), 7, lambda counts: certified(counts, level=ALPHA)))


def test_look_times_that_are_chosen_from_the_data_are_found():
    """One test at level alpha = 0.05, after whichever number of draws suits best: it errs in a fifth of runs."""
    alpha, times, runs = 0.05, np.arange(20, 201), 4000
    enough = np.array([int(np.flatnonzero(p_values(int(time), TAU) <= alpha)[0]) for time in times])
    counts = (np.random.default_rng(0).random((runs, times[-1])) < TAU).cumsum(1)[:, times - 1]
    chosen = int((counts >= enough).any(1).sum())
    assert chosen > 3 * alpha * runs
    require_more(chosen, runs, alpha)
    require_at_most(int((counts[:, -1] >= enough[-1]).sum()), runs, alpha)  # a time that was fixed


def test_looks_that_are_forgotten_are_found():
    """The counts of the first look that certifies something, tested as if there had been no other look."""

    def forgotten(counts):
        found = [certified([each], level=ALPHA, looks=[time]) for time, each in zip(LOOKS, counts, strict=True)]
        return next((each for each in found if each.any()), found[-1])

    require_more(errors(drawn("independent"), decide=forgotten))


def test_votes_take_no_other_looks_afterwards():
    found = as_votes(drawn("independent", runs=1)[0])
    for looks in ((25, 60), (60, 20), (30,)):
        with pytest.raises(sc.InputError, match="looks"):
            replace(found, looks=looks)
    assert as_votes(drawn("independent", runs=1)[0], 20).level(ALPHA) == ALPHA / 4
