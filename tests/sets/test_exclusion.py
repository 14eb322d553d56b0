"""Sets by exclusion: against a plain implementation, by hand, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from segmenters import NOISE, Conv, image

import segcertify as sc
from segcertify.sets import exclusion
from segcertify.stats.binomial import p_values


def votes_of(counts, *, classes=None, n0=0, mask=None):
    counts = np.asarray(counts)
    candidate = counts.argmax(0)
    return sc.Votes(
        candidate, counts.max(0), int(counts[:, 0].sum()), n0, NOISE, counts=counts, classes=classes, mask=mask
    )


def by_hand(counts, n, tau, alpha, classes):
    """The algorithm of docs/theory.md, a component and a class at a time."""
    m = math.floor(1 / (1 - tau) + 1e-9)
    m = m if classes is None else min(m, classes)
    C, N = counts.shape
    M = N * m
    while True:
        k = next((k for k in range(n + 1) if binom.sf(k - 1, n, tau) <= alpha / M), n + 1)
        sets = [{c for c in range(C) if counts[c, i] > n - k} for i in range(N)]
        left = sum(max(1, min(m, len(each) if k <= n else m)) for each in sets)
        if left >= M:
            break
        M = left
    return np.array([[c in sets[i] or counts[c, i] == counts[:, i].max() for i in range(N)] for c in range(C)]), k


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.6, 0.75, 0.9]), st.sampled_from([None, 4]), st.integers(5, 80))
def test_sets_are_those_of_a_plain_implementation(seed, tau, classes, n):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(4, 0.3), 7)
    counts = np.stack([rng.multinomial(n, each) for each in p], 1)
    sets, k = exclusion.not_excluded(counts, n=n, tau=tau, alpha=0.1, classes=classes)
    expected, least = by_hand(counts, n, tau, 0.1, classes)
    assert k == least
    ties = counts == counts.max(0)
    assert np.array_equal(sets & ~ties, expected & ~ties)
    assert sets.any(0).all()


def test_a_class_that_can_just_be_excluded_is_no_null_of_the_next_step():
    counts = np.array([[28, 30], [1, 0], [1, 0]])  # at k = 29 one draw of 30 is few enough
    k = exclusion.not_excluded(counts, n=30, tau=0.75, alpha=0.01, classes=3)[1]
    assert k == by_hand(counts, 30, 0.75, 0.01, 3)[1] == 29


COUNTS = np.array([[100, 55, 40, 96], [0, 45, 35, 4], [0, 0, 25, 0]])


def test_half_of_alpha_is_for_labels_and_half_for_exclusions():
    """Four components at alpha: a level that is not halved certifies or excludes more of them."""
    votes = votes_of(COUNTS, classes=3)
    for alpha in (0.3, 0.1, 0.01, 1e-4, 1e-6):
        found = sc.certify_sets(votes, tau=0.75, alpha=alpha)
        labels = sc.certify_votes(votes, tau=0.75, alpha=alpha / 2)
        sets, _ = exclusion.not_excluded(COUNTS, n=100, tau=0.75, alpha=alpha / 2, classes=3)
        assert np.array_equal(found.labels, labels.labels)
        free = found.abstained
        assert np.array_equal(found.sets[:, free], sets[:, free])
        assert (found.alpha, found.as_labels().alpha) == (alpha, alpha / 2)
    counts = np.array([[93], [7]])  # p-value 4.2e-6 at tau = 0.75
    tight = float(p_values(100, 0.75)[93]) * (1 + 1e-6)
    found = [sc.certify_sets(votes_of(counts, n0=5), tau=0.75, alpha=a).labels[0] for a in (tight, 2 * tight)]
    assert found == [-1, 0]


def test_road_or_pavement():
    found = sc.certify_sets(votes_of(COUNTS, classes=3), tau=0.75, alpha=0.01)
    assert found.labels.tolist() == [0, -1, -1, 0]
    assert found.sizes.tolist() == [1, 2, 3, 1]
    assert found.radius == sc.certify_votes(votes_of(COUNTS), tau=0.75, alpha=0.005).radius
    assert not found.only.any()


def test_one_label_by_exclusion_is_no_certified_label():
    """At tau = 0.9 90 of 100 draws exclude others (which have 10 at most), but certify no label."""
    counts = np.array([[90], [2], [2], [2], [2], [2]])
    found = sc.certify_sets(votes_of(counts, classes=6), tau=0.9, alpha=0.2)
    assert found.labels.tolist() == [-1]
    assert found.only.tolist() == [True]
    assert "this label or no majority" in found.claim


def test_classes_never_seen_count_as_nulls_where_their_number_is_not_known():
    assert exclusion.most_true_nulls(0.75, None) == 4
    assert exclusion.most_true_nulls(0.75, 2) == 2
    assert exclusion.most_true_nulls(0.9, 171) == 10
    counts = np.array([[8], [0]])
    unknown, known = (sc.certify_sets(votes_of(counts, classes=c, n0=3), tau=0.75, alpha=0.5) for c in (None, 2))
    assert (unknown.excludes, known.excludes) == (False, True)  # 0.75^8 = 0.1 <= 0.25 / 2, but not 0.25 / 4
    assert unknown.sets.all() or unknown.certified
    assert "claim nothing" in unknown.claim


def test_a_mask_leaves_full_sets_and_fewer_tests():
    mask = np.array([True, True, False, False])
    found = sc.certify_sets(votes_of(COUNTS, classes=3, mask=mask), tau=0.75, alpha=0.01)
    assert (found.N, found.labels.tolist()) == (2, [0, -1, -1, -1])
    assert found.sets[:, ~mask].all()
    alone = sc.certify_sets(votes_of(COUNTS[:, :2], classes=3), tau=0.75, alpha=0.01)
    assert np.array_equal(found.sets[:, mask], alone.sets)


def test_bonferroni_takes_over_where_the_reserve_takes_all():
    found = sc.certify_sets(votes_of(COUNTS, classes=3), tau=0.5, alpha=0.01)
    assert found.correction == "bonferroni"
    assert found.labels.tolist() == [0, -1, -1, 0]


def test_from_a_model_to_sets():
    votes = sc.sample(Conv().eval(), image(), noise=NOISE, n=110, n0=0, seed=0, counts=True)
    found = sc.certify_sets(votes, tau=0.75, alpha=0.001)
    assert found.sets.shape == (5, 12, 16)
    assert (found.seed, found.model, found.input_digest) == (0, votes.model, votes.input_digest)


def test_votes_without_counts_are_refused():
    votes = sc.Votes(np.array([0]), np.array([9]), 10, 3, NOISE)
    with pytest.raises(sc.InputError, match=r"sample\(..., counts=True\)"):
        sc.certify_sets(votes, tau=0.75, alpha=0.01)
