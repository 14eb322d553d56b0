"""Looks: their times, what they certify, when sampling stops, and what is refused."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import segcertify as sc
from segcertify import Enough, InputError
from segcertify.looks import best_case, certified_by_looks, look_times
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import procedure

NOISE = sc.Gaussian(0.25)


def votes(counts, looks, *, n=None, **others):
    """Votes of label 1 with these counts at the looks, up to the look after n draws."""
    n = n or looks[-1]
    counts = {time: np.array(each) for time, each in zip(looks, counts, strict=False) if time <= n}
    agree = counts.pop(n)
    return sc.Votes(np.ones_like(agree), agree, n=n, n0=10, noise=NOISE, looks=looks, earlier=counts, **others)


class Half(torch.nn.Module):
    """Labels by the sign of x: its probability of 1 is Phi(x / sigma)."""

    def __init__(self):
        super().__init__()
        self.training = False

    def forward(self, batch):
        return (batch > 0).long()


X = torch.tensor([-1.0, -0.05, 0.0, 0.05, 1.0, 1.0, 1.0, 1.0])


# Times


def test_times():
    assert look_times(620, 4) == (155, 310, 465, 620)
    assert look_times(620, 4, least=80) == (80, 260, 440, 620)
    assert look_times(10, 1) == (10,)
    for looks, message in (
        ((50, 40, 100), "rising numbers of draws, the last of them n=100"),
        ((50, 90), "the last of them n=100"),
        (0, "looks must be"),
        (-1, "looks must be"),
    ):
        with pytest.raises(InputError, match=message):
            look_times(100, looks)
    with pytest.raises(InputError, match="4 looks do not fit between 98 and n=100"):
        look_times(100, 4, least=98)


# What is certified


def reference(table, looks, *, tau, alpha):
    """Holm's step-down at each look, component by component: a second computation."""
    left, certified = list(range(len(table[0]))), set()
    for time, counts in zip(looks, table, strict=True):
        p = p_values(time, tau)
        for i in sorted(left, key=lambda i: -counts[i]):
            if p[counts[i]] > alpha / len(looks) / len(left):
                break
            certified.add(i)
            left.remove(i)
    return sorted(certified)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_union_of_looks_is_holms_step_down_at_each(data):
    looks = (10, 20, 40)
    first = data.draw(st.lists(st.integers(0, 10), min_size=1, max_size=8))
    second = [each + data.draw(st.integers(0, 10)) for each in first]
    third = [each + data.draw(st.integers(0, 20)) for each in second]
    alpha = data.draw(st.sampled_from([0.3, 0.05]))
    found = sc.certify_votes(votes([first, second, third], looks), tau=0.6, alpha=alpha)
    # ties have one p-value: the reference takes them one by one, at levels that only grow
    assert np.flatnonzero(found.labels != sc.ABSTAIN).tolist() == reference(
        [first, second, third], looks, tau=0.6, alpha=alpha
    )


def test_what_one_look_certified_stays_and_drops_out_of_the_count():
    looks, holm = (40, 80), procedure("holm")
    table = [[40, 40, 30], [60, 78, 70]]
    both = votes(table, looks)
    found = certified_by_looks(both, tau=0.75, alpha=0.01, chosen=holm)
    assert found.tolist() == [True, True, True]
    alone = sc.Votes(np.ones(3, int), np.array(table[1]), n=80, n0=10, noise=NOISE)
    assert (sc.certify_votes(alone, tau=0.75, alpha=0.005).labels == 1).tolist() == [False, True, False]
    assert p_values(80, 0.75)[70] > 0.005 / 2  # it is certified only because the other two dropped out


def test_the_level_is_divided_by_the_looks_also_where_the_run_stopped_early():
    counts, looks = [[40, 33], [80, 66], [120, 99]], (40, 80, 120)
    early = votes(counts, looks, n=40)
    assert (early.planned, early.level(0.03)) == (120, 0.01)
    certificate = sc.certify_votes(early, tau=0.75, alpha=0.03)
    assert (certificate.n, certificate.looks, certificate.saved) == (40, looks, 80)
    assert "Looks after 40, 80, 120 draws, fixed before sampling, each at alpha / 3." in certificate.claim
    assert "stopped after 40 draws, and saved 80" in certificate.claim
    plain = sc.Votes(early.candidate, early.agree, n=40, n0=10, noise=NOISE)
    for alpha in (0.1, 0.03, 0.01, 1e-4):
        table = sc.radius_map(early, alpha=alpha)
        assert np.array_equal(table, sc.radius_map(plain, alpha=alpha / 3))
        capped = sc.radius_map(early, alpha=alpha, cap=0.75)
        assert np.array_equal(capped, sc.radius_map(plain, alpha=alpha / 3, cap=0.75))
        assert sc.indiv_class(early, alpha=alpha).tau == sc.indiv_class(plain, alpha=alpha / 3).tau


def test_bonferroni_and_a_mask():
    mask = np.array([True, False, True])
    found = votes([[40, 40, 20], [80, 80, 79]], (40, 80), mask=mask)
    for correction in ("holm", "bonferroni"):
        labels = sc.certify_votes(found, tau=0.75, alpha=0.01, correction=correction).labels
        assert labels.tolist() == [1, sc.ABSTAIN, 1]


@pytest.mark.parametrize("correction", ["bh", "by", "k-fwer", lambda counts, p, alpha: 0])
def test_other_corrections_are_refused(correction):
    k = {"k": 2} if correction == "k-fwer" else {}
    with pytest.raises(InputError, match="is not proven for votes with looks: use holm or bonferroni"):
        sc.certify_votes(votes([[40, 40], [80, 80]], (40, 80)), tau=0.75, alpha=0.01, correction=correction, **k)


# Votes


def test_looks_belong_to_the_votes(tmp_path):
    found = votes([[40, 33], [80, 66]], (40, 80, 120), n=80, seed=3)
    found.save(tmp_path / "votes")
    again = sc.Votes.load(tmp_path / "votes")
    assert (again.looks, again.n, sorted(again.earlier)) == ((40, 80, 120), 80, [40])
    certificate = sc.certify_votes(again, tau=0.75, alpha=0.01)
    certificate.save(tmp_path / "certificate")
    assert sc.Certificate.load(tmp_path / "certificate").looks == (40, 80, 120)
    assert found.at(40).looks == (40, 80, 120)  # as if it had stopped there: any rule may stop it
    with pytest.raises(InputError, match="votes with looks do not merge"):
        found.merge(replace(found, draws=((80, 160),)))
    with pytest.raises(InputError, match="different looks"):
        replace(found, looks=()).merge(found)
    for change in ({"looks": (50, 80)}, {"looks": (40, 120)}, {"looks": (80, 40)}):
        with pytest.raises(InputError, match="looks"):
            replace(found, **change)


# Stopping


def test_sampling_stops_once_enough_is_certified():
    rule = Enough(tau=0.75, alpha=0.01, share=0.5)
    found = sc.sample(Half(), X, noise=NOISE, n=400, n0=10, seed=0, looks=4, until=rule)
    assert (found.n, found.looks) == (100, (100, 200, 300, 400))  # 5 of 8 are certain
    assert found.draws == ((0, 100),)
    whole = sc.sample(Half(), X, noise=NOISE, n=400, n0=10, seed=0, looks=4)
    assert whole.n == 400
    assert np.array_equal(whole.earlier[100], found.agree)  # the same draws
    all_of_them = Enough(tau=0.75, alpha=0.01)
    assert sc.sample(Half(), X[4:], noise=NOISE, n=400, n0=10, seed=0, looks=4, until=all_of_them).n == 100


def test_sampling_stops_when_nothing_more_can_be_gained():
    rule = Enough(tau=0.75, alpha=0.01)
    hopeless = votes([[100, 60], [200, 100], [300, 140]], (100, 200, 300))
    assert not rule(hopeless.at(100))  # 60 + 200 of 300 would be enough
    assert rule(hopeless.at(200))  # 100 + 100 of 300 would not
    assert rule(hopeless)  # no draws remain


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_outcome_certifies_what_the_best_case_does_not(data):
    looks, holm = (10, 20, 30), procedure("holm")
    first = np.array(data.draw(st.lists(st.integers(0, 10), min_size=1, max_size=6)))
    more = [np.array([data.draw(st.integers(0, 10)) for _ in first]) for _ in range(2)]
    outcome = votes([first, first + more[0], first + more[0] + more[1]], looks)
    best = certified_by_looks(best_case(outcome.at(10)), tau=0.6, alpha=0.3, chosen=holm)
    assert not (certified_by_looks(outcome, tau=0.6, alpha=0.3, chosen=holm) & ~best).any()


def test_certify_chooses_times_at_which_something_can_be_certified():
    certificate = sc.certify(Half(), X, noise=NOISE, n=400, alpha=0.01, seed=0, looks=4, until=0.5)
    least = certificate.looks[0]
    assert sc.plan(8, 0.75, alpha=0.01 / 4).n_min == least
    assert certificate.n < 400
    assert (certificate.labels != sc.ABSTAIN).sum() >= 4
    whole = sc.certify(Half(), X, noise=NOISE, n=400, alpha=0.01, seed=0, looks=(100, 400), until=lambda votes: False)
    assert (whole.n, whole.saved) == (400, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": lambda votes: True}, "until is asked at looks: give looks too"),
        ({"looks": 4, "until": 0.9}, r"until=0.9 needs tau and alpha here: use until=segcertify.Enough"),
        ({"looks": 4, "n0": 0}, "looks need candidates that are fixed before the first look: use a pilot"),
        ({"looks": 4, "counts": True}, "looks are not proven for the counts of all classes"),
        ({"looks": 60}, "60 looks do not fit"),
    ],
)
def test_runs_that_cannot_have_looks(options, message):
    with pytest.raises(InputError, match=message):
        sc.sample(Half(), X, noise=NOISE, **{"n": 50, "seed": 0} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n0": 0}, "looks need candidates that are fixed before the first look: use a pilot"),
        ({"counts": True}, "looks are not proven for the counts of all classes"),
    ],
)
def test_certificates_that_cannot_have_looks(options, message):
    with pytest.raises(InputError, match=message):
        sc.certify(Half(), X, noise=NOISE, n=400, alpha=0.01, seed=0, looks=4, **options)


def test_metrics_take_all_draws():
    with pytest.raises(InputError, match="metrics need all n draws, but looks may stop earlier"):
        sc.Smooth(Half(), NOISE, seed=0).votes(X, n=50, looks=2, watch=lambda phase, start, labels: None)


def test_shares_that_are_none():
    for share in (0, 1.5, "most"):
        with pytest.raises(InputError, match="until must be a share of components"):
            Enough(tau=0.75, alpha=0.01, share=share)
    with pytest.raises(InputError, match="not proven for votes with looks"):
        sc.certify(Half(), X, noise=NOISE, n=400, alpha=0.01, seed=0, looks=4, correction="by")


# Resuming


class Dies(Half):
    """A model that fails at a call."""

    def __init__(self, at):
        super().__init__()
        self.calls, self.at = 0, at

    def identity(self):
        return None

    def forward(self, batch):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return super().forward(batch)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_killed_run_resumes_to_the_same_votes_and_the_same_stop(tmp_path, share):
    def sampled(model, path=None):
        rule = Enough(tau=0.75, alpha=0.01, share=share)
        return sc.sample(
            model, X, noise=NOISE, n=300, n0=10, seed=0, looks=3, until=rule, batch_size=10, checkpoint=path,
            checkpoint_every=0.0,
        )  # fmt: skip

    whole = sampled(Dies(0))
    assert whole.n == (100 if share == 0.5 else 200)
    path = tmp_path / "resume"
    with pytest.raises(KeyboardInterrupt):
        sampled(Dies(14), path)
    with suppress(KeyboardInterrupt):
        sampled(Dies(12), path)
    again = sampled(Dies(0), path)
    counting = Dies(0)
    at_once = sampled(counting, path)
    for found in (again, at_once):
        assert (found.n, found.looks, found.draws) == (whole.n, whole.looks, whole.draws)
        assert np.array_equal(found.agree, whole.agree)
        assert found.earlier.keys() == whole.earlier.keys()
    with pytest.raises(InputError, match="looks"):
        sc.sample(Dies(0), X, noise=NOISE, n=300, n0=10, seed=0, prefixes=(100, 200), batch_size=10, checkpoint=path)


def test_votes_on_disk_are_taken_again(tmp_path):
    def certified(**options):
        model = torch.nn.Conv2d(3, 3, 1).eval()
        with torch.no_grad():
            model.weight.copy_(4 * torch.eye(3).view(3, 3, 1, 1))
            model.bias.zero_()
        x = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(0))
        given = {"tau": 0.75, "n": 300, "alpha": 0.01, "looks": 3, "until": 0.2, "save_votes": tmp_path / "votes"}
        return sc.certify(model, x, noise=sc.Gaussian(0.1), seed=0, **given | options)

    first = certified()
    assert first.saved > 0
    again, other = certified(), certified(tau=0.6)
    assert np.array_equal(again.labels, first.labels)
    assert (other.n, other.looks) == (first.n, first.looks)
    with pytest.raises(InputError, match="their looks was"):
        certified(looks=2)
    with pytest.raises(InputError, match="their looks was"):
        certified(looks=(), until=None)


@pytest.mark.parametrize("looks", [(50, 40), (40, 40), (30, 50), ([40],), (0, 40), (40.5,), ("40",)])
def test_a_certificate_with_impossible_looks_is_refused(looks):
    votes = sc.Votes(np.zeros(3, int), np.full(3, 40), 40, 5, sc.Gaussian(0.25))
    certificate = sc.certify_votes(votes, tau=0.6, alpha=0.1)
    assert replace(certificate, looks=[40, 60]).looks == (40, 60)
    with pytest.raises(sc.InputError, match="look"):
        replace(certificate, looks=looks)
