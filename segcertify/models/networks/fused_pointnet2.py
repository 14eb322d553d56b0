"""A PointNet++ for the CPU: the same function up to rounding, for evaluation.

Its batch norms are part of its matrices, and each matrix product adds and rectifies before it writes
(`segcertify.models.networks.fused_linear`). Neighbours pass through the layers some at a time, in memory that the
processor's cache holds and the C library gives out again. A first layer is linear in each of its inputs, so that each
is multiplied where it has the fewest rows: points before they are grouped, centres before their features are spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, one_hot
from torch.nn.utils import skip_init

from segcertify.errors import InputError
from segcertify.models.networks.fused_linear import applied
from segcertify.models.networks.grouping import Ball, flat, gather, neighbours
from segcertify.models.networks.pointnet2 import (
    FEATURES,
    Categories,
    Grouping,
    Layers,
    Level,
    PointNet2,
    Unit,
    by_size,
    checked,
    first_points,
    in_order,
    rows_at_once,
    units,
)


class FusedPointNet2(nn.Module):
    """A PointNet++ in evaluation and in single precision."""

    def __init__(self, net: PointNet2) -> None:
        super().__init__()
        if net.training or net.conv2.weight.dtype != torch.float32:
            raise InputError("only a PointNet2 in evaluation and in single precision can be fused: call model.eval()")
        self.normals, self.categories = net.normals, net.categories
        self.sa1, self.sa2 = FusedGrouping(net.sa1), FusedGrouping(net.sa2)
        self.sa3 = nn.ModuleList(_folded(net.sa3))
        self.fp3, self.fp2 = (
            JoinedLayers(_folded(each), own) for each, own in ((net.fp3, FEATURES[1]), (net.fp2, FEATURES[0]))
        )
        columns = net.categories + 3 + net.columns
        self.fp1 = JoinedLayers([*_folded(net.fp1), _linear(*Unit(net.conv1, net.bn1).weights())], columns)
        self.head = _linear(net.conv2.weight.flatten(1), net.conv2.bias)
        self.eval()

    def forward(self, points: Tensor, category: Categories = None, seeds: Sequence[int] | None = None) -> Tensor:
        """Log-probabilities (B, parts, N), as `PointNet2` gives them."""
        points, category = checked(points, category, normals=self.normals, categories=self.categories)
        starts, xyz = first_points(points, seeds), points[..., :3]
        fine = self.sa1(xyz, points, starts[0])
        coarse = self.sa2(fine.xyz, fine.features, starts[1])
        whole = _through(self.sa3, torch.cat([coarse.xyz, coarse.features], -1)).amax(1, keepdim=True)
        x = self.fp3(coarse.features, applied(self.fp3.other, whole))
        x = self.fp2(fine.features, coarse.spread(applied(self.fp2.other, x), fine.xyz))
        kind = one_hot(category, self.categories).to(points.dtype).unsqueeze(1).expand(-1, points.shape[1], -1)
        x = self.fp1(torch.cat([kind, xyz, points], -1), fine.spread(applied(self.fp1.other, x), xyz))
        return log_softmax(applied(self.head, x).float(), -1).transpose(1, 2)


class FusedGrouping(nn.Module):
    """A `Grouping` of a PointNet++."""

    def __init__(self, group: Grouping) -> None:
        super().__init__()
        self.count, self.balls = group.count, [(scale.radius, scale.most) for scale in group.scales]
        self.points, self.offsets, self.others = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for convs, norms in zip(group.conv_blocks, group.bn_blocks, strict=True):
            first, *others = (_linear(*unit.weights()) for unit in units(convs, norms))
            self.points.append(first)
            self.offsets.append(_linear(first.weight[:, -3:], None))
            self.others.append(nn.ModuleList(others))

    def forward(self, xyz: Tensor, features: Tensor, start: Tensor) -> Level:
        """The centres among points (B, N, 3) with features (B, N, C), sampled from ``start`` (B,) on."""
        near = neighbours(xyz, self.count, start, self.balls)
        centres, inputs = gather(xyz, near.chosen), torch.cat([features, xyz], -1)
        layers: Any = zip(near.balls, self.points, self.offsets, self.others, strict=True)
        found = [
            largest(applied(each, inputs), applied(offset, centres), ball, others)
            for ball, each, offset, others in layers
        ]
        return Level(centres, torch.cat(found, -1), near.nearest)


class JoinedLayers(nn.Module):
    """Layers for points with features of their own and others, which the first layer multiplies apart.

    ``other`` is for whoever calls: features are multiplied before they are spread over more points.
    """

    def __init__(self, layers: Sequence[nn.Linear], own: int) -> None:
        super().__init__()
        first, *others = layers
        self.own, self.other = _linear(first.weight[:, :own], first.bias), _linear(first.weight[:, own:], None)
        self.others = nn.ModuleList(others)

    def forward(self, own: Tensor, other: Tensor) -> Tensor:
        """The features of points (B, N, C), from their own and what ``other`` made of the rest."""
        return _through(self.others, applied(self.own, own).add_(other).relu_())


def largest(points: Tensor, centres: Tensor, ball: Ball, layers: Iterable[Any]) -> Tensor:
    """The largest features (B, S, C) among each centre's neighbours, after the layers.

    The first layer's outputs are differences of what points (B, N, C) and centres (B, S, C) give to them. Copies of a
    ball's first neighbour are left out where possible.
    """
    rows = flat(ball.points, points.shape[1]).flatten(0, 1)
    portions, found = by_size(ball.sizes.flatten(), rows_at_once(points)), []
    points, theirs = points.flatten(0, 1), centres.flatten(0, 1)
    for some, room in portions:
        x = points.index_select(0, rows.index_select(0, some)[:, :room].flatten())
        x.view(len(some), room, -1).sub_(theirs.index_select(0, some).unsqueeze(1)).relu_()
        found.append(_through(layers, x).view(len(some), room, -1).amax(1))
    return in_order(found, portions).view(*centres.shape[:2], -1)


def _through(layers: Iterable[Any], x: Tensor) -> Tensor:
    """Features after some layers, each with a ReLU."""
    for layer in layers:
        x = applied(layer, x, "relu")
    return x


def _folded(layers: Layers) -> list[nn.Linear]:
    """The layers as matrices, in which the batch norms are."""
    return [_linear(*unit.weights()) for unit in units(layers.mlp_convs, layers.mlp_bns)]


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A layer with these weights."""
    layer: nn.Linear = skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None)  # type: ignore[no-untyped-call]  # no random numbers
    layer.weight = nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return layer
