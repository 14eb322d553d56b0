"""An audit of sets finds a majority label outside its set, and passes true sets."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from segmenters import NOISE

import segcertify as sc
from segcertify.audit import Perturbed
from segcertify.audit.sets import audit_sets
from segcertify.numerals import upper
from segcertify.stats.pilotless import pilotless_p_values

X = torch.linspace(-1, 2, 40)


def three(batch):
    """Labels 0, 1, 2 along the line."""
    return (batch > 0.2).long() + (batch > 0.8).long()


def certified():
    votes = sc.sample(three, X, noise=NOISE, n=200, n0=0, seed=0, counts=True, classes=3)
    return sc.certify_sets(votes, tau=0.75, alpha=0.01)


def test_true_sets_are_not_refuted():
    found = certified()
    assert 0 < found.certified < 40
    finding = audit_sets(three, X, found, n=300, seed=1)
    assert not finding.refuted
    assert finding.verdict.startswith("No violation: 40 sets at 4 inputs, 300 fresh draws each")


def test_the_verdict_says_what_would_have_been_found():
    """A label of the stated probability reaches a violating count with 95 %, by the exact binomial; less would not."""
    finding = audit_sets(three, X, certified(), n=300, seed=1)
    least = int(np.argmax(pilotless_p_values(300, 0.5) <= finding.level / finding.tests))
    assert stats.binom.sf(least - 1, 300, 1 - finding.detectable) == pytest.approx(0.95, abs=1e-9)
    assert 0.5 < 1 - finding.detectable < 1
    assert f"whose probability at one of these inputs is at least {upper(1 - finding.detectable)}" in finding.verdict


def test_a_wrong_set_is_refuted():
    found = certified()
    sets, labels = found.sets.copy(), found.labels.copy()
    sets[:, 0], labels[0] = [False, True, True], -1  # the truth is 0
    finding = audit_sets(three, X, replace(found, sets=sets, labels=labels), n=300, seed=1)
    assert np.flatnonzero(finding.violated).tolist() == [0]
    assert "1 components have a majority label outside their set" in finding.verdict


def test_another_input_or_too_few_draws_are_refused():
    with pytest.raises(sc.InputError, match="the input is not the one that was certified"):
        audit_sets(three, X + 1, certified(), n=300, seed=1)
    with pytest.raises(sc.InputError, match="n=5 draws can refute nothing"):
        audit_sets(three, X, certified(), n=5, seed=1)


def test_further_inputs_are_tested_too():
    """At an input that is no perturbation within the radius, true sets are left: it was looked at."""
    found, far = certified(), X + 0.6
    given = Perturbed("far", far, np.zeros(40, int), np.zeros(40, bool))
    finding = audit_sets(three, X, found, n=300, seed=1, also=[given])
    assert finding.refuted
    assert (finding.inputs, finding.tests) == (5, 200)
    assert (finding.subject, finding.subjects) == ("sets", 40)


def test_every_input_has_its_share_of_the_level():
    """2 P(Bin(n, 1/2) >= n) = 2^(1 - n) is to be at most 1e-6 / (40 components x 4 or 8 inputs)."""
    given = Perturbed("near", X, np.zeros(40, int), np.zeros(40, bool))
    for n, also in ((28, []), (29, [given] * 4)):
        with pytest.raises(sc.InputError, match=f"n={n} draws can refute nothing"):
            audit_sets(three, X, certified(), n=n, seed=1, also=also)
    assert not audit_sets(three, X, certified(), n=29, seed=1).refuted
