"""PointNet++ with multi-scale grouping for part segmentation (Qi et al. 2017), the paper's network for point clouds.

Names and shapes of the state dict equal those of the public checkpoints (``pointnet2_part_seg_msg`` of
Pointnet_Pointnet2_pytorch). Input: clouds that are centred at their mean and scaled to unit radius. Farthest-point
sampling begins at a random point, so the network is itself random: it takes a seed per cloud.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, log_softmax, one_hot

from segcertify.errors import InputError, require_integer
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.models.formats.weights import FilePath, load_state, no_such_network, with_weights
from segcertify.models.networks.grouping import Ball, flat, gather, interpolate, neighbours
from segcertify.models.networks.trusted_kernels import kernel

Categories = Tensor | Sequence[int] | None
CPU_ROWS, ROWS = 2**12, 2**20
"""How many neighbours pass through a layer at once: a thread of a CPU keeps so few in its cache; many on a GPU."""


class Scale(NamedTuple):
    """A ball's radius, how many neighbours it may have, and the layers that these pass."""

    radius: float
    most: int
    widths: tuple[int, ...]


CENTRES = 512, 128
SCALES = (
    (Scale(0.1, 32, (32, 32, 64)), Scale(0.2, 64, (64, 64, 128)), Scale(0.4, 128, (64, 96, 128))),
    (Scale(0.4, 64, (128, 128, 256)), Scale(0.8, 128, (128, 196, 256))),
)
FEATURES = 320, 512
"""The number of features of a centre after the first and the second grouping, all its balls together."""


class PointNet2(nn.Module):
    """PointNet++: features of 512 and then 128 balls at several scales, of the whole cloud, and back to the points.

    ``normals`` is whether a point has 6 columns, its position and its normal, or its 3 coordinates alone;
    ``parts`` is the number of parts of all ``categories`` of shapes together.

    >>> PointNet2(normals=False).eval()(torch.rand(1, 512, 3), [4]).shape
    torch.Size([1, 50, 512])
    """

    graphable = False  # shapes depend on the number of neighbours, which no CUDA graph can replay

    def __init__(
        self, normals: bool = True, *, categories: int = len(CATEGORIES), parts: int = len(PART_NAMES)
    ) -> None:
        super().__init__()
        if not isinstance(normals, bool):
            raise InputError(f"normals must be true or false, but got {normals!r}")
        self.normals = normals
        self.categories, self.parts = require_integer("categories", categories), require_integer("parts", parts)
        self.columns = 6 if normals else 3
        self.sa1 = Grouping(self.columns, CENTRES[0], SCALES[0])
        self.sa2 = Grouping(FEATURES[0], CENTRES[1], SCALES[1])
        self.sa3 = Layers(nn.Conv2d, 3 + FEATURES[1], (256, 512, 1024))
        self.fp3 = Layers(nn.Conv1d, FEATURES[1] + 1024, (256, 256))
        self.fp2 = Layers(nn.Conv1d, FEATURES[0] + 256, (256, 128))
        self.fp1 = Layers(nn.Conv1d, self.categories + 3 + self.columns + 128, (128, 128))
        self.conv1, self.bn1 = nn.Conv1d(128, 128, 1), nn.BatchNorm1d(128)
        self.conv2 = nn.Conv1d(128, self.parts, 1)

    def forward(self, points: Tensor, category: Categories = None, seeds: Sequence[int] | None = None) -> Tensor:
        """Log-probabilities (B, parts, N) of clouds (B, N, 3 or 6), each of the category of that number (B,).

        Without ``category``, one more column, the last, holds the category's number, as in training batches.
        Without ``seeds``, one per cloud, sampling begins anywhere, by torch's default generator.
        """
        points, category = checked(points, category, normals=self.normals, categories=self.categories)
        starts = first_points(points, seeds)
        xyz = points[..., :3].to(torch.promote_types(points.dtype, torch.float32))
        fine = self.sa1(xyz, points, starts[0])
        coarse = self.sa2(fine.xyz, fine.features, starts[1])
        whole = self.sa3(torch.cat([coarse.xyz.to(coarse.features.dtype), coarse.features], -1)).amax(1, keepdim=True)
        x = self.fp3(torch.cat([coarse.features, whole.expand(-1, CENTRES[1], -1)], -1))
        x = self.fp2(torch.cat([fine.features, coarse.spread(x, fine.xyz)], -1))
        kind = one_hot(category, self.categories).to(points.dtype).unsqueeze(1).expand(-1, points.shape[1], -1)
        x = self.fp1(torch.cat([kind, points[..., :3], points, fine.spread(x, xyz)], -1))
        x = dropout(Unit(self.conv1, self.bn1)(x), 0.5, self.training)
        x = linear(x, self.conv2.weight.flatten(1), self.conv2.bias)
        return log_softmax(x.float() if x.dtype.itemsize < 4 else x, -1).transpose(1, 2)


def checked(points: Tensor, category: Categories, *, normals: bool, categories: int) -> tuple[Tensor, Tensor]:
    """Clouds that such a network takes, and their categories, apart."""
    columns = (6 if normals else 3) + (category is None)
    if points.ndim != 3 or points.shape[2] != columns:
        names = "x, y, z" + (" and the normal" if normals else "") + (", category" if category is None else "")
        got = f"{tuple(points.shape)}: give these columns, or load weights for others"
        raise InputError(
            f"PointNet2 of normals={normals} takes clouds (B, points, {columns}) of {names}, but got shape {got}"
        )
    if points.shape[1] < CENTRES[0]:
        cure = "draw more from the shape, with replacement if need be"
        raise InputError(f"PointNet2 takes at least {CENTRES[0]} points, but got {points.shape[1]}: {cure}")
    if not torch.isfinite(points).all():  # else a centre may have no neighbours, which ends a CUDA process
        raise InputError("PointNet2 takes finite numbers, but a cloud has NaN or infinity: clean it first")
    if category is None:
        points, category = points[..., :-1], points[:, 0, -1]
    category = torch.as_tensor(category, device=points.device).to(torch.int64)
    if category.shape != points.shape[:1] or not 0 <= int(category.min()) <= int(category.max()) < categories:
        wanted = f"one integer from 0 to {categories - 1} per cloud, here {len(points)}"
        raise InputError(f"category must be {wanted}, but got {category.tolist()}")
    return points, category


class Level(NamedTuple):
    """Centres (B, S, 3) with features (B, S, C), and the three nearest (B, N, 3) to each point they stand for."""

    xyz: Tensor
    features: Tensor
    nearest: Tensor

    def spread(self, features: Tensor, xyz: Tensor) -> Tensor:
        """Features of the centres, interpolated at the points (B, N, 3) they stand for."""
        return interpolate(features, self.xyz, xyz, self.nearest)


class Grouping(nn.Module):
    """Centres far from one another, each with the largest features of its neighbours, in balls of several sizes.

    A neighbour enters with [its features, its offset from the centre].
    """

    def __init__(self, inputs: int, count: int, scales: Sequence[Scale]) -> None:
        super().__init__()
        self.count, self.scales = count, scales
        layers = [Layers(nn.Conv2d, inputs + 3, scale.widths) for scale in scales]
        self.conv_blocks = nn.ModuleList(each.mlp_convs for each in layers)
        self.bn_blocks = nn.ModuleList(each.mlp_bns for each in layers)

    def forward(self, xyz: Tensor, features: Tensor, start: Tensor) -> Level:
        """The centres among points (B, N, 3) with features (B, N, C), sampled from ``start`` (B,) on."""
        near = neighbours(xyz, self.count, start, [(scale.radius, scale.most) for scale in self.scales])
        centres = gather(xyz, near.chosen)
        layers = zip(near.balls, self.conv_blocks, self.bn_blocks, strict=True)
        found = [largest(xyz, features, centres, ball, units(convs, norms)) for ball, convs, norms in layers]
        return Level(centres, torch.cat(found, -1), near.nearest)


def largest(xyz: Tensor, features: Tensor, centres: Tensor, ball: Ball, layers: Sequence[Unit]) -> Tensor:
    """The largest features (B, S, C) among each centre's neighbours, after the layers.

    The first layer is linear in the features, so that part of it is computed once per point, not per neighbour. In
    evaluation, copies of a ball's first neighbour are left out where possible.
    """
    (weight, bias), *others = [layer.weights() for layer in layers]
    points, offset = linear(features, weight[:, :-3], bias), weight[:, -3:]
    sizes, training = ball.sizes.flatten(), layers[0].norm.training
    plain = not (training or torch.is_grad_enabled()) and points.dtype == xyz.dtype == torch.float32
    fused = kernel("offset_features", xyz, len(weight)) if plain else None
    whole = [(torch.arange(len(sizes), device=sizes.device), ball.points.shape[2])]
    portions = whole if training else by_size(sizes, rows_at_once(xyz))  # a batch norm in training wants all at once
    found = []
    for some, room in portions:
        if fused is not None:
            x = fused(points, xyz, centres, ball.points, some, room, offset)
        else:
            x = layers[0].normalised(_offset_features(points, xyz, centres, ball.points, some, room, offset)).relu_()
        for layer, weights in zip(layers[1:], others, strict=True):
            x = layer.normalised(linear(x, *weights)).relu_()
        found.append(x.view(len(some), room, -1).amax(1))
    return in_order(found, portions).view(*centres.shape[:2], -1)


def _offset_features(  # noqa: PLR0917
    points: Tensor, xyz: Tensor, centres: Tensor, index: Tensor, some: Tensor, room: int, weight: Tensor
) -> Tensor:
    """The features of some balls' first neighbours, plus the weight (C, 3) times their offsets: (balls room, C)."""
    rows = flat(index, xyz.shape[1]).flatten(0, 1).index_select(0, some)[:, :room].flatten()
    theirs = centres.flatten(0, 1).index_select(0, some).unsqueeze(1)
    offsets = xyz.flatten(0, 1).index_select(0, rows).view(-1, room, 3) - theirs
    x = points.flatten(0, 1).index_select(0, rows)
    return torch.addmm(x, offsets.view(-1, 3).to(x.dtype), weight.t())


def rows_at_once(xyz: Tensor) -> int:
    """How many neighbours pass through a layer at once."""
    return ROWS if xyz.is_cuda else CPU_ROWS * torch.get_num_threads()


def by_size(sizes: Tensor, once: int) -> list[tuple[Tensor, int]]:
    """Portions of balls of these sizes, small ones first, each with its largest ball's size.

    With that many places for every ball, a portion has at most ``once`` places, or is one ball. Noise drives points
    apart, so that most entries of a small ball are copies of its first point.
    """
    ordered, order = sizes.sort(stable=True)
    places, counts, largest = ordered.tolist(), [], []
    first = 0
    while first < len(places):
        more = range(1, min(once, len(places) - first) + 1)
        count = max(1, bisect_right(more, once, key=lambda some: some * places[first + some - 1]))
        first += count
        counts.append(count)
        largest.append(places[first - 1])
    return list(zip(torch.split(order, counts), largest, strict=True))


def in_order(found: Sequence[Tensor], portions: Sequence[tuple[Tensor, int]]) -> Tensor:
    """What was found for portions of balls, (balls, C), in the order of the balls."""
    return torch.cat(list(found)).index_select(0, torch.cat([some for some, _ in portions]).argsort())


class Unit(NamedTuple):
    """A 1x1 convolution and the batch norm after it, for features (..., C) in whatever order of points."""

    conv: nn.Conv1d | nn.Conv2d
    norm: nn.BatchNorm1d | nn.BatchNorm2d

    def weights(self) -> tuple[Tensor, Tensor]:
        """The convolution's weight (outputs, inputs) and bias; in evaluation, the batch norm is in them."""
        weight, bias = self.conv.weight.flatten(1), cast(Tensor, self.conv.bias)
        mean, variance = self.norm.running_mean, self.norm.running_var
        if self.norm.training or mean is None or variance is None:
            return weight, bias
        scale = self.norm.weight / (variance + self.norm.eps).sqrt()
        return weight * scale.unsqueeze(1), (bias - mean) * scale + self.norm.bias

    def normalised(self, x: Tensor) -> Tensor:
        """The batch norm of the convolution's output; in evaluation, it is in the weights already."""
        if not self.norm.training:
            return x
        shape = (-1, x.shape[-1], 1, 1) if isinstance(self.norm, nn.BatchNorm2d) else (-1, x.shape[-1])
        return cast(Tensor, self.norm(x.reshape(shape))).view(x.shape)

    def __call__(self, x: Tensor) -> Tensor:
        """Both, and a ReLU."""
        return self.normalised(linear(x, *self.weights())).relu_()


def units(convs: nn.Module, norms: nn.Module) -> list[Unit]:
    """The layers of a network that holds its convolutions and its norms apart."""
    return [Unit(conv, norm) for conv, norm in zip(convs.children(), norms.children(), strict=True)]  # type: ignore[arg-type]


class Layers(nn.Module):
    """1x1 convolutions, each with batch norm and ReLU: the same layers for every point."""

    def __init__(self, kind: type[nn.Conv1d] | type[nn.Conv2d], inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        sizes = list(zip([inputs, *widths], widths, strict=False))
        norm = nn.BatchNorm1d if kind is nn.Conv1d else nn.BatchNorm2d
        self.mlp_convs = nn.ModuleList(kind(before, after, 1) for before, after in sizes)
        self.mlp_bns = nn.ModuleList(norm(after) for _, after in sizes)

    def forward(self, x: Tensor) -> Tensor:
        """The features (B, N, C) of points, after the layers."""
        for unit in units(self.mlp_convs, self.mlp_bns):
            x = unit(x)
        return x


def load_pointnet2(path: FilePath, *, normals: bool | None = None) -> PointNet2:
    """The PointNet++ of a checkpoint, in evaluation mode; ``normals``, where given, must agree with the file."""
    state = load_state(path)
    found = infer(state.tensors, source=str(path))
    if normals is not None and normals != found["normals"]:
        kind = "with" if found["normals"] else "without"
        raise InputError(f"{path} holds a PointNet2 {kind} normals, but normals={normals} was asked for: leave it out")
    return with_weights(lambda: PointNet2(**found), state)  # type: ignore[arg-type]


def infer(state: Mapping[str, Tensor], *, source: str = "the state dict") -> dict[str, int | bool]:
    """What `PointNet2` has to be given for this state dict, from its names and shapes."""
    try:
        columns = state["sa1.conv_blocks.0.0.weight"].shape[1] - 3
        inputs, parts = state["fp1.mlp_convs.0.weight"].shape[1], state["conv2.weight"].shape[0]
    except (KeyError, IndexError) as error:
        network = "PointNet++ (MSG) part segmentation network"
        cure = "Give weights of pointnet2_part_seg_msg, not of the single-scale or another network"
        raise no_such_network(state, network, error, source=source, cure=cure) from None
    if columns not in (3, 6) or inputs <= 128 + 3 + columns:
        wanted = "expected 3 columns, or 6 with normals, and more than 134 or 137 inputs"
        raise InputError(f"{source} is for points of {columns} columns and has {inputs} inputs in fp1: {wanted}")
    return {"normals": columns == 6, "categories": inputs - 128 - 3 - columns, "parts": parts}


def hashed(*values: int | str) -> int:
    """A pseudo-random number of 63 bits that depends on the values alone."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little") >> 1


def first_points(points: Tensor, seeds: Sequence[int] | None) -> list[Tensor]:
    """Where each cloud's two samplings begin: for each an index (B,)."""
    sizes = points.shape[1], CENTRES[0]
    if seeds is None:
        return [torch.randint(size, points.shape[:1], device=points.device) for size in sizes]
    if len(seeds) != len(points):
        raise InputError(f"seeds must be one integer per cloud, here {len(points)}, but got {len(seeds)}")
    starts = [[hashed("start", i, int(seed)) % size for seed in seeds] for i, size in enumerate(sizes)]
    return list(torch.tensor(starts, device=points.device))
