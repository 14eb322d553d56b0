"""The radius in a file's own pixels, measured: half-spaces behind a resize, whose probabilities are known exactly.

A component's label is 1 where <w, A x + noise> exceeds -t, with ||w|| = 1. Its probability is
Phi((<w, A x> + t) / sigma), and the nearest change of the file x that brings it to 1/2 has the direction A^T w and the
length (<w, A x> + t) / ||A^T w||. No certified radius may exceed that length. The false-alarm rate is 1e-6.
"""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import special

import segcertify as sc
from segcertify import preprocessing
from segcertify.data import read_input
from segcertify.preprocessing import of_image
from segcertify.resampling import METHODS, axis_matrix, resampled, resize_norm

pytestmark = pytest.mark.statistical

SIGMA, TAU, ALPHA, JUST_BELOW = 0.25, 0.75, 0.1, 1e-6
BEFORE, AFTER = (23, 31), (6, 8)


def operator(method):
    """The whole resize of one colour as a matrix."""
    return np.kron(*(axis_matrix(*sizes, method).toarray() for sizes in zip(BEFORE, AFTER, strict=True)))


def worst_direction(method):
    """The unit vector of the network's pixels that the resize shortens least, seen from the network."""
    return np.abs(np.linalg.svd(operator(method))[0][:, 0])


def directions(method):
    """Half-spaces: the worst direction, single pixels, and random ones; (AFTER pixels, AFTER pixels)."""
    rng, pixels = np.random.default_rng(0), AFTER[0] * AFTER[1]
    found = np.concatenate([np.eye(pixels)[: pixels // 3], rng.normal(size=(pixels // 3, pixels))])
    found = np.concatenate([found, np.tile(worst_direction(method), (pixels - len(found), 1))])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def half_spaces(w, thresholds):
    """Labels of the network's pixels, from their first colour."""
    weights, offsets = torch.from_numpy(w), torch.from_numpy(thresholds)
    return lambda batch: (batch[:, 0].flatten(1).double() @ weights.T > -offsets).long().unflatten(1, AFTER)


@pytest.mark.parametrize("method", METHODS)
def test_the_exact_worst_change_of_the_file_is_outside_the_radius(method):
    """For every half-space at exactly tau; in the worst direction the radius is tight."""
    radius = sc.Gaussian(SIGMA).radius(TAU)
    inside = preprocessing.file_radius(radius, "l2", of_image(BEFORE, AFTER, method))
    exact = SIGMA * special.ndtri(TAU) / np.linalg.norm(directions(method) @ operator(method), axis=1)
    assert (inside < exact).all()
    assert exact.min() <= inside * (1 + 1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_file_moved_along_the_worst_direction(method):
    """Through the function itself: just inside the radius the label keeps p > 1/2, just beyond the exact one not."""
    x = np.random.default_rng(1).uniform(size=(*BEFORE, 1))
    w, matrix = worst_direction(method), operator(method)
    threshold = SIGMA * special.ndtri(TAU) - w @ resampled(x, AFTER, method).ravel()
    step = -(matrix.T @ w).reshape(*BEFORE, 1) / np.linalg.norm(matrix.T @ w)
    radius = preprocessing.file_radius(sc.Gaussian(SIGMA).radius(TAU), "l2", of_image(BEFORE, AFTER, method))
    for length, stays in ((radius, True), (radius * (1 + 2e-3), False)):
        moved = resampled(x + length * step, AFTER, method).ravel()
        assert (special.ndtr((w @ moved + threshold) / SIGMA) > 0.5) == stays


def false_certificates(tmp_path, runs):
    """How many of the runs certify a component whose exact radius in the file is below the claimed one; and how many
    components are certified rightly."""
    pixels = np.random.default_rng(2).integers(0, 256, (*BEFORE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    read = read_input(tmp_path / "a.png", short_side=AFTER[0])
    assert read.x.shape == (3, *AFTER)
    w, matrix = directions("antialiased"), operator("antialiased")
    p = np.where(np.arange(len(w)) % 2 == 0, TAU - JUST_BELOW, 0.999)
    margin = SIGMA * special.ndtri(p)
    exact = (margin / np.linalg.norm(w @ matrix, axis=1)).reshape(AFTER)
    model = half_spaces(w, margin - w @ read.x[0].ravel().astype(float))
    false = right = 0
    for seed in range(runs):
        certificate = sc.certify(
            model, read.x, sigma=SIGMA, tau=TAU, n=60, n0=5, alpha=ALPHA, seed=seed, preprocessing=read.preprocessing
        )
        label = certificate.labels == 1
        false += bool(((label & (exact < certificate.input_radius)) | (certificate.labels == 0)).any())
        right += int(label.sum())
    return false, right


def test_no_false_certificate_in_the_units_of_the_file(tmp_path, rate_exceeds):
    """200 runs of the whole way from a PNG; half of the components are just below tau."""
    false, right = false_certificates(tmp_path, 200)
    assert not rate_exceeds(false, 200, ALPHA), false
    assert right > 0.8 * 200 * AFTER[0] * AFTER[1] / 2


def test_a_planted_norm_that_is_too_small_is_caught(tmp_path, monkeypatch, rate_exceeds):
    """An eighth of the norm: certified components whose labels change within the claimed radius."""
    monkeypatch.setattr(preprocessing, "resize_norm", lambda *sizes: resize_norm(*sizes) / 8)
    false, _ = false_certificates(tmp_path, 40)
    assert rate_exceeds(false, 40, ALPHA), false
    for method in METHODS:
        with pytest.raises(AssertionError):
            test_the_exact_worst_change_of_the_file_is_outside_the_radius(method)
        with pytest.raises(AssertionError):
            test_a_file_moved_along_the_worst_direction(method)


def test_a_norm_rounded_down_is_caught(monkeypatch):
    """By one part in a million, for the box, whose bound has no slack."""
    monkeypatch.setattr(preprocessing, "resize_norm", lambda *sizes: resize_norm(*sizes) * (1 - 1e-6))
    with pytest.raises(AssertionError):
        test_the_exact_worst_change_of_the_file_is_outside_the_radius("box")
