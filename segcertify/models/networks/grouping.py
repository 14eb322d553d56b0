"""Points and their neighbours, as PointNet++ has them (Qi et al. 2017): far points, balls and interpolation.

Squared distances are sums of squared differences, never expanded: points drawn with replacement have exact twins, at a
distance of exactly zero. All is batched, and an entry's result does not depend on the others of its batch.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

NEAREST = 3
SMALLEST = 1e-8
AT_ONCE = 2**30
"""How many distances `ball` compares at once: CUDA counts its findings in 32 bits, and older torch refuses more."""


def gather(values: Tensor, index: Tensor) -> Tensor:
    """The rows of values (B, N, C) that an index (B, ...) names: (B, ..., C)."""
    rows = values.reshape(-1, values.shape[-1])
    return rows.index_select(0, flat(index, values.shape[1]).flatten()).view(*index.shape, -1)


def flat(index: Tensor, size: int) -> Tensor:
    """An index (B, ...) into entries of ``size`` rows each, as one into all rows of the batch."""
    first = torch.arange(len(index), device=index.device) * size
    return index + first.view(-1, *(1,) * (index.ndim - 1))


def farthest(xyz: Tensor, count: int, start: Tensor) -> tuple[Tensor, Tensor]:
    """Farthest-point sampling of points (B, N, 3): each next one is farthest from all that were chosen before.

    ``start`` (B,) is where each entry begins. Gives the chosen ones' indices
    (B, count), and the squared distances (B, count, N) from them to all points.
    """
    planes = xyz.detach().permute(2, 0, 1).contiguous()  # x, y and z apart: (3, B, N)
    size, points = planes.shape[1:]
    chosen = torch.empty(size, count, dtype=torch.int64, device=xyz.device)
    distances = planes.new_empty(size, count, points)
    if xyz.device.type == "cpu":  # small steps: NumPy's are several times as fast, and wait for no other thread
        _choose(np, planes.numpy(), np.arange(size), start.numpy(), chosen.numpy(), distances.numpy())
    else:
        _choose(torch, planes, torch.arange(size, device=xyz.device), start, chosen, distances)
    return chosen, distances


def _choose(library: Any, planes: Any, entries: Any, start: Any, chosen: Any, distances: Any) -> None:  # noqa: PLR0917
    """The steps of `farthest` on arrays of NumPy or of torch, which the result is written to."""
    differences, separation = library.empty_like(planes), library.full_like(planes[0], math.inf)
    for i in range(chosen.shape[1]):
        chosen[:, i] = start
        library.subtract(planes, planes[:, entries, start, None], out=differences)
        library.multiply(differences, differences, out=differences)
        squared = distances[:, i]
        library.add(differences[0], differences[1], out=squared)
        library.add(squared, differences[2], out=squared)
        library.minimum(separation, squared, out=separation)
        start = separation.argmax(1)


def ball(distances: Tensor, radius: float, most: int) -> Tensor:
    """The first ``most`` points within the radius of each centre, in their order: indices (B, S, most).

    ``distances`` (B, S, N) are squared. Where there are fewer points, the first is
    repeated; a centre is a point itself, so there is one.
    """
    size, centres, points = distances.shape
    once = max(1, AT_ONCE // (centres * points))
    if size > once:
        return torch.cat([ball(some, radius, most) for some in torch.split(distances, once)])
    inside = (distances <= radius**2).flatten().nonzero().squeeze(1)  # ascending, so each centre's in a row
    rows = torch.arange(size * centres + 1, device=distances.device) * points
    edges = torch.searchsorted(inside, rows).unsqueeze(1)
    first, found = edges[:-1], edges.diff(dim=0)
    position = torch.arange(most, device=distances.device)
    taken = inside[first + torch.where(position < found, position, 0)]
    return (taken - rows[:-1, None]).view(size, centres, most)


def nearest(distances: Tensor) -> Tensor:
    """The three centres nearest to each point: indices (B, N, 3), from squared distances (B, S, N)."""
    return distances.transpose(1, 2).topk(NEAREST, largest=False).indices


def interpolate(features: Tensor, centres: Tensor, xyz: Tensor, distances: Tensor) -> Tensor:
    """The centres' features (B, S, C) at points (B, N, 3): (B, N, C).

    The three nearest count, each by 1 / (squared distance + 1e-8), in proportion.
    ``distances`` (B, S, N) are the squared ones from centres (B, S, 3) to points.
    """
    index = nearest(distances)
    squared = (gather(centres, index) - xyz.unsqueeze(2)).square().sum(-1)
    weights = 1 / (squared + SMALLEST)
    weights = (weights / weights.sum(-1, keepdim=True)).to(features.dtype)
    rows = flat(index, features.shape[1]).flatten(0, 1)
    sums = embedding_bag(rows, features.flatten(0, 1), per_sample_weights=weights.flatten(0, 1), mode="sum")
    return sums.view(*index.shape[:2], -1)
