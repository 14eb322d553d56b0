"""Points and their neighbours: against slow loops in NumPy, on clouds with exact twins."""

import numpy as np
import pytest
import torch

from segcertify.models.networks.grouping import _choose, ball, farthest, gather, interpolate, nearest


def clouds(points, batch=3, distinct=None, seed=0):
    """Random clouds; with ``distinct``, drawn with replacement from that many points."""
    rng = np.random.default_rng(seed)
    xyz = rng.normal(size=(batch, distinct or points, 3)).astype(np.float32)
    if distinct:
        xyz = np.stack([cloud[rng.integers(distinct, size=points)] for cloud in xyz])
    return torch.from_numpy(xyz)


def squared(a, b):
    """All squared distances (len(a), len(b)), in the order of additions that the code has."""
    difference = (np.asarray(a)[:, None] - np.asarray(b)[None]) ** 2
    return difference[..., 0] + difference[..., 1] + difference[..., 2]


def slow_farthest(xyz, count, start):
    chosen = [start]
    while len(chosen) < count:
        chosen.append(int(squared(xyz, xyz[chosen]).min(1).argmax()))
    return chosen


def slow_ball(centre, xyz, radius, most):
    inside = [j for j, distance in enumerate(squared([centre], xyz)[0]) if distance <= radius**2][:most]
    return inside + inside[:1] * (most - len(inside))


@pytest.mark.parametrize("distinct", [None, 60, 11])
def test_farthest_points(distinct):
    xyz = clouds(100, distinct=distinct)
    start = torch.tensor([0, 99, 17])
    chosen, distances = farthest(xyz, 20, start)
    for cloud, indices, rows, first in zip(
        xyz.numpy(), chosen.tolist(), distances.numpy(), start.tolist(), strict=True
    ):
        assert indices == slow_farthest(cloud, 20, first)
        assert np.array_equal(rows, squared(cloud[indices], cloud))
        assert len(np.unique(cloud[indices], axis=0)) == min(20, len(np.unique(cloud, axis=0)))


def test_the_steps_of_a_gpu_are_the_same():
    """Those in torch, which CPUs do not take, on the CPU."""
    xyz, start = clouds(100, distinct=60), torch.tensor([0, 99, 17])
    expected, apart = farthest(xyz, 20, start)
    chosen, distances = torch.empty_like(expected), torch.empty_like(apart)
    _choose(torch, xyz.permute(2, 0, 1).contiguous(), torch.arange(3), start, chosen, distances)
    assert torch.equal(chosen, expected)
    assert torch.equal(distances, apart)


@pytest.mark.parametrize("points", [97, 128])
def test_entries_of_a_batch_do_not_influence_each_other(points):
    xyz, start = clouds(points, batch=4), torch.tensor([5, 4, 3, 2])
    chosen, distances = farthest(xyz, 30, start)
    index = ball(distances, 0.8, 7)
    values = interpolate(gather(xyz, chosen), gather(xyz, chosen), xyz, distances)
    for i in range(4):
        one = slice(i, i + 1)
        alone, apart = farthest(xyz[one], 30, start[one])
        assert torch.equal(alone, chosen[one])
        assert torch.equal(apart, distances[one])
        assert torch.equal(ball(apart, 0.8, 7), index[one])
        centres = gather(xyz[one], alone)
        assert torch.equal(interpolate(centres, centres, xyz[one], apart), values[one])


def test_the_cloud_may_need_gradients():
    xyz = clouds(50).requires_grad_()
    chosen, distances = farthest(xyz, 10, torch.zeros(3, dtype=torch.int64))
    assert not distances.requires_grad
    values = interpolate(torch.rand(3, 10, 4), gather(xyz, chosen), xyz, distances)
    values.sum().backward()
    assert torch.isfinite(xyz.grad).all()


@pytest.mark.parametrize("distinct", [None, 30])
@pytest.mark.parametrize(("radius", "most"), [(0.01, 4), (0.7, 8), (1.2, 100), (9.0, 100), (9.0, 5)])
def test_balls(radius, most, distinct):
    xyz = clouds(100, distinct=distinct, seed=1)
    chosen, distances = farthest(xyz, 12, torch.tensor([3, 4, 5]))
    index = ball(distances, radius, most)
    assert index.shape == (3, 12, most)
    for cloud, centres, neighbours in zip(xyz.numpy(), chosen.tolist(), index.tolist(), strict=True):
        assert neighbours == [slow_ball(cloud[centre], cloud, radius, most) for centre in centres]


def test_the_order_and_the_filling_of_a_ball():
    x = torch.tensor([0.0, 5.0, 0.5, 1.0, 1.1, -1.0])
    distances = (x[None, None] - x[[0, 1], None]).square()  # from the first and the second point
    assert ball(distances, 1.0, 3).tolist() == [[[0, 2, 3], [1, 1, 1]]]
    assert ball(distances, 1.0, 6).tolist() == [[[0, 2, 3, 5, 0, 0], [1, 1, 1, 1, 1, 1]]]


def test_balls_of_large_batches_are_found_in_portions(monkeypatch):
    xyz = clouds(50, batch=5)
    _, distances = farthest(xyz, 10, torch.zeros(5, dtype=torch.int64))
    expected, sizes, nonzero = ball(distances, 0.8, 7), [], torch.Tensor.nonzero
    monkeypatch.setattr("segcertify.models.networks.grouping.AT_ONCE", 2 * 10 * 50 + 1)
    monkeypatch.setattr(torch.Tensor, "nonzero", lambda mask: sizes.append(mask.numel()) or nonzero(mask))
    assert torch.equal(ball(distances, 0.8, 7), expected)
    assert sizes == [1000, 1000, 500]
    monkeypatch.setattr("segcertify.models.networks.grouping.AT_ONCE", 1)
    assert torch.equal(ball(distances, 0.8, 7), expected)


@pytest.mark.parametrize("distinct", [None, 30])
def test_interpolation(distinct):
    xyz = clouds(100, distinct=distinct, seed=2)
    chosen, distances = farthest(xyz, 15, torch.tensor([0, 1, 2]))
    centres, features = gather(xyz, chosen), torch.rand(3, 15, 4, generator=torch.Generator().manual_seed(0))
    values = interpolate(features, centres, xyz, distances)
    for b in range(3):
        apart = squared(xyz[b], centres[b]).astype(float)
        for i in range(100):
            near = np.argsort(apart[i], kind="stable")[:3]
            assert sorted(apart[i][near]) == sorted(apart[i][nearest(distances)[b, i]])
            weights = 1 / (apart[i][near] + 1e-8)
            expected = (features[b, near].numpy() * weights[:, None]).sum(0) / weights.sum()
            np.testing.assert_allclose(values[b, i], expected, rtol=1e-4)
    at_centres = gather(values, chosen)
    torch.testing.assert_close(at_centres, features, atol=1e-5, rtol=0)  # a centre keeps its own


def test_gathering():
    values = torch.arange(24).view(2, 4, 3)
    index = torch.tensor([[[0, 3], [1, 1]], [[2, 0], [3, 2]]])
    rows = gather(values, index)
    assert rows.shape == (2, 2, 2, 3)
    for place in np.ndindex(2, 2, 2):
        assert torch.equal(rows[place], values[place[0], index[place]])


@pytest.mark.cuda
def test_the_gpu_finds_the_same_neighbours():
    xyz, start = clouds(2048, distinct=1500), torch.tensor([5, 6, 7])
    (chosen, distances), (indices, apart) = farthest(xyz, 512, start), farthest(xyz.cuda(), 512, start.cuda())
    assert torch.equal(chosen, indices.cpu())
    assert torch.equal(distances, apart.cpu())
    assert torch.equal(ball(distances, 0.4, 128), ball(apart, 0.4, 128).cpu())
    centres = gather(xyz, chosen)
    theirs = interpolate(centres.cuda(), centres.cuda(), xyz.cuda(), apart)
    torch.testing.assert_close(interpolate(centres, centres, xyz, distances), theirs.cpu(), atol=1e-4, rtol=1e-4)
