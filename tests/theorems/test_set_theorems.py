"""Sets and certificates without a pilot err with probability alpha at most, on exact adversaries.

Components are independent, identical, in blocks or opposed; classes sit exactly at 1 - tau and at tau. Each rate is
tested with a false-alarm rate of 1e-6 (`rate_exceeds`). Planted defects must be found by the same tests.
"""

from dataclasses import replace

import numpy as np
import pytest

import segcertify as sc
from segcertify.sets import exclusion, groups
from segcertify.stats import pilotless
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import procedure

pytestmark = pytest.mark.statistical

N, DRAWS, TAU, ALPHA, RUNS = 12, 44, 0.75, 0.2, 2000
QUARTERS = (0.25, 0.25, 0.25, 0.25, 0.0)
"""Four classes exactly at 1 - tau: as many true nulls as there can be."""
AT_TAU = (0.75, *[0.25 / 4] * 4)
"""The first class exactly at tau: no label may be certified."""
TWO = (0.75, 0.25, 0.0, 0.0, 0.0)
"""Two true nulls, and no label that may be certified."""
HALVES = (0.5, 0.5, 0.0, 0.0, 0.0)
STRUCTURES = ("independent", "identical", "block", "opposed")


def counted(structure, kinds, *, runs=RUNS, n=DRAWS, seed=0):
    """Counts (runs, classes, N) of components, whose probabilities (N, classes) go round in ``kinds``; and these."""
    p = np.array([kinds[i % len(kinds)] for i in range(N)])
    shape = {"identical": (runs, n, 1), "block": (runs, n, 3)}.get(structure, (runs, n, N))
    uniform = np.repeat(np.random.default_rng(seed).random(shape, np.float32), N // shape[2], axis=2)
    if structure == "opposed":
        uniform[..., 1::2] = 1 - uniform[..., ::2]
    drawn = (uniform[..., None] >= np.cumsum(p, 1)[:, :-1].astype(np.float32)).sum(-1)
    return np.stack([(drawn == c).sum(1) for c in range(p.shape[1])], 1), p


def set_errors(counts, p, alpha):
    """In how many runs some set, by exclusion alone, leaves out a class at 1 - tau or more."""
    settings = {"n": DRAWS, "tau": TAU, "alpha": alpha, "classes": 5}
    null = p.T >= 1 - TAU
    return sum(bool((null & ~exclusion.not_excluded(each, **settings)[0]).any()) for each in counts)


def label_errors(counts, p, *, tau=TAU, alpha=ALPHA, correction="holm"):
    """In how many runs some label that is not above tau is certified, without a pilot."""
    n, chosen, errors = int(counts[0, :, 0].sum()), procedure(correction), 0
    for each in counts:
        label, agree = each.argmax(0), each.max(0)
        histogram = np.bincount(agree, minlength=n + 1)
        enough = pilotless.label_threshold(histogram, n=n, tau=tau, alpha=alpha, chosen=chosen, pilot=False)
        errors += bool(((agree >= enough) & (p[np.arange(N), label] <= tau)).any())
    return errors


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kinds", [(QUARTERS,), (TWO,), (TWO, QUARTERS)], ids=["quarters", "two", "both"])
def test_exclusions_err_with_probability_alpha_at_most(structure, kinds, rate_exceeds):
    counts, p = counted(structure, kinds)
    assert not rate_exceeds(set_errors(counts, p, ALPHA), RUNS, ALPHA)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
def test_labels_without_a_pilot_err_with_probability_alpha_at_most(structure, correction, rate_exceeds):
    counts, p = counted(structure, (AT_TAU, TWO))
    assert not rate_exceeds(label_errors(counts, p, correction=correction), RUNS, ALPHA)


USED_UP = float(p_values(DRAWS, 0.5)[30]) * N * (1 + 1e-6)
"""An alpha that a count of 30 uses up at tau = 1/2, if alpha / N is its level."""


def test_radius_maps_without_a_pilot_err_with_probability_alpha_at_most(rate_exceeds):
    """At two classes of 1/2 each, the worst case: either may seem to be above."""
    counts, _ = counted("independent", (HALVES,))
    votes = [sc.Votes(np.zeros(N, int), np.zeros(N, int), DRAWS, n0, sc.Gaussian(0.25)) for n0 in (0, 10)]
    for each, too_many in zip(votes, (False, True), strict=True):  # with the bounds of a pilot: alpha not halved
        wrong = [sc.radius_map(replace(each, agree=top), alpha=USED_UP).any() for top in counts.max(1)]
        assert rate_exceeds(sum(wrong), RUNS, USED_UP) == too_many


def piloted(counts, pilot):
    """Votes of which the pilot chose the candidates, both with the counts of all classes."""
    chosen = pilot.argmax(0)
    return sc.Votes(
        chosen, counts[chosen, np.arange(N)], int(counts[:, 0].sum()), int(pilot[:, 0].sum()), sc.Gaussian(0.25),
        counts=counts, classes=5, pilot_counts=pilot,
    )  # fmt: skip


def certificate_errors(runs=600, pilot=0, kinds=(AT_TAU, QUARTERS)):
    """Errors of whole certificates, where some components tempt to certify and others to exclude."""
    counts, p = counted("independent", kinds, runs=runs)
    pilots = counted("independent", kinds, runs=runs, n=pilot, seed=1)[0] if pilot else [None] * runs
    errors = 0
    for each, first in zip(counts, pilots, strict=True):
        votes = sc.Votes(each.argmax(0), each.max(0), DRAWS, 0, sc.Gaussian(0.25), counts=each, classes=5)
        votes = votes if first is None else piloted(each, first)
        found = sc.certify_sets(votes, tau=TAU, alpha=ALPHA)
        wrong = (found.labels >= 0) & (p[np.arange(N), np.maximum(found.labels, 0)] <= TAU)
        errors += bool((wrong | ((p.T >= 1 - TAU) & ~found.sets).any(0)).any())
    return errors


def test_certificates_of_sets_err_with_probability_alpha_at_most(rate_exceeds):
    assert not rate_exceeds(certificate_errors(), 600, ALPHA)


@pytest.mark.parametrize("kinds", [(AT_TAU, QUARTERS), (TWO,), (QUARTERS,)], ids=["both", "two", "quarters"])
def test_certificates_with_a_pilot_that_excludes_too_err_with_probability_alpha_at_most(kinds, rate_exceeds):
    assert not rate_exceeds(certificate_errors(pilot=11, kinds=kinds), 600, ALPHA)


SPLIT = (0.5, 0.25, 0.125, 0.125, 0.0)
"""The first two classes, a group, exactly at tau together."""
LEVELS = [np.arange(5), np.array([0, 0, 2, 2, 4])]


def group_errors(counts, pilots, p, *, thresholds=(0.6,), alpha=ALPHA):
    """In how many runs some group that is not above tau is certified, at the level that the pilot's gap chose."""
    errors = 0
    for each, pilot in zip(counts, pilots, strict=True):
        found = groups.certify_by_gap(piloted(each, pilot), LEVELS, tau=TAU, alpha=alpha, thresholds=thresholds)
        errors += bool(((found.level >= 0) & ((p.T * found.sets).sum(0) <= TAU + 1e-12)).any())
    return errors


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kinds", [(TWO,), (SPLIT,), (TWO, SPLIT)], ids=["two", "split", "both"])
def test_groups_by_the_pilots_gap_err_with_probability_alpha_at_most(structure, kinds, rate_exceeds):
    counts, p = counted(structure, kinds)
    pilots, _ = counted(structure, kinds, seed=1)
    assert not rate_exceeds(group_errors(counts, pilots, p), RUNS, ALPHA)


# --- planted defects ---


def test_a_level_chosen_on_the_draws_that_test_it_is_found(rate_exceeds):
    """Where a count happens to be high, single classes are tested, and Holm counts few of them: all else is certain."""
    counts, p = counted("independent", (TWO,))
    assert rate_exceeds(group_errors(counts, counts, p), RUNS, ALPHA)


def test_a_test_of_n_draws_against_n_minus_n0_trials_is_found(monkeypatch, rate_exceeds):
    """As in public code, which takes n for the total, and so for fewer draws than were counted."""
    real = groups.label_threshold

    def of_fewer_trials(histogram, *, n, **settings):
        left = n - 10
        fewer = np.append(histogram[:left], histogram[left:].sum())
        return real(fewer, n=left, **settings)

    counts, p = counted("independent", (TWO,))
    pilots, _ = counted("independent", (TWO,), n=10, seed=1)
    assert not rate_exceeds(group_errors(counts, pilots, p), RUNS, ALPHA)
    monkeypatch.setattr(groups, "label_threshold", of_fewer_trials)
    assert rate_exceeds(group_errors(counts, pilots, p), RUNS, ALPHA)


def test_a_pilot_that_is_only_counted_as_trials_is_found(monkeypatch, rate_exceeds):
    """Its draws in the number of trials, but not in the counts: every class seems to be rarer than it is."""
    monkeypatch.setattr(exclusion, "added", lambda counts, pilot, n: counts)
    assert rate_exceeds(certificate_errors(pilot=22, kinds=(QUARTERS,)), 600, ALPHA)


def test_sets_at_alpha_over_n_are_found(monkeypatch, rate_exceeds):
    monkeypatch.setattr(exclusion, "most_true_nulls", lambda tau, classes: 1)
    assert rate_exceeds(set_errors(*counted("independent", (QUARTERS,)), ALPHA), RUNS, ALPHA)


def test_one_true_null_too_few_is_found(monkeypatch, rate_exceeds):
    """m off by one: at tau = 1/2 two classes may have 1/2 each, and one null counted for two doubles the level."""
    n = 160
    counts, _ = counted("independent", (HALVES,), n=n)
    tail = p_values(n, 0.5)
    alpha = float(tail[np.argmax(tail <= 0.2 / (2 * N))]) * 2 * N * (1 + 1e-9)  # two nulls a component use it up

    def errors():
        settings = {"n": n, "tau": 0.5, "alpha": alpha, "classes": 5}
        return sum(bool((~exclusion.not_excluded(each, **settings)[0][:2]).any()) for each in counts)

    assert not rate_exceeds(errors(), RUNS, alpha)
    monkeypatch.setattr(exclusion, "most_true_nulls", lambda tau, classes: 1)
    assert rate_exceeds(errors(), RUNS, alpha)


def test_the_most_true_nulls():
    for tau in (0.5, 0.6, 0.75, 0.8, 0.9, 0.95, 0.99):
        m = exclusion.most_true_nulls(tau, None)
        assert m * (1 - tau) <= 1 + 1e-9 < (m + 1) * (1 - tau)
        assert exclusion.most_true_nulls(tau, 2) == 2


def test_plain_p_values_of_the_most_frequent_class_are_found(monkeypatch, rate_exceeds):
    """At tau = 1/2, where either of two classes may reach k."""
    counts, p = counted("independent", (HALVES,))
    settings = {"tau": 0.5, "alpha": USED_UP, "correction": "bonferroni"}
    assert not rate_exceeds(label_errors(counts, p, **settings), RUNS, USED_UP)
    monkeypatch.setattr(pilotless, "pilotless_p_values", p_values)
    assert rate_exceeds(label_errors(counts, p, **settings), RUNS, USED_UP)
