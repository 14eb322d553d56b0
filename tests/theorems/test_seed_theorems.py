"""The seed, attacked: whoever knows it before choosing the input or the model can void a claim.

Both adversaries below know the draws of seed 0, and both build a case whose true probability is known from theory to
be at most 0.504. All known draws agree on it, so that seed 0 certifies it falsely. A seed that nobody knew must not.
"""

import pytest
import torch
from scipy import special
from scipy.stats import binom

import segcertify as sc
from segcertify.sampling.streams import DrawStream
from segcertify.stats.binomial import p_values

pytestmark = pytest.mark.statistical

SIGMA, TAU, N, N0, ALPHA = 1.0, 0.75, 100, 10, 0.001
MARGIN = 0.01 * SIGMA
P = float(special.ndtr(MARGIN / SIGMA))
"""The true probability of the label is at most this: 0.504."""
D = 256
RUNS = 200


def known_draws(seed, shape):
    """The noise of all draws of a run, as anyone can make it who knows the seed: (N0 + N, *shape)."""
    noise, zero = sc.Gaussian(SIGMA), torch.zeros(shape)
    phases = [("candidate", j) for j in range(N0)] + [("agree", j) for j in range(N)]
    return noise.draw(zero, [DrawStream(seed, "", phase, j) for phase, j in phases])


def inner_product(batch):
    """Label 1 where the two halves (B, 2, D) have a positive inner product."""
    return ((batch[:, 0] * batch[:, 1]).sum(-1) > 0).long()


def built_input():
    """An input of `inner_product` whose first half u takes 16 gradient steps on the known draws (a, b).

    Given a, the inner product (u + a) (v + b) is normal with mean (u + a) v and deviation sigma |u + a|. So P(label 1)
    is at most Phi(|v| / sigma) = 0.504 whatever u is, and with v = 0, a shift by |v| = 0.01 sigma, it is exactly 1/2.
    """
    draws = known_draws(0, (2, D))
    u = torch.zeros(D)
    for _ in range(16):
        u.requires_grad_()
        v = MARGIN * torch.nn.functional.normalize(u.detach() + draws[:, 1].mean(0), dim=0)
        margins = ((u + draws[:, 0]) * (v + draws[:, 1])).sum(-1)
        (gradient,) = torch.autograd.grad(torch.sigmoid(-margins / D**0.5).sum(), u)
        u = u.detach() - 20 * gradient
    return inner_product, torch.stack([u, v])


def built_model():
    """A half-space w x > 0 that agrees with the known draws, at an input whose distance from its boundary is MARGIN.

    P(label 1) is exactly Phi(MARGIN / sigma) = 0.504, and a shift by MARGIN along w makes it 1/2.
    """
    draws = known_draws(0, (D,))
    w = torch.linalg.lstsq(draws, torch.ones(len(draws), 1)).solution[:, 0]
    w = w / w.norm()
    return lambda batch: (batch @ w > 0).long(), MARGIN * w


@pytest.mark.fresh_seed
@pytest.mark.parametrize("built", [built_input, built_model])
def test_a_known_seed_is_fooled_and_the_default_is_not(built):
    """False alarm: 200 runs certify a probability of 0.504 at tau = 0.75 with probability below 1e-12 in all."""
    model, x = built()
    settings = {"sigma": SIGMA, "tau": TAU, "n": N, "n0": N0, "alpha": ALPHA}
    fooled = sc.certify(model, x, seed=0, **settings)
    assert fooled.certified == 1
    assert fooled.radius > 60 * MARGIN  # a shift of MARGIN already takes the label's probability to 1/2
    enough = int((p_values(N, TAU) > ALPHA).sum())
    assert 2 * RUNS * binom.sf(enough - 1, N, P) < 1e-12
    found = [sc.certify(model, x, **settings) for _ in range(RUNS)]
    assert sum(certificate.certified for certificate in found) == 0
    assert len({certificate.seed for certificate in found}) == RUNS
