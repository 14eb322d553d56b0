"""Every noise follows its law."""

import math

import numpy as np
import pytest
import torch
from scipy import special
from scipy.spatial.transform import Rotation as Turn
from scipy.stats import chi, kstest, laplace, norm, uniform

from segcertify import AxisRotation, Gaussian, Laplace, Rotation, Uniform
from segcertify.noise.rotation import heat_kernel_cdf
from segcertify.reproduce.axis_angle import UnprovenAxisAngle
from segcertify.sampling.streams import DrawStream


def streams(count):
    return [DrawStream(0, "x", "agree", j) for j in range(count)]


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("noise", "law"),
    [(Gaussian(0.25), norm(0, 0.25)), (Laplace(0.3), laplace(0, 0.3)), (Uniform(0.5), uniform(-0.5, 1))],
    ids=["gaussian", "laplace", "uniform"],
)
def test_additive_noise_follows_its_law(noise, law, dtype):
    """Kolmogorov-Smirnov on 200,000 numbers, and no correlation between draws; false alarms 2e-6."""
    batch = noise.draw(torch.zeros(20_000, dtype=dtype), streams(10)).numpy()
    assert kstest(batch.ravel(), law.cdf).pvalue > 1e-6
    correlation = np.corrcoef(batch)[np.triu_indices(10, 1)]  # 45 pairs, s.e. 1 / sqrt(20,000)
    assert abs(correlation).max() < 5.9 / math.sqrt(20_000)  # two-sided normal tail 4e-9 each


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "variance", "kurtosis"),
    [
        (Gaussian(0.25), 0.0625, 3),
        (Gaussian(0.25, (0, 2), 1), 0.0625, 3),
        (Laplace(0.3), 0.18, 6),
        (Uniform(0.5), 1 / 12, 1.8),
    ],
    ids=str,
)
def test_the_scale_is_exact_and_entries_of_a_draw_are_independent(noise, variance, kurtosis):
    """1,000,000 numbers: variance within 5.5 standard errors, and neighbours uncorrelated along every axis.

    False alarms below 1e-6. A scale that is 1 % off is 10 standard errors or more away.
    """
    draws = noise.draw(torch.zeros(100, 5, 100), streams(20)).numpy().astype(float)
    if noise == Gaussian(0.25, (0, 2), 1):
        draws = draws[:, :, [0, 2]]
    error = variance * math.sqrt((kurtosis - 1) / draws.size)
    assert abs((draws**2).mean() - variance) < 5.5 * error
    for axis in range(4):  # draws, rows, channels, columns
        moved = np.moveaxis(draws, axis, 0)
        a, b = moved[:-1].ravel(), moved[1:].ravel()
        assert abs(np.corrcoef(a, b)[0, 1]) < 5.5 / math.sqrt(a.size)


@pytest.mark.statistical
def test_rotations_follow_the_heat_kernel():
    """Angle: Kolmogorov-Smirnov against the series. Axis: uniform on the sphere. 3,000 draws; false alarms 5e-6."""
    sigma = 0.5
    matrices = Rotation(sigma).draw(torch.eye(3, dtype=torch.float64), streams(3000)).numpy()
    vectors = Turn.from_matrix(matrices.transpose(0, 2, 1)).as_rotvec()
    angles = np.linalg.norm(vectors, axis=1)
    assert kstest(angles, lambda a: heat_kernel_cdf(a, sigma)).pvalue > 1e-6
    for coordinate in (vectors / angles[:, None]).T:
        assert kstest(coordinate, uniform(-1, 2).cdf).pvalue > 1e-6  # Archimedes
    angles = axis_rotation_angles(0.5)
    assert kstest(angles, norm(0, 0.5).cdf).pvalue > 1e-6
    assert abs(angles.std() / 0.5 - 1) < 5.5 / math.sqrt(2 * len(angles))


def axis_rotation_angles(sigma):
    matrices = AxisRotation(sigma, "z").draw(torch.eye(3, dtype=torch.float64), streams(10_000)).numpy()
    return np.arctan2(matrices[:, 0, 1], matrices[:, 0, 0])


@pytest.mark.statistical
def test_it_draws_as_the_paper_says():
    """Rotation vectors of N(0, sigma^2 I): Kolmogorov-Smirnov on angle and coordinates; false alarms 4e-6."""
    x = torch.cat([torch.eye(3, dtype=torch.float64)] * 2, 1)
    batch = UnprovenAxisAngle(0.5).draw(x, streams(3000)).numpy()
    np.testing.assert_array_equal(batch[:, :, :3], batch[:, :, 3:])  # normals turn alike
    vectors = Turn.from_matrix(batch[:, :, :3].transpose(0, 2, 1)).as_rotvec()
    assert kstest(np.linalg.norm(vectors, axis=1) / 0.5, chi(3).cdf).pvalue > 1e-6
    for coordinate in vectors.T:
        assert kstest(coordinate / 0.5, special.ndtr).pvalue > 1e-6
