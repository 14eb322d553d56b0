"""Against scipy, mpmath and each other."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from segcertify import InputError
from segcertify.stats.binomial import ROUNDING, lower_bounds, p_values

mpmath.mp.dps = 50


def exact_tails(n, tau):
    """P(Bin(n, tau) >= k) for all k, in 50 digits."""
    t = mpmath.mpf(tau)
    term, total, tails = t**n, mpmath.mpf(0), [mpmath.mpf(0)] * (n + 1)
    for k in range(n, -1, -1):
        total += term
        tails[k] = total
        if k:
            term *= k * (1 - t) / ((n - k + 1) * t)
    return tails


@pytest.mark.parametrize("n", [1, 7, 100, 1000])
@pytest.mark.parametrize("tau", [0.5, 0.75, 0.9, 0.99])
def test_p_values_are_scipys(n, tau):
    np.testing.assert_allclose(p_values(n, tau), binom.sf(np.arange(n + 1) - 1, n, tau), rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 10_000, 100_000])
@pytest.mark.parametrize("tau", [0.5, 0.75, 0.95, 0.999])
def test_p_values_are_rounded_up_by_more_than_their_error(n, tau):
    exact, table = exact_tails(n, tau), p_values(n, tau)
    worst = 0.0
    for k in sorted({*range(0, n + 1, max(1, n // 300)), n}):
        if exact[k] > 1e-300:
            excess = float((mpmath.mpf(table[k]) - exact[k]) / exact[k])
            assert excess >= 0 or exact[k] == 1 or table[k] == 1.0, (k, excess)
            if table[k] < 1:
                worst = max(worst, abs(excess - ROUNDING))
    assert worst < ROUNDING / 10  # the special function's own error leaves room to spare


def test_a_margin_of_1e_12_would_not_do():
    n, tau = 100_000, 0.6
    exact = exact_tails(n, tau)
    table = p_values(n, tau) / (1 + ROUNDING)  # the special function itself
    errors = [
        abs(float((mpmath.mpf(table[k]) - exact[k]) / exact[k])) for k in range(62_000, 66_000, 10) if exact[k] > 1e-280
    ]
    assert 1e-12 < max(errors) < 1e-11


@pytest.mark.parametrize("n", [1, 10, 100, 1000])
@pytest.mark.parametrize("alpha", [0.1, 0.001, 1e-9])
def test_lower_bounds_are_scipys(n, alpha):
    for k in range(0, n + 1, max(1, n // 20)):
        expected = binomtest(k, n, alternative="greater").proportion_ci(1 - alpha, method="exact").low
        assert lower_bounds(n, alpha)[k] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def exact_tail(n, k, p):
    """P(Bin(n, p) >= k) for k above the mean, in 50 digits."""
    term = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
    tail = mpmath.mpf(0)
    for j in range(k, n + 1):
        tail += term
        term *= (n - j) * p / ((j + 1) * (1 - p))
        if term < tail * mpmath.mpf(10) ** -40:
            break
    return tail


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("alpha", [0.1, 0.001, 4.8e-10])
def test_lower_bounds_are_rounded_down(n, alpha):
    """At the bound itself, k or more agreeing draws have probability at most alpha: exactly, in 50 digits."""
    for k in sorted({1, max(1, n // 2), max(1, n - 2), n}):
        tail = exact_tail(n, k, mpmath.mpf(lower_bounds(n, alpha)[k]))
        assert alpha * (1 - 1e-4) < tail <= alpha


@pytest.mark.parametrize(("n", "alpha"), [(100, 1e-200), (10**6, 1e-100), (1000, 1e-300), (5, 1e-308)])
def test_lower_bounds_at_extremes(n, alpha):
    """Where SciPy's inverse fails: a valid bound, if not the best one."""
    bounds = lower_bounds(n, alpha)
    assert ((bounds >= 0) & (bounds < 1)).all()
    for k in sorted({max(1, int(n * 0.999)), n - 1, n}):
        if bounds[k] > 0:
            assert exact_tail(n, k, mpmath.mpf(bounds[k])) <= alpha


@given(st.integers(1, 400), st.floats(0.5, 0.995), st.floats(1e-12, 0.5))
def test_p_value_and_bound_decide_alike(n, tau, alpha):
    """p <= alpha exactly where the Clopper-Pearson bound is at least tau, but for ties within the rounding."""
    p, bound = p_values(n, tau), lower_bounds(n, alpha)
    clear = (abs(p / alpha - 1) > 1e-6) & (abs(bound - tau) > 1e-8)
    assert np.array_equal((p <= alpha)[clear], (bound >= tau)[clear])


@given(st.integers(1, 2000), st.floats(0.5, 0.9999))
def test_tables_are_monotone(n, tau):
    assert (np.diff(p_values(n, tau)) <= 0).all()
    assert (np.diff(lower_bounds(n, 1 - tau)) >= 0).all()


def test_an_underflowing_p_value_stays_positive():
    assert p_values(5000, 0.5)[-1] > 0


@pytest.mark.parametrize(
    ("n", "tau"), [(0, 0.5), (-3, 0.5), (2.5, 0.5), (10, 0.0), (10, 1.0), (10, float("nan")), (10, "x")]
)
def test_bad_input(n, tau):
    with pytest.raises(InputError, match=r"(n|tau) must"):
        p_values(n, tau)
