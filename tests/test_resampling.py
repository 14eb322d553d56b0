"""Resampling: what the matrices are, that they are what is applied, and that their norms are upper bounds."""

import itertools
import resource
import sys
import time

import mpmath
import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from segcertify import InputError
from segcertify.resampling import ANTIALIASED, BILINEAR, BOX, METHODS, axis_matrix, axis_norm, resampled, resize_norm

SIZES = [(357, 90), (30, 10), (9, 12), (100, 160), (7, 3), (1, 5), (5, 1), (4, 4), (33, 32), (32, 33)]
every = pytest.mark.parametrize(("method", "sizes"), list(itertools.product(METHODS, SIZES)))


def dense(method, sizes):
    return axis_matrix(*sizes, method).toarray()


@every
def test_rows_are_averages(method, sizes):
    matrix = dense(method, sizes)
    assert matrix.shape == sizes[::-1]
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(matrix, matrix[::-1, ::-1], atol=1e-14)  # no side of the image is preferred


@every
def test_norms_are_those_of_the_dense_matrix(method, sizes):
    matrix, sparse_matrix = dense(method, sizes), axis_matrix(*sizes, method)
    for norm, order, excess in (("l2", 2, 3e-4), ("l1", 1, 1e-12), ("linf", np.inf, 1e-12)):
        true = np.linalg.norm(matrix, order)
        assert true * (1 - 1e-14) <= axis_norm(sparse_matrix, norm) <= true * (1 + excess)
    assert axis_norm(sparse_matrix, "l2") <= np.sqrt(axis_norm(sparse_matrix, "l1") * axis_norm(sparse_matrix, "linf"))


def exceeds(matrix, bound):
    """Whether the largest singular value of the very doubles of a matrix, in 50 digits, exceeds the bound."""
    with mpmath.workdps(50):
        exact = mpmath.svd_r(mpmath.matrix(matrix.tolist()), compute_uv=False)[0]
        return bool(exact > mpmath.mpf(bound))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(12, 4), (12, 5), (13, 6), (6, 13), (3, 3), (10, 1)])
def test_the_norm_is_an_upper_bound_in_50_digits(method, sizes):
    matrix = dense(method, sizes)
    assert not exceeds(matrix, axis_norm(axis_matrix(*sizes, method), "l2"))


def test_planted_norms_that_are_too_small_are_caught():
    """Rounded down by a few units in the last place; the plain result of a float SVD may be too small as well."""
    matrix = dense(BOX, (13, 6))
    assert exceeds(matrix, float(mpmath.mpf(6) / 13) ** 0.5 * (1 - 1e-15))
    matrix = dense(ANTIALIASED, (24, 6))
    inner = axis_norm(sparse.csr_array(matrix[1:-1]), "l2")  # as if the image went on beyond its edges
    assert exceeds(matrix, inner)
    assert not exceeds(matrix, axis_norm(axis_matrix(24, 6, ANTIALIASED), "l2"))


def padded(before, after, method, pad):
    """The matrix of a resize after the edge pixels were repeated: another operator, whose norm is another."""
    repeat = np.eye(before)[np.clip(np.arange(-pad, before + pad), 0, before - 1)]
    return axis_matrix(before + 2 * pad, after, method).toarray() @ repeat


def test_padding_belongs_to_the_operator():
    """Planted: the norm of the resize alone, where edge pixels were repeated 8 times before, is far too small."""
    whole, alone = padded(24, 10, BOX, 8), axis_norm(axis_matrix(40, 10, BOX), "l2")
    assert exceeds(whole, 1.4 * alone)
    assert not exceeds(whole, axis_norm(sparse.csr_array(whole), "l2"))


@pytest.mark.parametrize("factor", [2, 3, 4, 7])
def test_a_box_of_whole_pixels_divides_by_its_side(factor):
    before = (12 * factor, 5 * factor)
    for norm, power in (("l2", 1), ("l1", 2), ("linf", 0)):
        found = resize_norm(before, (12, 5), BOX, norm)
        assert factor**-power <= found <= factor**-power * (1 + 1e-13)


def test_no_resize_beats_the_box():
    for before, after in (((357, 481), (90, 131)), ((300, 451), (160, 241))):
        best = np.sqrt(np.prod(after) / np.prod(before))
        assert best <= resize_norm(before, after, BOX) <= best * (1 + 1e-13)
        assert 1 <= resize_norm(before, after, ANTIALIASED) / best < 1.006
        assert resize_norm(before, after, BILINEAR) > 1.3 * best


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("before", "after"), [((9, 7), (4, 5)), ((5, 6), (11, 6)), ((70, 3), (35, 2))])
def test_what_is_applied_is_the_matrix(method, before, after):
    """Probed with identity images: each single pixel gives a column of the Kronecker product."""
    matrix = np.kron(dense(method, (before[0], after[0])), dense(method, (before[1], after[1])))
    for i in range(before[0] * before[1]):
        pixels = np.zeros((*before, 1))
        pixels.flat[i] = 1
        np.testing.assert_allclose(resampled(pixels, after, method).ravel(), matrix[:, i], rtol=1e-14)
    assert np.linalg.norm(matrix, 2) <= resize_norm(before, after, method) * (1 + 1e-14)
    a, b = np.random.default_rng(0).integers(0, 256, (2, *before, 3))
    together, apart = resampled(2 * a + b, after, method), 2 * resampled(a, after, method) + resampled(b, after, method)
    np.testing.assert_allclose(together, apart, rtol=1e-13)


def test_antialiased_is_pillows_bilinear_without_its_8_bits():
    pixels = np.random.default_rng(1).integers(0, 256, (61, 83, 3), dtype=np.uint8)
    for size in ((20, 30), (120, 90)):
        pillow = np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR)).astype(float)
        ours = resampled(pixels, size)
        assert np.abs(pillow - ours).max() <= 1.01
        assert len(np.unique(ours)) > 1000  # no steps


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_a_photograph_of_12_megapixels_takes_little_memory():
    pixels = np.zeros((3000, 4000, 3), np.uint8)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    assert resampled(pixels, (160, 213)).shape == (160, 213, 3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    assert time.perf_counter() - start < 60


def test_what_is_refused():
    with pytest.raises(InputError, match="unknown method 'cubic' to resize by"):
        axis_matrix(4, 2, "cubic")
    with pytest.raises(InputError, match="at least 1 pixel, but is resized from 4 to 0"):
        axis_matrix(4, 0)
    with pytest.raises(InputError, match="'l1', 'l2' and 'linf', but not 'angle'"):
        resize_norm((4, 4), (2, 2), norm="angle")
