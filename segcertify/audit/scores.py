"""Scores: what a noise did to an input, as numbers that are uniform and independent if its law is the stated one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special, stats
from scipy.spatial.transform import Rotation as Rotations

from segcertify.arrays import BoolArray, FloatArray
from segcertify.errors import InputError, unknown
from segcertify.noise import AxisRotation, Gaussian, Laplace, Noise, Rotation, Uniform
from segcertify.noise.rotation import AXES, heat_kernel_cdf, rotated_columns

MOST_ENTRIES = 1024
FEWEST_ENTRIES = 16
TOLERANCE = 1e-6
LAWS: dict[type, Callable[[Any], Any]] = {
    Gaussian: lambda noise: stats.norm(scale=noise.sigma),
    Laplace: lambda noise: stats.laplace(scale=noise.b),
    Uniform: lambda noise: stats.uniform(-noise.lam, 2 * noise.lam),
}
"""The distribution of each entry of noise that is added."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores (B, m) in [0, 1] of a batch, and whether each draw left alone what the noise leaves alone (B,)."""

    uniform: FloatArray
    kept: BoolArray


Scores = Callable[[torch.Tensor], Scored]


def scores_of(noise: Noise, x: torch.Tensor) -> Scores:
    """From noisy batches of x to scores: one for each entry (at most 1024, spread evenly), or of each rotation."""
    if isinstance(noise, AxisRotation):
        return lambda batch: _axis_scores(noise, x, batch)
    if isinstance(noise, Rotation):
        return lambda batch: _rotation_scores(noise, x, batch)
    kind = next((kind for kind in LAWS if isinstance(noise, kind)), None)
    if kind is None:
        known = [known.__name__ for known in (*LAWS, AxisRotation, Rotation)]
        raise unknown("noise", type(noise).__name__, known, where=", whose law an audit would need")
    law, noised = LAWS[kind](noise).cdf, np.arange(x.numel())
    if isinstance(noise, Gaussian) and noise.channels is not None:
        noised = np.sort(noised.reshape(x.shape).take(noise.channels, noise.axis), axis=None)
    if len(noised) < FEWEST_ENTRIES:
        raise InputError(
            f"x has {len(noised)} entries with noise, too few to compare draws: give at least {FEWEST_ENTRIES}"
        )
    chosen = noised[np.unique(np.linspace(0, len(noised) - 1, min(len(noised), MOST_ENTRIES)).astype(int))]
    still = np.setdiff1d(np.arange(x.numel()), noised)

    def scores(batch: torch.Tensor) -> Scored:
        moved = (batch.double() - x.double()).flatten(1).cpu().numpy()
        return Scored(law(moved[:, chosen]), np.abs(moved[:, still]).max(1, initial=0) == 0)

    return scores


def _axis_scores(noise: AxisRotation, x: torch.Tensor, batch: torch.Tensor) -> Scored:
    """The angle's rank in the normal law wrapped around the circle; (B, 1)."""
    axis = np.asarray(AXES[noise.axis] if isinstance(noise.axis, str) else noise.axis, float)
    axis = axis / np.linalg.norm(axis)
    rotations, rigid = _rotations(x, batch, noise.vectors)
    angles = rotations.as_rotvec() @ axis
    aligned = np.abs(rotations.apply(axis) - axis).max(1) < TOLERANCE
    most = math.ceil(6 * noise.sigma / math.pi) + 1
    rounds = 2 * math.pi * np.arange(-most, most + 1)
    upper, lower = (angles[:, None] + rounds) / noise.sigma, (rounds - math.pi) / noise.sigma
    return Scored((special.ndtr(upper) - special.ndtr(lower)).sum(1)[:, None], rigid & aligned)


def _rotation_scores(noise: Rotation, x: torch.Tensor, batch: torch.Tensor) -> Scored:
    """The angle's rank in the heat kernel's law, and the axis's height and longitude; (B, 3)."""
    rotations, rigid = _rotations(x, batch, noise.vectors)
    vectors, angles = rotations.as_rotvec(), rotations.magnitude()
    axes = vectors / np.maximum(angles, np.finfo(float).tiny)[:, None]
    height, longitude = (axes[:, 2] + 1) / 2, np.arctan2(axes[:, 1], axes[:, 0]) / (2 * math.pi) + 0.5
    return Scored(np.stack([heat_kernel_cdf(angles, noise.sigma), height, longitude], 1), rigid)


def _rotations(x: torch.Tensor, batch: torch.Tensor, vectors: int | None) -> tuple[Rotations, BoolArray]:
    """The rotation nearest to what each cloud underwent (Kabsch's algorithm), and whether it was just that (B,)."""
    before, after = x.double().cpu().numpy(), batch.double().cpu().numpy()
    columns = rotated_columns(before.shape, vectors)
    start = before[:, :columns].reshape(-1, 3)
    if np.linalg.matrix_rank(start) < 2:
        raise InputError("the cloud's points lie on a line, so that its rotation cannot be measured: give another")
    end = after[:, :, :columns].reshape(len(after), -1, 3)
    u, _, vt = np.linalg.svd(np.einsum("bpi,pj->bij", end, start))
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    nearest = u @ vt
    error = np.abs(end - start @ nearest.transpose(0, 2, 1)).max((1, 2)) / np.abs(start).max()
    rest = np.abs(after[:, :, columns:] - before[:, columns:]).max((1, 2), initial=0)
    return Rotations.from_matrix(nearest), (error < TOLERANCE) & (rest == 0)
