"""Tests without a pilot: p-values, the reserve, and what is refused."""

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from segcertify.errors import InputError
from segcertify.stats.correction import holm, procedure
from segcertify.stats.pilotless import label_threshold, level, pilotless_p_values, reserve
from segcertify.stats.planning import plan, require_certifiable


@pytest.mark.parametrize(("n", "tau"), [(5, 0.5), (10, 0.75), (11, 0.6), (110, 0.9)])
def test_p_values_are_both_tails_and_1_up_to_half(n, tau):
    k = np.arange(n + 1)
    both = binom.sf(k - 1, n, tau) + binom.sf(k - 1, n, 1 - tau)
    expected = np.where(2 * k > n, np.minimum(both, 1), 1)
    assert pilotless_p_values(n, tau) == pytest.approx(expected, rel=1e-9)
    assert (np.diff(pilotless_p_values(n, tau)) <= 0).all()


@pytest.mark.parametrize("tau", [0.5, 0.6, 0.75, 0.9])
def test_no_probabilities_up_to_tau_exceed_the_p_value(tau):
    """Exactly, over a grid of three classes: P(some class reaches k) for k > n / 2, and b_k(1 - tau) above."""
    n, counts = 9, [(a, b, 9 - a - b) for a in range(10) for b in range(10 - a)]
    top = np.max(counts, 1)
    table = pilotless_p_values(n, tau)
    for p1 in np.linspace(1 / 3, 1, 15):
        for p2 in np.linspace(0, 1 - p1, 6):
            p = np.array([p1, p2, max(0.0, 1 - p1 - p2)])
            pmf = multinomial.pmf(counts, n, p / p.sum())
            for k in range(n // 2 + 1, n + 1):
                if p.max() <= tau:
                    assert pmf[top >= k].sum() <= table[k] + 1e-12
                elif p.argmax() == 0 and p1 > tau:
                    wrong = [max(count[1:]) >= k for count in counts]
                    assert pmf[wrong].sum() <= binom.sf(k - 1, n, 1 - tau) + 1e-12


def test_the_reserve_at_two_million_components():
    """As computed independently."""
    assert reserve(2_000_000, 110, 0.75, 0.001) == pytest.approx(5.2e-38, rel=0.05)
    assert reserve(2_000_000, 110, 0.6, 0.001) == pytest.approx(4e-7, rel=0.05)
    assert reserve(2_000_000, 110, 0.55, 0.001) == pytest.approx(0.2, rel=0.05)
    assert reserve(10, 3, 0.75, 0.001) == 0  # no count passes


def test_holm_keeps_the_reserve_and_bonferroni_needs_none():
    N, n, tau, alpha = 50, 40, 0.6, 0.05
    kept = reserve(N, n, tau, alpha)
    assert 0 < kept < alpha
    assert level(N, n, tau, alpha, procedure("holm")) == alpha - kept
    assert level(N, n, tau, alpha, procedure("bonferroni")) == alpha
    counts = np.bincount([n] * 30 + [n - 5] * 20, minlength=n + 1)
    expected = holm(counts, pilotless_p_values(n, tau), alpha - kept)
    assert label_threshold(counts, n=n, tau=tau, alpha=alpha, chosen=procedure("holm"), pilot=False) == expected


def test_too_large_a_reserve_is_refused_before_sampling():
    chosen = procedure("holm")
    with pytest.raises(InputError, match=r"must keep 0\.2 in reserve, which leaves nothing of alpha=0\.001"):
        label_threshold(np.array([0] * 110 + [2_000_000]), n=110, tau=0.55, alpha=0.001, chosen=chosen, pilot=False)
    with pytest.raises(InputError, match="in reserve, which leaves nothing of alpha"):
        require_certifiable(2_000_000, 0.55, 0.001, chosen, 110, pilot=False)


@pytest.mark.parametrize("name", ["bh", "by", "k-fwer", "function"])
def test_other_corrections_are_refused(name):
    chosen = procedure(holm) if name == "function" else procedure(name, k=2 if name == "k-fwer" else None)
    with pytest.raises(InputError, match=r"without a pilot \(n0=0\) are certified by holm or bonferroni"):
        label_threshold(np.array([0] * 10 + [5]), n=10, tau=0.75, alpha=0.1, chosen=chosen, pilot=False)
    with pytest.raises(InputError, match="are certified by holm or bonferroni"):
        require_certifiable(5, 0.75, 0.1, chosen, 10, pilot=False)


def test_plans_without_a_pilot():
    made = plan(1000, 0.5, alpha=0.001, n0=0, correction="bonferroni")
    assert made.n_min == plan(1000, 0.5, alpha=0.0005, correction="bonferroni").n_min  # 2 b_k(1 / 2)
    with pytest.raises(InputError, match="use n0 >= 1, another tau, or correction='bonferroni'"):
        plan(1000, 0.5, alpha=0.001, n0=0)  # there Holm's reserve is half of the p-value or more
    assert plan(1000, 0.75, alpha=0.001, n0=0, n=110, p=0.99).expected > 0.9
    assert plan(2_000_000, 0.55, alpha=0.001, n0=0, n=110).tolerates is None


def test_the_reserve_where_only_full_agreement_passes():
    """At n = 20, tau = 0.75, alpha = 0.01: P(Bin >= 19) = 0.024, P(Bin = 20) = 0.0032."""
    assert reserve(100, 20, 0.75, 0.01) == pytest.approx(100 * 0.25**20, rel=1e-9)
    assert reserve(100, 20, 0.75, 0.003) == 0.0  # nothing passes: no label can be wrong
