"""Points and their neighbours, as PointNet++ has them (Qi et al. 2017): far points, balls and interpolation.

Squared distances are sums of squared differences, never expanded: points drawn with replacement have exact twins, at a
distance of exactly zero. They are (dx^2 + dy^2) + dz^2 in the points' precision, each step rounded by itself, and of
equal distances the lower index counts. So all devices find the same neighbours: CPUs in NumPy (`grouping_numpy`), CUDA
by Triton's kernels (`triton_grouping`), every other device by the functions here. All is batched, and an entry's result
does not depend on the others of its batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from segcertify.models.networks import grouping_numpy
from segcertify.models.networks.trusted_kernels import kernel

NEAREST = 3
SMALLEST = 1e-8
AT_ONCE = 2**26
"""How many distances are in memory at once: CUDA counts its findings in 32 bits, and older torch refuses more."""


class Ball(NamedTuple):
    """The first points within a radius of each centre: indices (B, S, most), and how many are no copies (B, S)."""

    points: Tensor
    sizes: Tensor


class Neighbours(NamedTuple):
    """The indices of centres (B, S) among points, the centres' balls, and the three centres nearest to each point."""

    chosen: Tensor
    balls: list[Ball]
    nearest: Tensor


def neighbours(xyz: Tensor, count: int, start: Tensor, balls: Sequence[tuple[float, int]]) -> Neighbours:
    """All about the neighbours of points (B, N, 3); each of ``balls`` is a radius and the most points within.

    The indices depend on the points, but are not differentiated.
    """
    xyz = xyz.detach()
    if xyz.device.type == "cpu":
        return _on_cpu(xyz, count, start, balls)
    with torch.cuda.device_of(xyz):  # type: ignore[no-untyped-call]
        chosen = farthest(xyz, count, start)
        return Neighbours(chosen, [ball(xyz, chosen, *each) for each in balls], nearest(xyz, chosen))


def _on_cpu(xyz: Tensor, count: int, start: Tensor, balls: Sequence[tuple[float, int]]) -> Neighbours:
    """`neighbours`, in NumPy."""
    arrays = xyz.numpy(), count, start.numpy(), balls
    found = grouping_numpy.neighbours(*arrays, threads=torch.get_num_threads())
    filled = [Ball(torch.from_numpy(points), torch.from_numpy(sizes)) for points, sizes in found.balls]
    return Neighbours(torch.from_numpy(found.chosen), filled, torch.from_numpy(found.nearest))


def gather(values: Tensor, index: Tensor) -> Tensor:
    """The rows of values (B, N, C) that an index (B, ...) names: (B, ..., C)."""
    rows = values.reshape(-1, values.shape[-1])
    return rows.index_select(0, flat(index, values.shape[1]).flatten()).view(*index.shape, -1)


def flat(index: Tensor, size: int) -> Tensor:
    """An index (B, ...) into entries of ``size`` rows each, as one into all rows of the batch."""
    first = torch.arange(len(index), device=index.device) * size
    return index + first.view(-1, *(1,) * (index.ndim - 1))


def farthest(xyz: Tensor, count: int, start: Tensor) -> Tensor:
    """Farthest-point sampling of points (B, N, 3): each next one is farthest from all that were chosen before.

    ``start`` (B,) is where each entry begins. Gives the chosen ones' indices (B, count); of equally far points the
    first is chosen.
    """
    if (by_kernel := kernel("farthest", xyz, xyz.shape[1])) is not None:
        return by_kernel(xyz, count, start)  # type: ignore[no-any-return]
    planes = xyz.detach().permute(2, 0, 1).contiguous()  # x, y and z apart: (3, B, N)
    chosen = torch.empty(planes.shape[1], count, dtype=torch.int64, device=xyz.device)
    entries, separation = torch.arange(len(chosen), device=xyz.device), torch.full_like(planes[0], torch.inf)
    for i in range(count):
        chosen[:, i] = start
        torch.minimum(separation, _sum_of_squares(planes - planes[:, entries, start, None]), out=separation)
        start = separation.argmax(1)
    return chosen


def _sum_of_squares(differences: Tensor) -> Tensor:
    """Squared distances (...) from differences (3, ...)."""
    x, y, z = (differences * differences).unbind()
    return x + y + z


def apart(xyz: Tensor, chosen: Tensor) -> Tensor:
    """The squared distances (B, S, N) of chosen points (B, S) to all points (B, N, 3)."""
    planes = xyz.detach().permute(2, 0, 1)
    centres = gather(xyz.detach(), chosen).permute(2, 0, 1)
    return _sum_of_squares(planes.unsqueeze(2) - centres.unsqueeze(3))


def in_portions(xyz: Tensor, chosen: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Some clouds and their centres at a time, so that all distances between them are not too many."""
    once = max(1, AT_ONCE // (xyz.shape[1] * chosen.shape[1]))
    return list(zip(torch.split(xyz, once), torch.split(chosen, once), strict=True))


def ball(xyz: Tensor, chosen: Tensor, radius: float, most: int) -> Ball:
    """The first ``most`` points within the radius of each chosen point (B, S), in their order.

    Where there are fewer points, the first is repeated; a centre is a point itself, so there is one.
    """
    if (by_kernel := kernel("ball", xyz, most)) is not None:
        return Ball(*by_kernel(xyz, chosen, radius, most))
    filled = [_filled(apart(*some) <= radius**2, most) for some in in_portions(xyz, chosen)]
    return Ball(*(torch.cat(each) for each in zip(*filled, strict=True)))


def _filled(inside: Tensor, most: int) -> Ball:
    """The balls that hold these points (B, S, N)."""
    size, centres, points = inside.shape
    found = inside.flatten().nonzero().squeeze(1)  # ascending, so each centre's in a row
    rows = torch.arange(size * centres + 1, device=inside.device) * points
    edges = torch.searchsorted(found, rows).unsqueeze(1)
    first, counts = edges[:-1], edges.diff(dim=0)
    position = torch.arange(most, device=inside.device)
    taken = found[first + torch.where(position < counts, position, 0)]
    return Ball((taken - rows[:-1, None]).view(size, centres, most), counts.clamp(max=most).view(size, centres))


def nearest(xyz: Tensor, chosen: Tensor) -> Tensor:
    """The three of the chosen points (B, S) nearest to each point (B, N, 3): their places in ``chosen``, (B, N, 3)."""
    if (by_kernel := kernel("nearest", xyz)) is not None:
        return by_kernel(xyz, chosen)  # type: ignore[no-any-return]
    return torch.cat([_three_least(apart(*some)) for some in in_portions(xyz, chosen)])


def _three_least(distances: Tensor) -> Tensor:
    """Where the three least of distances (B, S, N) are, of equals the first: (B, N, 3). Overwrites the distances."""
    found = []
    for _ in range(NEAREST):
        found.append(distances.argmin(1))
        distances.scatter_(1, found[-1].unsqueeze(1), torch.inf)
    return torch.stack(found, -1)


def interpolate(features: Tensor, centres: Tensor, xyz: Tensor, index: Tensor) -> Tensor:
    """The centres' features (B, S, C) at points (B, N, 3): (B, N, C).

    Of the centres (B, S, 3), the three that ``index`` (B, N, 3) names count, each by 1 / (squared distance + 1e-8), in
    proportion.
    """
    squared = (gather(centres, index) - xyz.unsqueeze(2)).square().sum(-1)
    weights = 1 / (squared + SMALLEST)
    weights = (weights / weights.sum(-1, keepdim=True)).to(features.dtype)
    rows = flat(index, features.shape[1]).flatten(0, 1)
    sums = embedding_bag(rows, features.flatten(0, 1), per_sample_weights=weights.flatten(0, 1), mode="sum")
    return sums.view(*index.shape[:2], -1)
