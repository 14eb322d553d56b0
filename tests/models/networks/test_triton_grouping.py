"""The kernels against slow loops in NumPy: in Triton's interpreter, and on a GPU where there is one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import cloud_cases
import numpy as np
import pytest
import torch
from cloud_cases import by_functions, cases, first_layers, found, slow
from parts_networks import lively

import segcertify as sc
from segcertify.models import PointNet2
from segcertify.models.networks import grouping
from segcertify.models.networks.pointnet2 import _offset_features
from segcertify.models.networks.trusted_kernels import kernel

CASES = cases()
PATH = os.pathsep.join([str(Path(sc.__file__).parents[1]), *sys.path])
every = pytest.mark.parametrize("name", CASES)
with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton (Linux) runs these"
)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the kernels find in the interpreter, in a process of its own: Triton reads the variable when imported."""
    file = tmp_path_factory.mktemp("kernels") / "found.npz"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": PATH, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, cloud_cases.__file__, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


@with_triton
@every
def test_the_kernels_find_the_neighbours_of_slow_loops(interpreted, name):
    for i, expected in enumerate(slow(CASES[name])):
        np.testing.assert_array_equal(interpreted[f"{name}:{i}"], expected)


@with_triton
def test_the_kernels_are_trusted(interpreted):
    assert interpreted["trusted"].all()


@with_triton
def test_the_first_layer(interpreted):
    for i, arguments in enumerate(first_layers()):
        expected = _offset_features(*arguments).relu().numpy()
        np.testing.assert_allclose(interpreted[f"first layer:{i}"], expected, rtol=1e-5, atol=1e-6)


@with_triton
def test_the_kernels_compile_for_gpus_and_round_every_step(tmp_path):
    """For one of compute capability 9.0, which need not be there: indices need sums without fused multiply-adds."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": PATH, "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, cloud_cases.__file__, "--compile"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fused = dict(line.split() for line in done.stdout.splitlines())
    assert fused == {"_farthest": "0", "_ball": "0", "_nearest": "0", "_offset_features": fused["_offset_features"]}
    assert int(fused["_offset_features"]) > 0, "else this test could not see a fused multiply-add"


@pytest.mark.cuda
@every
def test_a_gpu_finds_the_neighbours_of_slow_loops(name):
    case = CASES[name]
    xyz = torch.from_numpy(case.xyz).cuda()
    assert kernel("farthest", xyz, xyz.shape[1]) is not None
    assert all(kernel("ball", xyz, most) is not None for _, most in case.balls)
    assert kernel("nearest", xyz) is not None
    for ours, expected in zip(by_functions(grouping, case, "cuda"), slow(case), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.cuda
@pytest.mark.parametrize("points", [512, 2048, 5000, 2**14, 2**14 + 1])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(points, distinct):
    xyz = torch.randn(3, points, 3, generator=torch.Generator().manual_seed(points))
    if not distinct:
        xyz[:, points // 3 :] = xyz[:, : points - points // 3].clone()
    arguments = 512, torch.tensor([0, 5, points - 1]), [(0.1, 32), (0.2, 64), (0.4, 128), (3.0, 130)]
    here = found(grouping.neighbours(xyz, *arguments))
    there = found(grouping.neighbours(xyz.cuda(), arguments[0], arguments[1].cuda(), arguments[2]))
    for ours, theirs in zip(there, here, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.cuda
def test_a_gpus_clouds_do_not_influence_each_other():
    xyz, start = torch.randn(6, 2048, 3).cuda(), torch.arange(6).cuda()
    together = found(grouping.neighbours(xyz, 512, start, [(0.2, 64)]))
    xyz[1:] = torch.randn(5, 2048, 3).cuda() * 100
    other = found(grouping.neighbours(xyz, 512, start, [(0.2, 64)]))
    alone = found(grouping.neighbours(xyz[:1], 512, start[:1], [(0.2, 64)]))
    for a, b, c in zip(together, other, alone, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[0], c[0])


@pytest.mark.cuda
def test_the_first_layer_on_a_gpu():
    from segcertify.models.networks.triton_grouping import offset_features

    for arguments in first_layers():
        there = [each.cuda() if isinstance(each, torch.Tensor) else each for each in arguments]
        torch.testing.assert_close(offset_features(*there).cpu(), _offset_features(*arguments).relu())


@pytest.mark.cuda
def test_kernels_and_the_way_of_gradients_give_the_same_scores():
    model, points = lively(PointNet2()).cuda(), torch.randn(3, 2048, 6).cuda()
    arguments = [1, 2, 3], [4, 5, 6]
    with torch.no_grad():
        scores = model(points, *arguments)
    differentiable = model(points.requires_grad_(), *arguments)
    torch.testing.assert_close(scores, differentiable.detach(), atol=1e-3, rtol=1e-3)
    differentiable[:, 0].sum().backward()
    assert torch.isfinite(points.grad).all()
    assert points.grad.abs().sum() > 0
