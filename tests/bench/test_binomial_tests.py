"""The two ways to test stored labels agree with each other, with our certificates, and with statsmodels."""

import builtins

import numpy as np
import pytest

import segcertify as sc
from segcertify.bench.binomial_tests import PixelPool, holm, spread, test_pixel, test_together

test_pixel.__test__ = test_together.__test__ = False  # functions of the package, not tests

N0, N, CLASSES, TAU = 6, 60, 4, 0.75


@pytest.fixture
def labels():
    """Labels (n0 + n, pixels): some pixels are sure of their label, some waver, some tie in the pilot."""
    rng = np.random.default_rng(0)
    sure = rng.choice([0.3, 0.8, 0.97, 1.0], 50)
    drawn = np.where(rng.random((N0 + N, 50)) < sure, 2, rng.integers(0, CLASSES, (N0 + N, 50)))
    drawn[:N0, 0] = [3, 3, 1, 1, 2, 0]
    return drawn


@pytest.mark.parametrize("processes", [1, 2])
def test_pixel_by_pixel_and_together_are_the_same(labels, processes):
    with PixelPool(processes) as pool:
        apart = pool.test(labels, n0=N0, classes=CLASSES, tau=TAU)
    together = test_together(labels, n0=N0, classes=CLASSES, tau=TAU)
    assert np.array_equal(apart.labels, together.labels)
    assert apart.labels[0] == 1  # the lowest of equals
    assert np.allclose(apart.p_values, together.p_values, rtol=1e-10, atol=0)


def test_they_certify_what_our_certificates_do(labels):
    tested = test_together(labels, n0=N0, classes=CLASSES, tau=TAU)
    agree = (labels[N0:] == tested.labels).sum(0)
    votes = sc.Votes(tested.labels, agree, n=N, n0=N0, noise=sc.Gaussian(0.25))
    ours = sc.certify_votes(votes, tau=TAU, alpha=0.001)
    procedure, _ = holm()
    rejected = procedure(tested.p_values, 0.001)
    assert 0 < rejected.sum() < 50
    assert np.array_equal(rejected, ~ours.abstained)


def test_holm_without_statsmodels_is_the_same(labels, monkeypatch):
    p_values = np.random.default_rng(0).random(200) ** 6
    theirs, name = holm()
    assert name == "statsmodels"
    importing = builtins.__import__

    def missing(name, *more):
        if name.startswith("statsmodels"):
            raise ImportError
        return importing(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    own, name = holm()
    assert name.startswith("NumPy")
    for alpha in (1e-9, 0.01, 0.2):
        assert np.array_equal(own(p_values, alpha), theirs(p_values, alpha))
    assert own(np.zeros(3), 0.01).all()


def test_pixels_are_spread_over_all():
    assert spread(10, 4).tolist() == [0, 3, 6, 9]
    assert spread(3, 100).tolist() == [0, 1, 2]
