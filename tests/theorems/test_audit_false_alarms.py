"""An audit accuses a right sampler or a true certificate with probability ``level`` at most, and finds false ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import segcertify as sc
from segcertify.audit import audit_certificate, audit_metric, audit_sampler
from segcertify.audit.certificates import _most_violating, detectable

pytestmark = pytest.mark.statistical
GAUSSIAN = sc.Gaussian(0.25)


@pytest.mark.parametrize("noise", [GAUSSIAN, sc.Uniform(0.5), sc.AxisRotation(0.3), sc.Rotation(0.3)], ids=repr)
def test_the_false_alarm_rate_of_sampler_audits_holds(noise, rate_exceeds):
    """At a large level: 150 audits of our own sampler, failed in at most 30 % (1e-6)."""
    x = None if noise.norm == "angle" else torch.full((2, 4, 4), 0.5)
    settings = {"x": x, "n": 100, "n0": 50, "batch_size": 25, "level": 0.3}
    found = [bool(audit_sampler(None, noise, seed=seed, **settings).failed) for seed in range(150)]
    assert not rate_exceeds(sum(found), 150, 0.3), sum(found)
    assert sum(found) > 5  # the checks are nearly exact, not idle


def test_the_false_alarm_rate_of_certificate_audits_holds(rate_exceeds):
    """At a large level, with labels of probability exactly 1/2: 600 audits, refuted in at most 20 % (1e-6)."""
    votes = sc.Votes(np.ones(4, int), np.full(4, 100), n=100, n0=10, noise=sc.Gaussian(1.0))
    certificate = sc.certify_votes(votes, tau=0.5, alpha=0.001)

    def fair(batch):
        return (batch > 0).long()

    found = [
        audit_certificate(fair, torch.zeros(4), certificate, n=60, steps=0, level=0.2, seed=seed).refuted
        for seed in range(600)
    ]
    assert not rate_exceeds(sum(found), 600, 0.2), sum(found)
    assert sum(found) > 30  # the test is exact, not idle


SIGMA, SHARE, WHERE = 0.25, 0.6, 27
STEPS = torch.linspace(-0.45, 0.45, 33, dtype=torch.float64)
DARK = np.zeros(33, int)


def rising(batch):
    """Pixels that turn on one after the other as the one number of an input rises: an attack raises it."""
    return torch.stack([STEPS - batch, batch - STEPS], 1)


def tight():
    """A true claim with nothing to spare: within R exactly `SHARE` of the noisy runs keep the bound.

    The noise must stay below the step `WHERE` after a push by R.
    """
    values, radius = np.full(1000, (33 - WHERE) / 33), float(STEPS[WHERE]) - stats.norm(scale=SIGMA).ppf(SHARE)
    return sc.MetricCertificate("accuracy", values, radius, SHARE, 0.001, sc.Gaussian(SIGMA))


def audited(certificate, seed, **options):
    settings = {"n": 1000, "steps": 4, "draws": 4, "directions": 1, "seed": seed, "target": DARK}
    x, metric = torch.zeros(1, dtype=torch.float64), sc.metrics.overall_accuracy(DARK)
    return audit_metric(rising, x, certificate, metric, **settings | options)


def test_the_false_alarm_rate_of_metric_audits_holds(rate_exceeds):
    """At a large level, of a claim with nothing to spare: 300 audits, refuted in at most 30 % (1e-6)."""
    certificate = tight()
    found = [audited(certificate, seed, n=100, level=0.3) for seed in range(300)]
    assert not rate_exceeds(sum(each.refuted for each in found), 300, 0.3)
    assert sum(each.refuted for each in found) > 20  # the test is exact, not idle: attacks reach the worst input
    pushed = [float(each.x[0]) for each in found[0].perturbed if each.name.startswith("attack")]
    assert max(pushed) == pytest.approx(certificate.radius)


def test_the_level_of_a_metric_audit_is_for_all_its_inputs(rate_exceeds):
    """With nothing to spare at any of 3 inputs: stripes so narrow that each colour has probability 1/2 everywhere.

    300 audits, refuted in at most 30 % (1e-6); at the whole level for each input they would be in about 55 %.
    """
    claim = sc.MetricCertificate("accuracy", np.ones(1000), 0.2, 0.5, 0.001, sc.Gaussian(SIGMA))
    x, metric = torch.zeros(2, dtype=torch.float64), sc.metrics.overall_accuracy(np.zeros(1, int))

    def stripes(batch):
        return (1000 * batch[:, :1]).floor().long() % 2

    options = {"n": 100, "steps": 0, "directions": 2, "level": 0.3}
    found = [audit_metric(stripes, x, claim, metric, seed=seed, **options).refuted for seed in range(300)]
    assert not rate_exceeds(sum(found), 300, 0.3), sum(found)
    assert sum(found) > 20


def raised(certificate):
    """The bound is the value of another rank, off by many."""
    return replace(certificate, values=certificate.values + 4 / 33)


def halved(certificate):
    """The norm of a resize was taken for half of what it is: the radius is twice the proven one."""
    return replace(certificate, radius=2 * certificate.radius)


@pytest.mark.parametrize("defect", [raised, halved])
def test_planted_defects_of_metric_certificates_are_caught(defect):
    """In all of 10 audits at level 1e-6."""
    assert all(audited(defect(tight()), seed).refuted for seed in range(10))


def test_the_true_metric_certificate_is_refuted_in_none_of_these_audits():
    assert not any(audited(tight(), seed).refuted for seed in range(10))


@pytest.mark.parametrize("of_labels", [True, False])
def test_what_an_audit_says_that_it_finds_is_found(of_labels, rate_exceeds):
    """Of violations exactly as large as the verdict says, at most 5 % of 400 audits miss one (1e-6)."""
    n, level = 200, 1e-3
    share = 0.5 if of_labels else SHARE
    kept = detectable(n, _most_violating(n, level, 1, 1, least=share))
    at = torch.tensor(stats.norm(scale=SIGMA).ppf(kept))
    x, options = torch.zeros(1, dtype=torch.float64), {"n": n, "level": level, "steps": 0}

    def below(batch):
        return (batch > at).long()

    metric, zero = sc.metrics.overall_accuracy(np.zeros(1, int)), np.zeros(1, int)
    claim = sc.MetricCertificate("accuracy", np.ones(1000), 0.0, SHARE, 0.001, sc.Gaussian(SIGMA))
    votes = sc.Votes(zero, np.full(1, 100), n=100, n0=10, noise=sc.Gaussian(SIGMA))
    labels = sc.certify_votes(votes, tau=0.5, alpha=0.001)  # a radius of 0
    missed = 0
    for seed in range(400):
        if of_labels:
            finding = audit_certificate(below, x, labels, seed=seed, **options)
            assert finding.detectable == kept
        else:
            finding = audit_metric(below, x, claim, metric, seed=seed, **options)
        missed += not finding.refuted
    assert not rate_exceeds(missed, 400, 0.05), missed
    assert missed > 3  # the figure is exact, not idle
