"""Rotation matrices in torch: against SciPy, and their derivative at 0."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from segcertify.data.clouds.rotation import rotation_matrices


@pytest.mark.parametrize(("kind", "error"), [(torch.float64, 1e-13), (torch.float32, 3e-6)])
def test_matrices_are_scipys(kind, error):
    vectors = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    vectors[0] = 0
    vectors[1] *= np.pi / vectors[1].norm()
    found = rotation_matrices(vectors.to(kind))
    assert found.dtype == kind
    np.testing.assert_allclose(found, Rotation.from_rotvec(vectors.numpy()).as_matrix(), atol=error)


@pytest.mark.parametrize("length", [0.0, 1e-9, 1.0, 3.1])
def test_the_derivative_exists_everywhere(length):
    vectors = torch.nn.functional.normalize(torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)) * length
    assert torch.autograd.gradcheck(rotation_matrices, vectors.requires_grad_())
