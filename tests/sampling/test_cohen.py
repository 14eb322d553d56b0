"""Predict and Certify against a plain reading of Algorithm 1."""

import inspect

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm

import segcertify as sc
from segcertify.sampling.streams import DrawStream

NOISE = sc.Gaussian(0.5)
X = torch.tensor([0.7, -0.3, -0.1])


def classifier(batch):
    return torch.stack([batch[:, 0], batch[:, 1], batch[:, 2] + 0.1, batch.sum(1) - 5], 1)


def drawn_labels(phase, count):
    return [int(classifier(NOISE.draw(X, [DrawStream(0, "", phase, j)])).argmax(1)) for j in range(count)]


def test_certify():
    candidate = np.bincount(drawn_labels("candidate", 50)).argmax()
    agree = drawn_labels("agree", 400).count(candidate)
    bound = binomtest(agree, 400, alternative="greater").proportion_ci(1 - 0.01).low
    certificate = sc.cohen.certify(classifier, X, noise=NOISE, n=400, n0=50, alpha=0.01, seed=0)
    if bound > 0.5:
        assert certificate.labels == candidate
        assert certificate.radius == pytest.approx(0.5 * norm.ppf(bound))
    else:
        assert certificate.labels == sc.ABSTAIN
        assert certificate.radius == 0


@pytest.mark.parametrize("n", [40, 60, 400])
def test_predict(n):
    """Two-sided, and among the two most frequent labels only: alphas just around the p-value decide."""
    counts = np.bincount(drawn_labels("agree", n), minlength=4)
    top, second = np.argsort(-counts, kind="stable")[:2]
    assert counts[top] + counts[second] < n  # a third label occurs
    p = binomtest(int(counts[top]), int(counts[top] + counts[second]), 0.5).pvalue
    assert 0 < p < 0.9
    assert sc.cohen.predict(classifier, X, noise=NOISE, n=n, alpha=p * 1.001, seed=0) == top
    assert sc.cohen.predict(classifier, X, noise=NOISE, n=n, alpha=p * 0.999, seed=0) == sc.ABSTAIN


def test_norm_and_n0():
    l2, linf = (
        sc.cohen.certify(classifier, X, noise=NOISE, n=4000, n0=77, alpha=0.1, norm=m, seed=0) for m in ("l2", "linf")
    )
    assert l2.radius > 0
    assert linf.radius == pytest.approx(l2.radius / np.sqrt(3))
    assert (linf.norm, linf.n0, linf.n) == ("linf", 77, 4000)


def test_a_sure_classifier():
    assert sc.cohen.predict(lambda b: torch.ones(len(b), dtype=torch.int), X, noise=NOISE, n=100, seed=0) == 1
    certificate = sc.cohen.certify(lambda b: torch.ones(len(b), dtype=torch.int), X, noise=NOISE, n=1000, seed=0)
    assert int(certificate.labels) == 1
    assert certificate.radius == pytest.approx(0.5 * norm.ppf(0.001 ** (1 / 1000)))


def test_labels_that_only_one_class_ever_gets():
    assert sc.cohen.predict(lambda b: torch.zeros(len(b), dtype=torch.int), X, noise=NOISE, n=100, seed=0) == 0


def test_segmenters_are_refused():
    with pytest.raises(sc.InputError, match=r"labels components of shape \(3,\): use segcertify.certify"):
        sc.cohen.certify(lambda b: (b > 0).long(), X, noise=NOISE, seed=0)
    with pytest.raises(sc.InputError, match="alpha must lie"):
        sc.cohen.predict(classifier, X, noise=NOISE, alpha=1, seed=0)


def test_defaults():
    """As documented: 1000 draws, for a certificate after 100, at alpha 0.001."""
    for call, usual in ((sc.cohen.predict, {"n": 1000}), (sc.cohen.certify, {"n": 1000, "n0": 100})):
        parameters = inspect.signature(call).parameters
        assert {name: parameters[name].default for name in (*usual, "alpha")} == usual | {"alpha": 0.001}
