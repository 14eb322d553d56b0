"""The attack by rotations: within the angle, and it finds a known flip."""

import math

import pytest
import torch

import segcertify as sc
from segcertify.attacks import rotate_clouds
from segcertify.attacks.rotations import Rotations
from segcertify.data.clouds.rotation import rotation_matrices
from segcertify.noise.rotation import rotation_matrix
from segcertify.sampling.segmenter import predict


def cloud(columns=3, points=30):
    return torch.randn(2, points, columns, generator=torch.Generator().manual_seed(0)).double()


def flips_at(angle):
    """Label 1 where a point's direction is more than ``angle`` from x: a point on that axis moves with any rotation."""

    def model(batch):
        along = batch[..., 0] / batch[..., :3].norm(dim=-1)
        return torch.stack([along - math.cos(angle), torch.zeros_like(along)], 1) * 20

    return model


def test_matrices_are_rodrigues():
    vectors = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).double()
    for vector, matrix in zip(vectors, rotation_matrices(vectors), strict=True):
        expected = torch.from_numpy(rotation_matrix(vector.numpy(), float(vector.norm())))
        torch.testing.assert_close(matrix, expected)
    assert torch.equal(rotation_matrices(torch.zeros(1, 3))[0], torch.eye(3))


@pytest.mark.parametrize("axis", [None, "z", (1.0, 1.0, 0.0)])
@pytest.mark.parametrize("columns", [3, 6])
def test_turns_are_rotations_within_the_radius(axis, columns):
    x, model = cloud(columns), flips_at(1.0)
    attack = rotate_clouds(model, x, predict(model, x), 0.3, axis=axis, restarts=3, steps=5)
    assert (attack.shift.norm(dim=1) <= 0.3 * (1 + 1e-12)).all()
    for before, after in zip(x, attack.x, strict=True):
        for part in range(0, columns, 3):  # normals rotate too, by the same rotation
            u, _, v = torch.linalg.svd(before[:, :3].T @ after[:, :3])
            rotation = v.T @ torch.diag(torch.tensor([1.0, 1.0, float(torch.det(v.T @ u.T))]).double()) @ u.T
            torch.testing.assert_close(before[:, part : part + 3] @ rotation.T, after[:, part : part + 3])
            assert math.acos(min(1.0, float(rotation.trace() - 1) / 2)) <= 0.3 + 1e-6


@pytest.mark.parametrize("axis", [None, (1.0, 2.0, 3.0)])
def test_angles_are_exact_for_clouds_in_single_precision(axis):
    x, model = cloud().float(), flips_at(1.0)
    for seed in range(5):
        attack = rotate_clouds(model, x, predict(model, x), 0.3, axis=axis, restarts=2, steps=4, seed=seed)
        assert attack.x.dtype == torch.float32
        vectors = Rotations(0.3, axis)._vectors(attack.shift)
        assert (vectors.norm(dim=1) <= 0.3 * (1 + 1e-15)).all()
        if axis is not None:  # about that axis, and not one that single precision made of it
            along = torch.tensor(axis).double() / math.sqrt(14)
            torch.testing.assert_close(vectors, (vectors @ along)[:, None] * along, atol=1e-15, rtol=0)


@pytest.mark.parametrize("axis", [None, "z"])
def test_a_known_flip_is_found(axis):
    """A point on the x axis changes its label when it rotates by 0.4, and not before."""
    x = torch.tensor([[[1.0, 0.0, 0.0]]]).double()
    model, labels = flips_at(0.4), torch.zeros(1, 1, dtype=torch.long)
    assert rotate_clouds(model, x, labels, 0.39, axis=axis, restarts=4).moved.tolist() == [0]
    assert rotate_clouds(model, x, labels, 0.41, axis=axis, restarts=4).moved.tolist() == [1]


def test_features_stay():
    x = cloud(8)
    model = flips_at(1.0)
    attack = rotate_clouds(model, x, predict(model, x), 0.3, vectors=2, restarts=1, steps=2)
    assert torch.equal(attack.x[..., 6:], x[..., 6:])
    assert not torch.equal(attack.x[..., 3:6], x[..., 3:6])


def test_bad_input():
    with pytest.raises(sc.InputError, match="no rotation is farther than pi, but the radius is 4"):
        Rotations(4.0)
    for axis in ("w", (0.0, 0.0, 0.0), (1.0, 2.0)):
        with pytest.raises(sc.InputError, match="axis must be"):
            Rotations(1.0, axis)
    with pytest.raises(sc.InputError, match="8 columns"):
        rotate_clouds(flips_at(1.0), cloud(8), torch.zeros(2, 30, dtype=torch.long), 0.3)
