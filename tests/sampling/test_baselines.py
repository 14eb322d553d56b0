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
