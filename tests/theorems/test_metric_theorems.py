"""Metric certificates against the exact adversary: how often the claimed bound is missed within R.

The metric is as bad as the theorem allows: it falls along one line, and the attack
pushes along it by R. How many noisy runs then keep a bound is known exactly (on SO(3):
from draws). Rates are asked for as in `test_theorems`, with false alarms of 1e-6; what a
careless implementation would do is computed beside, and must be caught.
"""

import numpy as np
import pytest
import torch
from heat_kernels import likelihood_ratio, rotations
from scipy import stats

import segcertify as sc
from segcertify.metrics.planning import probability_needed
from segcertify.noise.rotation import rotation_matrix
from segcertify.stats.order_statistics import values_needed

pytestmark = pytest.mark.statistical

ALPHA, SHARE, R, RUNS = 0.1, 0.6, 0.2, 8000
LAWS = {
    "Gaussian": (sc.Gaussian(0.25), stats.norm(scale=0.25)),
    "Gaussian on channels": (sc.Gaussian(0.25, channels=(0,)), stats.norm(scale=0.25)),
    "Laplace": (sc.Laplace(0.25), stats.laplace(scale=0.25)),
    "Uniform": (sc.Uniform(0.5), stats.uniform(loc=-0.5, scale=1.0)),
    "AxisRotation": (sc.AxisRotation(0.25), stats.norm(scale=0.25)),
}
every = pytest.mark.parametrize("name", LAWS)


def certificate(noise, values, **changes):
    settings = {"radius": R, "share": SHARE, "alpha": ALPHA, "noise": noise}
    return sc.MetricCertificate("metric", values, **settings | changes)


def rank_of(noise, n, **changes):
    """The place of the bound among n sorted values, and of the upper one: the values are their own places."""
    found = certificate(noise, np.arange(n), **changes)
    return int(found.bound), None if found.upper is None else int(found.upper)


def worst_n(noise):
    """Of n up to 70 the one at which a rank that is off by one errs most."""
    tau = probability_needed(noise, R, share=SHARE)
    needed = {n: values_needed(n, tau, ALPHA) for n in range(30, 71)}
    return max(needed, key=lambda n: stats.binom.sf(needed[n] - 2, n, tau))


@every
def test_bounds_are_missed_in_at_most_alpha_of_runs(name, rate_exceeds):
    """The metric is minus the noise along a line, the attack pushes by R. 8,000 runs; three defects are caught."""
    noise, law = LAWS[name]
    n = worst_n(noise)
    values = np.sort(-law.rvs(size=(RUNS, n), random_state=np.random.default_rng(len(name))), axis=1)
    place, _ = rank_of(noise, n)
    for row in values[:20]:
        assert certificate(noise, np.random.default_rng(0).permutation(row)).bound == row[place]

    def missed(place):
        kept = law.cdf(-values[:, place] - R)  # minus the pushed noise is at least the bound
        return int((kept < SHARE).sum())

    no_radius = rank_of(noise, n, radius=0.0)[0]
    assert not rate_exceeds(missed(place), RUNS, ALPHA), missed(place)
    assert missed(place) > 0.2 * ALPHA * RUNS  # the adversary is no easy one
    assert rate_exceeds(missed(place + 1), RUNS, ALPHA), missed(place + 1)
    assert rate_exceeds(missed(no_radius), RUNS, ALPHA), missed(no_radius)
    smaller = rank_of(noise, n, radius=0.6 * R)[0]  # q rounded up
    assert rate_exceeds(missed(smaller), RUNS, ALPHA), missed(smaller)


@every
def test_two_bounds_are_missed_in_at_most_alpha_of_runs(name, rate_exceeds):
    """Both ends of the metric lie where the attack pushes to: narrow slices of the noise give low and high in turn.

    Bounds that each take the rank of a single one, and bounds for no radius, are caught.
    """
    noise, law = LAWS[name]
    n, slices = worst_n(noise), 10_000
    tail = law.sf(law.rvs(size=(RUNS, n), random_state=np.random.default_rng(len(name))))  # the attack makes it small
    values = np.sort(np.where((tail * slices).astype(int) % 2, 2 - tail, tail), axis=1)

    def missed(places):
        def pushed(t):  # the probability that the tail is below t after the attack: half of it in slices of each kind
            return law.sf(law.isf(np.clip(t, 0, 1)) - R) / 2

        low, high = values[:, places[0]], values[:, places[1]]
        return int((1 - pushed(low) - pushed(2 - high) < SHARE).sum())

    places, single = rank_of(noise, n, two_sided=True), rank_of(noise, n)[0]
    assert not rate_exceeds(missed(places), RUNS, ALPHA), missed(places)
    assert missed(places) > 0.2 * ALPHA * RUNS  # the adversary is no easy one
    for careless in ((single, n - 1 - single), rank_of(noise, n, two_sided=True, radius=0.0)):
        assert rate_exceeds(missed(careless), RUNS, ALPHA), missed(careless)


def test_bounds_hold_under_rotations(rate_exceeds):
    """The metric is the likelihood ratio that the attack lowers; 4,000 runs from 20,000 draws of it.

    What is kept after the attack is known within 5 standard errors (0.018). A bound for no radius is caught.
    """
    noise, rng, angle, n = sc.Rotation(0.5), np.random.default_rng(1), 0.4, 60
    adversary = rotation_matrix(np.array([0.0, 0.0, 1.0]), angle)
    calm = likelihood_ratio(rotations(rng, 0.5, 20_000), 0.5, adversary)
    pushed = np.sort(likelihood_ratio(rotations(rng, 0.5, 20_000) @ adversary, 0.5, adversary))
    values = np.sort(rng.choice(calm, (4000, n)), axis=1)
    missed = {}
    for radius in (angle, 0.0):
        bounds = values[:, rank_of(noise, n, radius=radius)[0]]
        kept = 1 - np.searchsorted(pushed, bounds) / len(pushed)
        missed[radius] = int((kept < SHARE - 0.018).sum())
    assert not rate_exceeds(missed[angle], 4000, ALPHA), missed
    assert rate_exceeds(missed[0.0], 4000, ALPHA), missed


@pytest.mark.parametrize("name", ["Gaussian", "Uniform"])
def test_bounds_from_the_sampler_hold(name, rate_exceeds):
    """Through `certify_metric`: 40 pixels that turn on one after the other, so that values are tied. 200 runs."""
    noise, law = LAWS[name]
    steps = torch.linspace(-0.45, 0.45, 40, dtype=torch.float64)
    x = torch.zeros(2, dtype=torch.float64)
    missed = 0
    for seed in range(200):
        found = sc.certify_metric(
            lambda batch: (batch[:, :1] > steps).long(), x, lambda labels: 1 - labels.mean(), noise=noise, radius=R,
            share=SHARE, n=30, alpha=ALPHA, seed=seed,
        )  # fmt: skip
        off = round(found.bound * 40)  # at least so many pixels are off: the noise is at most this step
        kept = law.cdf(float(steps[40 - off]) - R) if off else 1.0
        missed += kept < SHARE
    assert not rate_exceeds(missed, 200, ALPHA), missed
