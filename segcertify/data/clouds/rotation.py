"""Rotation matrices in torch."""

import torch


def rotation_matrices(vectors: torch.Tensor) -> torch.Tensor:
    """The rotation about each vector (B, 3) by its length in radians: (B, 3, 3), differentiable also at 0."""
    x, y, z = vectors.unbind(1)
    zero = torch.zeros_like(x)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], 1).view(-1, 3, 3)
    matrices: torch.Tensor = torch.linalg.matrix_exp(cross)
    return matrices
