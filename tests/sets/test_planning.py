"""The draws that sets need: what the plan says is what certificates do."""

import numpy as np
import pytest
from segmenters import NOISE

import segcertify as sc
from segcertify.sets.exclusion import not_excluded
from segcertify.stats.planning import best_p_value

pytestmark = pytest.mark.filterwarnings("ignore:n=.* can certify nothing")


def votes(counts, n0, pilot=None, classes=3):
    n = int(counts[:, 0].sum())
    return sc.Votes(
        counts.argmax(0), counts.max(0), n, n0, NOISE, counts=counts, classes=classes, pilot_counts=pilot
    )  # fmt: skip


@pytest.mark.parametrize("n0", [0, 10])
@pytest.mark.parametrize("tau", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("classes", [None, 2, 3])
def test_the_smallest_n_excludes_a_label_never_seen_and_one_less_does_not(n0, tau, classes):
    N = 40
    plan = sc.plan_sets(N, tau, alpha=0.01, classes=classes, n0=n0)
    assert plan.n == max(plan.n_min, plan.n_label)
    for n, excludes in ((plan.n_min, True), (plan.n_min - 1, False)):
        half = n // 2
        counts = np.repeat([[n - half], [half], [0]][:classes], N, axis=1)
        pilot = np.repeat([[n0], [0], [0]][:classes], N, axis=1) if n0 else None
        found = sc.certify_sets(votes(counts, n0, pilot, classes), tau=tau, alpha=0.01)
        assert found.excludes == excludes
        assert sc.plan_sets(N, tau, alpha=0.01, classes=classes, n0=n0, n=n).excludes_up_to is None or excludes


@pytest.mark.parametrize("n0", [0, 10])
def test_the_smallest_n_certifies_a_label_and_one_less_does_not(n0):
    for tau in (0.5, 0.6, 0.75, 0.9):
        plan = sc.plan_sets(40, tau, alpha=0.01, classes=3, n0=n0)
        for n, certifies in ((plan.n_label, True), (plan.n_label - 1, False)):
            counts = np.repeat([[n], [0], [0]], 40, axis=1)
            assert bool(sc.certify_sets(votes(counts, n0), tau=tau, alpha=0.01).certified) == certifies


def test_how_many_draws_may_give_an_excluded_label():
    """Surely, where all other sets are as large as can be; at best, where they have one label."""
    N, n, tau, alpha = 50, 200, 0.75, 0.01
    plan = sc.plan_sets(N, tau, alpha=alpha, classes=5, n=n, n0=0)
    assert 0 < plan.excludes_up_to < plan.at_best
    for seen, others, excluded in (
        (plan.excludes_up_to, [50, 50, 50, 50, 0], True), (plan.excludes_up_to + 1, [50, 50, 50, 50, 0], False),
        (plan.at_best, [200, 0, 0, 0, 0], True), (plan.at_best + 1, [200, 0, 0, 0, 0], False),
    ):  # fmt: skip
        counts = np.repeat(np.array(others)[:, None], N, axis=1)
        counts[:, 0] = [n - seen, seen, 0, 0, 0]
        sets, _ = not_excluded(counts, n=n, tau=tau, alpha=alpha / 2, classes=5)
        assert bool(sets[1, 0]) != excluded


def test_words_and_refusals():
    found = sc.plan_sets(172_800, 0.75, alpha=0.001, classes=11, n=100)
    assert str(found) == (
        "172,800 components, 11 classes, tau=0.75, alpha=0.001, n0=10: smallest n is 64 to exclude a label, 69 to "
        "certify one; n=100 excludes a label that at most 3, at best 4, draws gave"
    )
    assert "can exclude nothing" in str(sc.plan_sets(172_800, 0.95, alpha=0.001, n=100))
    for wrong in ({"classes": 0}, {"n": 0}, {"n0": -1}, {"alpha": 0.0}):
        with pytest.raises(sc.InputError):
            sc.plan_sets(10, 0.75, **{"alpha": 0.01} | wrong)
    with pytest.raises(sc.InputError, match="lower tau"):
        sc.plan_sets(10, 1 - 1e-9, alpha=0.01)


def test_the_least_draws_exclude_what_none_of_them_gave():
    found = sc.plan_sets(40, 0.75, alpha=0.01, n0=10)
    assert sc.plan_sets(40, 0.75, alpha=0.01, n0=10, n=found.n_min).excludes_up_to == 0
    assert sc.plan_sets(40, 0.75, alpha=0.01, n0=10, n=found.n_min - 1).excludes_up_to is None


def test_a_p_value_equal_to_its_level_excludes():
    """One component has four true nulls at most at tau = 0.75; divisions by 2 and 4 are exact."""
    assert sc.plan_sets(1, 0.75, alpha=8 * best_p_value(20, 0.75), n0=0).n_min == 20
