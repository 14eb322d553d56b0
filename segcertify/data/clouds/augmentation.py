"""Augmentation of clouds on their device: scale, rotation about a random axis, mirror; one draw for each cloud."""

from __future__ import annotations

import math

import torch

from segcertify.training.pool import CloudPool
from segcertify.training.recipe import Recipe

SIDE = 2
"""Shapes face along x and stand along y: a mirror image has the other z."""


def turn(pool: CloudPool, indices: torch.Tensor, recipe: Recipe) -> tuple[torch.Tensor, torch.Tensor]:
    """Clouds (B, points, columns) and targets (B, points) for one training step; normals turn along."""
    clouds, count = pool.clouds[indices], len(indices)
    device = clouds.device
    turns = _rotations(torch.randn(count, 3, device=device), _angles(count, recipe.rotate, device))
    mirror = torch.where(torch.rand(count, device=device) < 0.5 * recipe.flip, -1.0, 1.0)
    turns[:, SIDE] *= mirror[:, None]
    triples = clouds[:, :, : 3 * pool.vectors].reshape(count, -1, 3) @ turns.transpose(1, 2)
    clouds[:, :, : 3 * pool.vectors] = triples.reshape(count, -1, 3 * pool.vectors)
    low, high = math.log(recipe.scale[0]), math.log(recipe.scale[1])
    clouds[:, :, :3] *= torch.exp(low + (high - low) * torch.rand(count, 1, 1, device=device))
    return clouds, pool.targets[indices].long()


def _angles(count: int, degrees: float, device: torch.device) -> torch.Tensor:
    return math.radians(degrees) * (2 * torch.rand(count, device=device) - 1)


def _rotations(axes: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """The rotations by angles (B,) about axes (B, 3), as matrices (Rodrigues' formula)."""
    x, y, z = (axes / torch.linalg.vector_norm(axes, dim=1, keepdim=True)).unbind(1)
    zero = torch.zeros_like(x)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], 1).view(-1, 3, 3)
    sine, cosine = torch.sin(angles).view(-1, 1, 1), torch.cos(angles).view(-1, 1, 1)
    return torch.eye(3, device=axes.device) + sine * cross + (1 - cosine) * cross @ cross
