"""Ranks against the binomial distribution itself."""

import pytest
from scipy.stats import binom

from segcertify.stats.order_statistics import smallest_count, values_needed


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("alpha", [0.001, 0.05])
@pytest.mark.parametrize("n", [1, 10, 66, 1000])
def test_the_rank_is_the_largest_m_that_the_binomial_allows(n, tau, alpha):
    """m = n - k + 1 is the largest m >= 1 with P(Bin(n, q) <= m - 1) <= alpha, q = 1 - tau."""
    allowed = [m for m in range(1, n + 1) if binom.cdf(m - 1, n, 1 - tau) <= alpha]
    needed = values_needed(n, tau, alpha)
    assert (needed is None) == (not allowed)
    if needed is not None:
        assert n - needed + 1 == max(allowed)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("spare", [0, 1])
def test_the_smallest_count_is_the_first_that_leaves_enough_over(tau, spare):
    n = smallest_count(tau, 0.001, spare=spare)
    assert n - values_needed(n, tau, 0.001) >= spare
    before = values_needed(n - 1, tau, 0.001)
    assert before is None or n - 1 - before < spare
    assert smallest_count(1 - 1e-9, 0.001) is None
