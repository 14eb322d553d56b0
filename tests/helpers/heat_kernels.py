"""The exact Neyman-Pearson adversary of heat-kernel noise on SO(3)."""

import math

import numpy as np

from segcertify.noise.rotation import heat_kernel_angle, rotation_matrix


def heat_kernel(trace, sigma):
    """The heat kernel's density with respect to the uniform measure, from a rotation matrix's trace."""
    a = np.arccos(np.clip((trace - 1) / 2, -1, 1))[..., None]
    l = np.arange(2 + math.ceil(9.2 / sigma))  # noqa: E741
    half = np.maximum(np.sin(a / 2), 1e-9)
    return ((2 * l + 1) * np.exp(-l * (l + 1) * sigma**2 / 2) * np.sin((l + 0.5) * np.maximum(a, 2e-9)) / half).sum(-1)


def rotations(rng, sigma, count):
    axes, angles = rng.normal(size=(count, 3)), heat_kernel_angle(rng.random(count), sigma)
    return np.stack([rotation_matrix(axis, angle) for axis, angle in zip(axes, angles, strict=True)])


def likelihood_ratio(turns, sigma, adversary):
    """k(R) / k(R Q^-1): the most powerful region against Q is where this is large."""
    return heat_kernel(np.trace(turns, axis1=1, axis2=2), sigma) / heat_kernel(
        np.einsum("bij,ij->b", turns, adversary), sigma
    )
