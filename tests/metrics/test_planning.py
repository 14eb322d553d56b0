"""The smallest n of metric certificates: known numbers, and what the certificate itself does."""

import numpy as np
import pytest
from scipy.special import ndtri

import segcertify as sc
from segcertify.metrics.planning import require_bound

SMALLEST = {0.5: (25, 66, 135, 688), 0.8: (104, 407, 1068, 8997), 0.95: (675, 4026, 13772)}
"""By the share of runs, at R / sigma = Phi^-1 of 0.75, 0.9, 0.95 and 0.99, alpha = 0.001."""


@pytest.mark.parametrize("share", SMALLEST)
def test_smallest_n(share):
    found = (sc.plan_metric(sc.Gaussian(0.25), 0.25 * ndtri(p), share=share).n_min for p in (0.75, 0.9, 0.95, 0.99))
    assert tuple(n for n, _ in zip(found, SMALLEST[share], strict=False)) == SMALLEST[share]


NOISES = [sc.Gaussian(0.25), sc.Laplace(0.25), sc.Uniform(0.5), sc.AxisRotation(0.25), sc.Rotation(0.25)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("two_sided", [False, True])
def test_the_plan_is_what_the_certificate_does(noise, two_sided):
    plan = sc.plan_metric(noise, 0.2, share=0.6, two_sided=two_sided, alpha=0.01)

    def made(n):
        return sc.MetricCertificate("size", np.arange(n), 0.2, 0.6, 0.01, noise, two_sided=two_sided)

    assert made(plan.n_min).bound == 0
    assert made(plan.n_min).upper == (plan.n_min - 1 if two_sided else None)
    assert made(plan.n_min - 1).bound is None
    assert made(plan.n_min - 1).upper is None
    more = sc.plan_metric(noise, 0.2, share=0.6, two_sided=two_sided, alpha=0.01, n=10 * plan.n_min)
    found = made(more.n)  # of 0, 1, 2, ...
    assert more.left_out == found.bound + 1 + (more.n - found.upper if two_sided else 0)
    assert sc.plan_metric(noise, 0.2, share=0.6, alpha=0.01, n=5).left_out is None
    assert f"smallest n is {plan.n_min:,}" in str(plan)
    options = {"share": 0.6, "alpha": 0.01, "two_sided": two_sided}
    require_bound(noise, 0.2, n=plan.n_min, **options)
    with pytest.raises(sc.InputError, match=f"use n >= {plan.n_min}"):
        require_bound(noise, 0.2, n=plan.n_min - 1, **options)


class Own(sc.Gaussian):
    pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((sc.Uniform(0.5), 0.6), "no number of draws bounds a metric for 50% of the noisy runs within R=0.6"),
        ((sc.Gaussian(0.25), 3.0), "choose a smaller radius, a wider noise or a smaller share"),
        ((Own(0.25), 0.1), "knows no proof of what an attack can do"),
        ((sc.Gaussian(0.25), -1), "must not be negative"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(sc.InputError, match=message):
        sc.plan_metric(*arguments)
    with pytest.raises(sc.InputError, match="share must lie in"):
        sc.plan_metric(sc.Gaussian(1), 0.1, share=1.0)
