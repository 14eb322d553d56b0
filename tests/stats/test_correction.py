"""Corrections against statsmodels, slow references, their properties, and the wrong levels of public code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from segcertify import InputError, chunks
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import NAMES, histogram, k_fwer, procedure, procedures, require_histogram

families = st.tuples(
    st.integers(1, 60),  # n
    st.floats(0.5, 0.95),  # tau
    st.lists(st.floats(0, 1), min_size=1, max_size=80),  # how much of n agrees
    st.floats(1e-6, 0.5),  # alpha
)
every = pytest.mark.parametrize("name", [name for name in NAMES if name != "k-fwer"])


def rejected(chosen, agree, n, tau, alpha):
    return agree >= chosen.threshold(np.bincount(agree, minlength=n + 1), p_values(n, tau), alpha)


def lehmann_romano(p, k, alpha):
    """Step down over sorted p-values, as the theorem is written."""
    s, order, out = len(p), np.argsort(p, kind="stable"), np.zeros(len(p), bool)
    for i, index in enumerate(order, start=1):
        level = k * alpha / s if i <= k else k * alpha / (s + k - i)
        if p[index] > level:
            break
        out[index] = True
    return out


@pytest.mark.parametrize(
    ("name", "theirs"), [("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh"), ("by", "fdr_by")]
)
@pytest.mark.parametrize("N", [1, 2, 17, 1000])
def test_statsmodels_rejects_the_same(name, theirs, N):
    rng = np.random.default_rng([N, len(name)])
    for _ in range(40):
        n, tau, alpha = int(rng.integers(5, 300)), rng.choice([0.5, 0.75, 0.9]), rng.choice([0.001, 0.05, 0.2])
        agree = rng.binomial(n, np.clip(rng.normal(tau + 0.1, 0.1, N), 0, 1))
        expected = multipletests(p_values(n, tau)[agree], alpha, method=theirs)[0]
        assert np.array_equal(rejected(procedure(name), agree, n, tau, alpha), expected)


@given(families, st.integers(1, 80))
def test_k_fwer_is_lehmann_and_romanos(family, k):
    n, tau, share, alpha = family
    agree = np.rint(np.array(share) * n).astype(int)
    k = min(k, len(agree))
    expected = lehmann_romano(p_values(n, tau)[agree], k, alpha)
    assert np.array_equal(rejected(procedure("k-fwer", k=k), agree, n, tau, alpha), expected)
    assert np.array_equal(rejected(procedure("k-fwer", b=k - 1), agree, n, tau, alpha), expected)


@given(families)
def test_k_fwer_with_k_1_is_holm_and_holm_contains_bonferroni(family):
    n, tau, share, alpha = family
    agree = np.rint(np.array(share) * n).astype(int)
    holm, bonferroni, by, bh, one = (
        rejected(chosen, agree, n, tau, alpha)
        for chosen in (*map(procedure, ("holm", "bonferroni", "by", "bh")), procedure("k-fwer", k=1))
    )
    assert np.array_equal(one, holm)
    assert (bonferroni <= holm).all()
    assert (by <= bh).all()
    assert (holm <= bh).all()


@every
@settings(max_examples=50)
@given(family=families, other=st.floats(1e-6, 0.5), seed=st.integers(0, 1000))
def test_monotone_in_alpha_and_equivariant(name, family, other, seed):
    n, tau, share, alpha = family
    agree = np.rint(np.array(share) * n).astype(int)
    small, large = (rejected(procedure(name), agree, n, tau, a) for a in sorted((alpha, other)))
    assert (small <= large).all()
    order = np.random.default_rng(seed).permutation(len(agree))
    assert np.array_equal(rejected(procedure(name), agree[order], n, tau, max(alpha, other)), large[order])


def false_rejections(threshold, p):
    """How many of the last two p-values (the true nulls) a threshold function rejects."""
    table = np.append(1.0, np.unique(p)[::-1])  # from least to most significant
    counts = np.array([np.sum(p == value) for value in table])
    least = threshold(counts, table, 0.05)
    return int(sum(np.flatnonzero(table == value)[0] >= least for value in p[2:]))


def test_the_released_k_fwer_levels_are_wrong_and_ours_are_not():
    """Two false nulls, two dependent true ones, k = 2, alpha = 0.05: P(2 or more false rejections) exactly.

    The true nulls' p-values are U and (U + 0.05) mod 0.1 inside [0, 0.1): each is uniform.
    """

    def released(counts, p, alpha, k=2):
        s = counts.sum()
        i = np.append(np.cumsum(counts[::-1])[-2::-1], 0) + 1
        level = np.where(i <= k, k * alpha / s, k * alpha / np.maximum(s - i + 1, 1))
        return int(np.flatnonzero(p > level)[-1]) + 1

    def correct(counts, p, alpha):
        return k_fwer(counts, p, alpha, k=2)

    grid = (np.arange(1000) + 0.5) / 1000
    errors = {released: 0, correct: 0}
    for u in grid:
        other = (u + 0.05) % 0.1 if u < 0.1 else u
        for threshold in errors:
            errors[threshold] += false_rejections(threshold, np.array([1e-9, 1e-9, u, other])) >= 2
    assert errors[released] / len(grid) == pytest.approx(0.1, abs=0.002)  # twice what it claims
    assert errors[correct] / len(grid) <= 0.05


def test_a_function_is_a_correction():
    def strict(counts, p, alpha):
        return len(p) - 1

    chosen = procedure(strict)
    assert (chosen.name, chosen.guarantee) == ("strict", "custom")
    assert rejected(chosen, np.array([9, 10]), 10, 0.5, 0.1).tolist() == [False, True]


def test_bad_input():
    with pytest.raises(InputError, match="unknown correction 'hommel': use holm"):
        procedure("hommel")
    with pytest.raises(InputError, match="needs k, or an error budget"):
        procedure("k-fwer")
    with pytest.raises(InputError, match="and not both"):
        procedure("k-fwer", k=2, b=1)
    with pytest.raises(InputError, match="belong to correction='k-fwer'"):
        procedure("holm", k=2)
    with pytest.raises(InputError, match="b must be an integer not less than 0, but got -1"):
        procedure("k-fwer", b=-1)
    with pytest.raises(InputError, match=r"k=9 over 4 components claims nothing: use k <= 4"):
        procedure("k-fwer", k=9).threshold(np.array([0, 4]), np.array([1.0, 0.1]), 0.1)


def test_several_corrections():
    found = procedures(["holm", "k-fwer", "by"], b=2)
    assert [(each.name, each.k) for each in found] == [("holm", 1), ("k-fwer", 3), ("by", 1)]
    with pytest.raises(InputError, match="k and b belong to correction='k-fwer', not to holm, by"):
        procedures(["holm", "by"], k=2)


@pytest.mark.parametrize(
    ("name", "level"),
    [("bonferroni", 0.01), ("holm", 0.01), ("bh", 0.1), ("by", 0.1 / sum(1 / i for i in range(1, 11)))],
)
def test_a_tied_block_meets_the_level_of_its_first_or_last_rank(name, level):
    """Ten components in which all draws agree, at alpha 0.1: step-down asks alpha / 10, step-up asks alpha."""
    threshold = procedure(name).threshold
    counts = np.array([0, 10])
    assert threshold(counts, np.array([1.0, level * 0.99]), 0.1) == 1
    assert threshold(counts, np.array([1.0, level * 1.01]), 0.1) == 2


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("n", [1, 100, 254, 255, 256, 10_000])
@pytest.mark.parametrize("shape", [0, 1, 2, 1001, (7, 9), (6, 4)])
def test_the_histogram_counts_each_agreement(n, shape, cores, monkeypatch):
    monkeypatch.setattr(chunks, "LEAST", 5)
    monkeypatch.setattr(chunks, "cores", lambda: cores)
    rng = np.random.default_rng(n + np.prod(shape))
    agree = rng.integers(0, n + 1, shape, dtype=np.int32)
    for each in (agree, np.where(rng.random(shape) < 0.8, n, agree)):  # also where most draws agree
        assert np.array_equal(histogram(each, n), [(each == k).sum() for k in range(n + 1)])


@pytest.mark.parametrize("n", [100, 2**24])
def test_a_histogram_made_elsewhere_must_be_of_the_same_counts(n):
    """2^24 draws in 2,001 components are more than 32 bits count."""
    agree = np.full(2001, n, np.int32)
    agree[:3] = 2, 2, n - 1
    counts = histogram(agree, n)
    kept = require_histogram(counts.astype(np.int32), agree, n)
    assert kept.dtype == np.int64
    np.testing.assert_array_equal(kept, counts)
    counts[2] -= 1
    assert kept[2] == 2
    with pytest.raises(InputError, match=rf"is of 2000 components with .* not of these 2001 with {agree.sum()}"):
        require_histogram(counts, agree, n)
    counts[2] += 1
    counts[0] += 1
    with pytest.raises(InputError, match=rf"is of 2002 components with {agree.sum()} .* not of these 2001 with"):
        require_histogram(counts, agree, n)
    counts[[0, 2, 3]] += -1, -1, 1
    with pytest.raises(InputError, match=r"is of 2001 components with .* keep the one of the same counts"):
        require_histogram(counts, agree, n)


@pytest.mark.parametrize(
    "wrong", [[0, 0, 2, 1, 0], [0, 0, 2], [[0, 0, 2, 1]], [0.0, 0.0, 2.0, 1.0], [1, -1, 1, 2], [0, 0, 4, 2**63]]
)
def test_a_histogram_is_as_many_whole_numbers_as_there_are_counts(wrong):
    agree = np.array([2, 2, 3])
    require_histogram(np.array([0, 0, 2, 1]), agree, 3)
    with pytest.raises(InputError, match=r"of 3 components must hold n \+ 1 = 4 whole numbers from 0 to 3, but got"):
        require_histogram(np.array(wrong, np.uint64 if 2**63 in wrong else None), agree, 3)
