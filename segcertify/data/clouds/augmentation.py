"""Augmentation of clouds on their device: scale, rotation about a random axis, mirror, shift; one draw a cloud."""

import math

import torch

from segcertify.data.augmentation import Augmentation
from segcertify.data.clouds.rotation import rotation_matrices

SIDE = 2
"""Shapes face along x and stand along y: a mirror image has the other z."""


def augment_clouds(clouds: torch.Tensor, augmentation: Augmentation, *, vectors: int) -> torch.Tensor:
    """Augmented copies of clouds (B, points, columns).

    The leading ``vectors`` triples of columns rotate (coordinates, then normals); coordinates alone are scaled
    and then shifted.
    """
    count, device, rotated = len(clouds), clouds.device, 3 * vectors
    axes = torch.randn(count, 3, device=device)
    angles = math.radians(augmentation.rotate) * (2 * torch.rand(count, 1, device=device) - 1)
    matrices = rotation_matrices(angles * axes / torch.linalg.vector_norm(axes, dim=1, keepdim=True))
    mirror = torch.where(torch.rand(count, device=device) < 0.5 * augmentation.flip, -1.0, 1.0)
    matrices[:, SIDE] *= mirror[:, None]
    triples = clouds[:, :, :rotated].reshape(count, -1, 3) @ matrices.transpose(1, 2)
    low, high = (math.log(scale) for scale in augmentation.rescale)
    moved = torch.cat([triples.reshape(count, -1, rotated), clouds[:, :, rotated:]], 2)
    moved[:, :, :3] *= torch.exp(low + (high - low) * torch.rand(count, 1, 1, device=device))
    if augmentation.shift:
        moved[:, :, :3] += augmentation.shift * (2 * torch.rand(count, 1, 3, device=device) - 1)
    return moved
