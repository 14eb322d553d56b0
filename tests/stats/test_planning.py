"""The planner against known sample sizes, real certificates and simulation."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from segcertify import Gaussian, InputError, Votes, certify_votes, plan
from segcertify.stats.correction import NAMES, procedure
from segcertify.stats.planning import certifiable, require_certifiable, roomy_n


@pytest.mark.parametrize(
    ("N", "expected"),
    [(2048, (51, 138, 284, 1446)), (480 * 480, (67, 183, 376, 1916)), (1024 * 2048, (75, 204, 419, 2136))],
)
def test_smallest_n(N, expected):
    """ceil(ln(alpha / N) / ln(tau)) at alpha = 0.001: all draws must agree."""
    taus = (0.75, 0.9, 0.95, 0.99)
    assert tuple(plan(N, tau, alpha=0.001).n_min for tau in taus) == expected
    assert tuple(int(np.ceil(np.log(0.001 / N) / np.log(tau))) for tau in taus) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("N", "tau", "alpha"), [(1, 0.5, 0.05), (7, 0.75, 0.001), (1000, 0.9, 0.1)])
def test_the_plan_is_what_certify_votes_does(name, N, tau, alpha):
    k = min(3, N) if name == "k-fwer" else None
    smallest = plan(N, tau, alpha=alpha, correction=name, k=k).n_min
    made = plan(N, tau, alpha=alpha, correction=name, k=k, n=smallest + 40)

    def certified(n, agree):
        votes = Votes(np.zeros(N, int), np.full(N, agree), n=n, n0=1, noise=Gaussian(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return certify_votes(votes, tau=tau, alpha=alpha, correction=name, k=k).certified

    assert certified(smallest, smallest) == N
    if smallest > 1:
        assert certified(smallest - 1, smallest - 1) == 0
    assert certified(made.n, made.n - made.tolerates) == N
    assert certified(made.n, made.n - made.tolerates - 1) == 0


def test_cityscapes_tolerates_two():
    assert plan(1024 * 2048, 0.75, alpha=0.001, n=100).tolerates == 2
    assert plan(1024 * 2048, 0.75, alpha=0.001, n=74).tolerates is None
    assert "n=74 can certify nothing" in str(plan(1024 * 2048, 0.75, alpha=0.001, n=74))


def test_expected_fraction():
    """Bonferroni has a closed form; Holm must agree with certified random votes (64 runs of 10,000, within 5 s.e.)."""
    made = plan(10_000, 0.75, alpha=0.001, n=100, correction="bonferroni", p=0.95)
    exact = binom.sf(100 - made.tolerates - 1, 100, 0.95)
    assert made.expected == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / (64 * 10_000)))
    p = np.array([0.8, 0.9, 0.99, 0.999])
    made = plan(4000, 0.75, alpha=0.001, n=100, p=p)
    agree = np.random.default_rng(1).binomial(100, np.repeat(p, 1000), (64, 4000))
    votes = [Votes(np.zeros(4000, int), row, n=100, n0=1, noise=Gaussian(1)) for row in agree]
    rates = np.array([certify_votes(v, tau=0.75, alpha=0.001).certified / 4000 for v in votes])
    assert made.expected == pytest.approx(rates.mean(), abs=5 * np.sqrt(2) * rates.std() / 8)
    assert plan(10, 0.75, alpha=0.001, n=100, p=1.0).expected == 1
    assert plan(10, 0.75, alpha=0.001, n=100, p=0.0).expected == 0


def test_certifiable_is_monotone_in_n():
    chosen = procedure("holm")
    possible = [certifiable(500, 0.75, 0.01, chosen, n) for n in range(1, 80)]
    assert possible == sorted(possible)


def test_settings_are_said_with_all_their_digits():
    """Six digits may make a smaller number of alpha than the chance of an error is."""
    assert "tau=0.75000001, alpha=0.00123456743" in str(plan(10, 0.75000001, alpha=0.00123456743))
    with pytest.raises(InputError, match=r"at tau=0\.75000001, alpha=0\.00123456743 "):
        require_certifiable(10, 0.75000001, 0.00123456743, procedure("holm"), 3)


def test_bad_input():
    for arguments, message in [
        ({"N": 0}, "N must be an integer not less than 1"),
        ({"tau": 0.49}, r"tau must lie in \[0.5, 1\)"),
        ({"alpha": 0.0}, r"alpha must lie in \(0, 1\)"),
        ({"p": 1.5}, r"p must lie in \[0, 1\]"),
        ({"tau": 1 - 1e-12}, "lower tau"),
    ]:
        settings = {"N": 10, "tau": 0.75, "alpha": 0.01} | arguments
        with pytest.raises(InputError, match=message):
            plan(settings.pop("N"), settings.pop("tau"), **settings)


@pytest.mark.parametrize("tau", [0.5, 0.75, 0.95])
@pytest.mark.parametrize("N", [1, 2048, 172_800])
@pytest.mark.parametrize("name", ["holm", "bonferroni", "by"])
def test_a_recommended_n_leaves_room(N, tau, name):
    """It tolerates its share of the draws, and ten draws fewer do not, or can certify nothing."""
    chosen = procedure(name)
    n = roomy_n(N, tau, 0.001, chosen)
    assert plan(N, tau, alpha=0.001, correction=name, n=n).tolerates >= n * (1 - tau) / 5
    fewer = plan(N, tau, alpha=0.001, correction=name, n=n - 10).tolerates if n > 10 else None
    assert fewer is None or fewer < (n - 10) * (1 - tau) / 5
