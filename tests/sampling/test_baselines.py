"""JointClass against all label maps kept and counted."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm

import segcertify as sc
from segcertify.sampling.streams import DrawStream

X = torch.tensor([0.5, -0.4, 0.45, 0.0])


def signs(batch):
    return (batch > 0).long()


def maps(noise, phase, count, where):
    return [tuple(signs(noise.draw(X, [DrawStream(2, "", phase, j)]))[0][where].tolist()) for j in range(count)]


@pytest.mark.parametrize("sigma", [0.05, 0.2])
@pytest.mark.parametrize("mask", [None, np.array([True, True, True, False])])
@pytest.mark.parametrize("batch_size", [1, 16, None])
def test_joint_class(sigma, mask, batch_size):
    noise = sc.Gaussian(sigma)
    where = np.ones(4, bool) if mask is None else mask
    candidate = Counter(maps(noise, "candidate", 15, where)).most_common(1)[0][0]
    agree = maps(noise, "agree", 200, where).count(candidate)
    bound = binomtest(agree, 200, alternative="greater").proportion_ci(1 - 0.01).low
    certificate = sc.joint_class(
        signs, X, noise=noise, n=200, n0=15, alpha=0.01, seed=2, mask=mask, batch_size=batch_size
    )
    expected = np.full(4, sc.ABSTAIN)
    if bound > 0.5:
        expected[where] = candidate
    assert certificate.labels.tolist() == expected.tolist()
    assert certificate.radius == pytest.approx(max(0, sigma * norm.ppf(bound)))
    assert where.sum() == certificate.N
    assert (bound > 0.5) == (mask is not None)  # the entry at 0 fluctuates and spoils the whole map


@pytest.mark.parametrize("components", [150, 2000])
def test_every_component_counts(components):
    """One component of many that fluctuates makes the map another: what agrees in all but one does not agree.

    The component's label is right with probability 0.6: of 100 draws some 60 agree, not 100. The bound on the map's
    probability is Clopper and Pearson's for exactly the draws in which all components agree.
    """
    x = torch.full((components,), 9.0)
    x[components // 2] = 0.2 * float(norm.ppf(0.6))
    noise = sc.Gaussian(0.2)
    drawn = signs(torch.cat([noise.draw(x, [DrawStream(4, "", "agree", j)]) for j in range(100)]))
    agree = int((drawn == 1).all(1).sum())
    assert 45 < agree < 75
    for alpha in (0.05, 0.4):
        certificate = sc.joint_class(signs, x, noise=noise, n=100, n0=10, alpha=alpha, seed=4)
        bound = binomtest(agree, 100, alternative="greater").proportion_ci(1 - alpha).low
        assert certificate.certified == (components if bound > 0.5 else 0)
        assert certificate.radius == pytest.approx(max(0, 0.2 * norm.ppf(bound)), rel=1e-6)


@pytest.mark.parametrize(("alpha", "bound"), [(0.1, 0.954992586), (0.01, 0.912010839), (0.001, 0.870963590)])
def test_the_bound_on_a_map_is_clopper_and_pearsons(alpha, bound):
    """When all of n draws agree, the bound is alpha^(1 / n) exactly."""
    certificate = sc.joint_class(signs, X + 9, noise=sc.Gaussian(0.2), n=50, n0=5, alpha=alpha, seed=0)
    assert certificate.tau == pytest.approx(bound, rel=1e-8)
    assert certificate.radius == pytest.approx(0.2 * norm.ppf(bound), rel=1e-6)


def test_norm():
    settings = {"noise": sc.Gaussian(0.05), "mask": np.array([True, True, True, False]), "seed": 0}
    l2, linf = (sc.joint_class(signs, X, **settings, norm=norm) for norm in ("l2", "linf"))
    assert linf.radius == pytest.approx(l2.radius / 2)  # four entries
    assert linf.norm == "linf"


def test_a_model_that_uses_its_memory_again():
    """Labels from one buffer: the candidate map must not change under the count."""
    buffer = torch.zeros(64, 4, dtype=torch.long)

    def thrifty(batch):
        return buffer[: len(batch)].copy_((batch > 0).long())

    settings = {"noise": sc.Gaussian(0.2), "n": 100, "batch_size": 1, "seed": 2}
    assert sc.joint_class(thrifty, X, **settings).certified == sc.joint_class(signs, X, **settings).certified == 0


def test_bad_input():
    for arguments, message in [
        ({"alpha": 0}, "alpha must lie"),
        ({"n": 0}, "n must be"),
        ({"norm": "l1"}, "proves nothing"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            sc.joint_class(signs, X, **({"noise": sc.Gaussian(1.0), "seed": 0} | arguments))


def test_defaults():
    certificate = sc.joint_class(signs, X + 9, noise=sc.Gaussian(0.2), seed=0)
    assert (certificate.n, certificate.n0, certificate.alpha) == (100, 10, 0.001)
