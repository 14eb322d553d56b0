"""The Triton kernels of `triton_grouping`, each trusted on a device only after it was right there.

A kernel is compiled for the device and the sizes at hand. Before it is first used so in a process, it is run on small
clouds with twins and equal distances, and compared with what a CPU finds: indices exactly, numbers closely. A kernel
that fails or differs is not used: plain torch takes its place, after one warning.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segcertify.models.networks import grouping_numpy

CENTRES, RADIUS = 24, 0.7


def kernel(name: str, xyz: Tensor, size: int = 0) -> Callable[..., Any] | None:
    """The kernel of that name for points (B, N, 3), if there is one that was right on their device.

    ``size`` is what it is compiled for beside the device: the points of ``farthest``, the ``most`` of ``ball``, the
    channels of ``offset_features``.
    """
    if not xyz.is_cuda or (kernels := _kernels()) is None or not kernels.fits(xyz):
        return None
    return getattr(kernels, name) if trusted(kernels, name, xyz.device, size) else None


@cache
def _kernels() -> Any:
    """The module, if Triton is there."""
    try:
        from segcertify.models.networks import triton_grouping
    except ImportError:
        return None
    return triton_grouping


@cache
def trusted(kernels: Any, name: str, device: torch.device, size: int) -> bool:
    """Whether a kernel is right; asked of the device once, and once for each size."""
    try:
        if right(kernels, name, device, size):
            return True
        reason = "it differs from plain code"
    except torch.OutOfMemoryError:
        raise  # says nothing about the kernel
    except Exception as error:  # whatever a compiler or a driver may raise
        reason = f"it failed with {type(error).__name__}: {str(error).strip()[:200]}"
    warnings.warn(
        f"the Triton kernel {name!r} is not used on {device} (size {size}), because {reason}. Plain torch takes its "
        "place: results are the same, only slower. Please report this with the versions of torch and triton.",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def right(kernels: Any, name: str, device: torch.device, size: int) -> bool:
    """Whether a kernel gives what plain code gives, on small clouds."""
    if name == "offset_features":
        return _offset_features_are_right(kernels.offset_features, device, size)
    points, most = (size, 1) if name == "farthest" else (300, max(size, 1))
    xyz, start = clouds(points), np.array([points - 1, points // 2])
    expected = grouping_numpy.neighbours(xyz, CENTRES, start, [(RADIUS, most)], threads=1)
    there, chosen = torch.from_numpy(xyz).to(device), torch.from_numpy(expected.chosen).to(device)
    if name == "farthest":
        given = [kernels.farthest(there, CENTRES, torch.from_numpy(start).to(device))]
        wanted = [expected.chosen]
    elif name == "ball":
        given, wanted = kernels.ball(there, chosen, RADIUS, most), list(expected.balls[0])
    else:
        given, wanted = [kernels.nearest(there, chosen)], [expected.nearest]
    return all(np.array_equal(one.cpu().numpy(), other) for one, other in zip(given, wanted, strict=True))


def clouds(points: int) -> Any:
    """Two clouds in single precision, with twins and equal distances: random points and mirrored ones, and a grid."""
    xyz = np.random.default_rng(0).normal(size=(2, points, 3)).astype(np.float32)
    third = points // 3
    xyz[0, third : 2 * third] = xyz[0, :third, [1, 0, 2]].T  # equally far from the origin
    xyz[0, 2 * third : 2 * third + third // 2] = xyz[0, : third // 2]
    xyz[1] = np.round(2 * xyz[1]) / 2
    xyz[:, [points - 1, points // 2]] = 0
    return xyz


def _offset_features_are_right(kernel: Callable[..., Tensor], device: torch.device, channels: int) -> bool:
    """The same for the first layer of balls, which rounds as it likes."""
    draw = torch.Generator().manual_seed(0)
    features, xyz = torch.rand(2, 50, channels, generator=draw), torch.from_numpy(clouds(50))
    centres, index = xyz[:, :9] + 0.5, torch.randint(50, (2, 9, 8), generator=draw)
    some, weight = torch.randperm(18, generator=draw)[:7], torch.rand(channels, 3, generator=draw) - 0.5
    given = kernel(*(each.to(device) for each in (features, xyz, centres, index, some)), 5, weight.to(device))
    rows, cloud = index.flatten(0, 1)[some, :5], (some // 9)[:, None]
    offsets = xyz[cloud, rows] - centres.flatten(0, 1)[some, None]
    wanted = (features[cloud, rows] + offsets @ weight.t()).relu().flatten(0, 1)
    return given.shape == wanted.shape and torch.allclose(given.cpu(), wanted, rtol=1e-4, atol=1e-5)
