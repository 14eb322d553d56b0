"""The toy experiments: simulated counts follow their law, and certify as the paper says."""

import math

import numpy as np
import pytest
from numpy.random import SFC64, Generator, SeedSequence
from scipy.stats import chisquare

from segcertify.certification import certify_votes
from segcertify.reproduce.toy_simulation import (
    Settings,
    agreement_law,
    error_rates,
    histograms,
    oracle_votes,
    rates_at_gamma,
)
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import PROCEDURES


@pytest.mark.statistical
@pytest.mark.parametrize("error", [0.05, 0.4, 0.5])
def test_agreement_law(error: float) -> None:
    """Simulated counts, with ties and wrong candidates, follow the law. False alarms: 1e-6 each, seeded."""
    n, N = 10, 40_000
    generator = Generator(SFC64(1))
    first, second = (generator.random((n, N)) >= error for _ in range(2))
    votes = oracle_votes(first, second, truth=generator.integers(2, size=N))
    expected = N * agreement_law(error, n)
    often = expected >= 5
    observed = np.append(votes.histogram()[often], votes.histogram()[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    seen = expected > 0
    assert chisquare(observed[seen], expected[seen]).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("correction", ["bonferroni", "holm"])
def test_histograms_agree_with_brute_force(correction: str) -> None:
    """Mean certified rates within 4.5 standard errors of each other. False alarms: about 1e-5 each, seeded."""
    N, n, gamma, tau, alpha, repetitions = 100, 100, 0.07, 0.75, 0.001, 300
    generator = Generator(SFC64(2))
    error = error_rates(gamma, N, k=1)
    brute = []
    for _ in range(repetitions):
        first, second = (generator.random((n, N)) >= error for _ in range(2))
        votes = oracle_votes(first, second, truth=generator.integers(2, size=N))
        brute.append(certify_votes(votes, tau=tau, alpha=alpha, correction=correction).certified / N)
    rows = histograms(N, gamma, k=1, n=n, repetitions=repetitions, generator=generator)
    threshold = PROCEDURES[correction].threshold
    quick = [row[threshold(row, p_values(n, tau), alpha) :].sum() / N for row in rows]
    error_of_difference = math.sqrt((np.var(brute) + np.var(quick)) / repetitions)
    assert 0.3 < np.mean(brute) < 0.9  # a setting that tells laws apart
    assert abs(np.mean(brute) - np.mean(quick)) < 4.5 * error_of_difference


@pytest.fixture(scope="module")
def curves() -> dict[float, dict[str, float]]:
    sizes = Settings(repetitions=80)
    seeds = SeedSequence(0).spawn(6)
    gammas = (0.0, 0.01, 0.02, 0.05, 0.07, 0.1)
    return {g: rates_at_gamma(g, 1000, settings=sizes, seed=seed) for g, seed in zip(gammas, seeds, strict=True)}


@pytest.mark.statistical
def test_what_the_paper_says_about_gamma(curves: dict[float, dict[str, float]]) -> None:
    """n = n0 = 1000 and N = 100. False alarms: below 1e-6, seeded (every bound is many standard errors away)."""
    assert curves[0.0]["JointClass"] == 1
    assert all(curves[gamma]["JointClass"] == 0 for gamma in (0.02, 0.05, 0.07, 0.1))
    assert all(curves[gamma]["IndivClass"] == 1 for gamma in (0.0, 0.01, 0.02, 0.05))
    assert curves[0.1]["IndivClass"] == 0
    for rates in curves.values():
        assert rates["SegCertifyHolm"] >= rates["SegCertifyBon"] >= 0.98
