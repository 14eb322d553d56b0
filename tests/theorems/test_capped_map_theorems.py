"""Capped radius maps: the family-wise error on components of known probability, under every kind of dependence.

Rates are asked for as in `test_theorems`, with false alarms of 1e-6.
"""

import numpy as np
import pytest

import segcertify as sc
from segcertify.certification import capped_bounds
from segcertify.stats.binomial import lower_bounds

pytestmark = pytest.mark.statistical

ALPHA, CAP, n, RUNS = 0.2, 0.75, 60, 2000
PROBABILITIES = {
    "all at the cap": np.full(24, CAP),
    "at the cap, and far above it": np.repeat([CAP, 0.995], 12),
    "one at the cap": np.r_[CAP, np.full(23, 0.93)],
    "from below the cap to above it": np.linspace(0.55, 0.99, 24),
    "two just above the cap": np.r_[[0.76] * 2, [0.97] * 22],
}
DEPENDENCE = ("independent", "identical", "block", "opposed")


def agreement(rng, p, dependence):
    """Agreement counts of components that share the numbers which decide them, or share none."""
    groups = {"independent": len(p), "identical": 1, "block": 4, "opposed": 1}[dependence]
    u = np.repeat(rng.random((RUNS, n, groups), dtype=np.float32), len(p) // groups, axis=2)
    if dependence == "opposed":
        u[:, :, 1::2] = 1 - u[:, :, 1::2]
    return (u < p).sum(1)


@pytest.mark.parametrize("case", PROBABILITIES)
@pytest.mark.parametrize("dependence", DEPENDENCE)
def test_capped_maps_hold_for_all_components_at_once(case, dependence, rate_exceeds):
    """A radius is false if p does not exceed the probability that it stands for. 2,000 runs of 24 components."""
    p, noise = PROBABILITIES[case], sc.Gaussian(1.0)
    truth = noise.radius(np.nextafter(p, 0))  # p itself is not enough: a radius of p is false
    false = 0
    for agree in agreement(np.random.default_rng(len(case)), p, dependence):
        votes = sc.Votes(np.zeros(len(p), int), agree, n=n, n0=1, noise=noise)
        false += bool((sc.radius_map(votes, alpha=ALPHA, cap=CAP) > truth).any())
    assert not rate_exceeds(false, RUNS, ALPHA), false


def test_without_the_cap_the_same_levels_are_wrong(rate_exceeds):
    """Bounds at Holm's last level that are not cut at the cap: few components are below it, so the level is large."""
    p = PROBABILITIES["one at the cap"]
    false = {"capped": 0, "uncapped": 0}
    for agree in agreement(np.random.default_rng(0), p, "independent"):
        counts = np.bincount(agree, minlength=n + 1)
        capped = capped_bounds(counts, ALPHA, CAP)
        left = max(1, int(counts[capped < CAP].sum()))
        false["capped"] += bool((capped[agree] >= p).any())
        false["uncapped"] += bool((lower_bounds(n, ALPHA / left)[agree] >= p).any())
    assert not rate_exceeds(false["capped"], RUNS, ALPHA), false
    assert rate_exceeds(false["uncapped"], RUNS, ALPHA), false


def test_the_adversary_is_no_easy_one():
    """With all components at the cap, independent, errors come nearly as often as allowed."""
    counts = agreement(np.random.default_rng(1), PROBABILITIES["all at the cap"], "independent")
    false = sum(bool((capped_bounds(np.bincount(a, minlength=n + 1), ALPHA, CAP)[a] >= CAP).any()) for a in counts)
    assert false > 0.25 * ALPHA * RUNS
