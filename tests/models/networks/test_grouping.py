"""Points and their neighbours: against slow loops in NumPy, on clouds with exact twins and equal distances."""

import numpy as np
import pytest
import torch
from cloud_cases import Case, by_functions, cases, found, slow, squared

from segcertify.models.networks import grouping
from segcertify.models.networks.grouping import ball, farthest, gather, interpolate, nearest, neighbours

CASES = cases()
every = pytest.mark.parametrize("name", CASES)


def clouds(points, batch=3, distinct=None, seed=0):
    """Random clouds; with ``distinct``, drawn with replacement from that many points."""
    rng = np.random.default_rng(seed)
    xyz = rng.normal(size=(batch, distinct or points, 3)).astype(np.float32)
    if distinct:
        xyz = np.stack([cloud[rng.integers(distinct, size=points)] for cloud in xyz])
    return torch.from_numpy(xyz)


@every
def test_the_neighbours_of_slow_loops(name):
    """Those of any device without kernels, in torch, here on a CPU."""
    for ours, expected in zip(by_functions(grouping, CASES[name]), slow(CASES[name]), strict=True):
        np.testing.assert_array_equal(ours, expected)


@every
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_neighbours_on_a_cpu(monkeypatch, name, threads):
    case = CASES[name]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    near = neighbours(torch.from_numpy(case.xyz), case.count, torch.tensor(case.start), case.balls)
    for ours, expected in zip(found(near), slow(case), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_far_points_are_distinct_while_there_are_any():
    xyz = clouds(100, distinct=11)
    for cloud, indices in zip(xyz.numpy(), farthest(xyz, 20, torch.tensor([0, 99, 17])).tolist(), strict=True):
        assert len(np.unique(cloud[indices], axis=0)) == len(np.unique(cloud, axis=0)) <= 11


def test_double_precision():
    case = Case(clouds(100).double().numpy(), (1, 2, 3), 20, ((0.7, 8), (1.2, 40)))
    near = neighbours(torch.from_numpy(case.xyz), case.count, torch.tensor(case.start), case.balls)
    for one, other in zip(found(near), by_functions(grouping, case), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("points", [97, 128])
def test_entries_of_a_batch_do_not_influence_each_other(points):
    xyz, start, balls = clouds(points, batch=20), torch.arange(20) % 5, [(0.8, 7), (0.3, 4)]
    near = neighbours(xyz, 30, start, balls)
    values = interpolate(gather(xyz, near.chosen), gather(xyz, near.chosen), xyz, near.nearest)
    for i in range(20):
        one = slice(i, i + 1)
        alone = neighbours(xyz[one], 30, start[one], balls)
        for ours, theirs in zip(found(alone), found(near), strict=True):
            np.testing.assert_array_equal(ours, theirs[one])
        centres = gather(xyz[one], alone.chosen)
        assert torch.equal(interpolate(centres, centres, xyz[one], alone.nearest), values[one])


def test_the_cloud_may_need_gradients():
    xyz = clouds(50).requires_grad_()
    near = neighbours(xyz, 10, torch.zeros(3, dtype=torch.int64), [(1.0, 4)])
    values = interpolate(torch.rand(3, 10, 4), gather(xyz, near.chosen), xyz, near.nearest)
    values.sum().backward()
    assert torch.isfinite(xyz.grad).all()
    assert xyz.grad.abs().sum() > 0
    for ours, theirs in zip(found(near), by_functions(grouping, _case(xyz)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _case(xyz):
    return Case(xyz.detach().numpy(), (0, 0, 0), 10, ((1.0, 4),))


def test_the_order_and_the_filling_of_a_ball():
    xyz = torch.zeros(1, 6, 3)
    xyz[0, :, 0] = torch.tensor([0.0, 5.0, 0.5, 1.0, 1.1, -1.0])
    start = torch.tensor([0])
    for most, expected in ((3, [[0, 2, 3], [1, 1, 1]]), (6, [[0, 2, 3, 5, 0, 0], [1, 1, 1, 1, 1, 1]])):
        on_cpu = neighbours(xyz, 3, start, [(1.0, most)]).balls[0]
        for index, size in (on_cpu, ball(xyz, torch.tensor([[0, 1]]), 1.0, most)):
            assert index[0, :2].tolist() == expected
            assert size[0, :2].tolist() == [min(most, 4), 1]


def test_balls_of_large_batches_are_found_in_portions(monkeypatch):
    xyz = clouds(50, batch=5)
    chosen = farthest(xyz, 10, torch.zeros(5, dtype=torch.int64))
    expected, three, sizes, nonzero = ball(xyz, chosen, 0.8, 7), nearest(xyz, chosen), [], torch.Tensor.nonzero
    monkeypatch.setattr(grouping, "AT_ONCE", 2 * 10 * 50 + 1)
    monkeypatch.setattr(torch.Tensor, "nonzero", lambda mask: sizes.append(mask.numel()) or nonzero(mask))
    assert all(map(torch.equal, ball(xyz, chosen, 0.8, 7), expected))
    assert torch.equal(nearest(xyz, chosen), three)
    assert sizes == [1000, 1000, 500]
    monkeypatch.setattr(grouping, "AT_ONCE", 1)
    assert all(map(torch.equal, ball(xyz, chosen, 0.8, 7), expected))


@pytest.mark.parametrize("distinct", [None, 30])
def test_interpolation(distinct):
    xyz = clouds(100, distinct=distinct, seed=2)
    chosen = farthest(xyz, 15, torch.tensor([0, 1, 2]))
    centres, features = gather(xyz, chosen), torch.rand(3, 15, 4, generator=torch.Generator().manual_seed(0))
    values = interpolate(features, centres, xyz, nearest(xyz, chosen))
    for b in range(3):
        apart = squared(xyz[b], centres[b]).astype(float)
        for i in range(100):
            near = np.argsort(apart[i], kind="stable")[:3]
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
def test_the_gpu_interpolates_as_the_cpu():
    xyz = clouds(2048, distinct=1500)
    near = neighbours(xyz, 512, torch.tensor([5, 6, 7]), [])
    centres = gather(xyz, near.chosen)
    theirs = interpolate(centres.cuda(), centres.cuda(), xyz.cuda(), near.nearest.cuda())
    torch.testing.assert_close(interpolate(centres, centres, xyz, near.nearest), theirs.cpu(), atol=1e-4, rtol=1e-4)
