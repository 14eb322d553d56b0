"""An audit accuses a right sampler or a true certificate with probability ``level`` at most."""

import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.audit import audit_certificate, audit_sampler

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
