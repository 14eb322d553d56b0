"""A folded HRNet with fewer passes over memory: the same function up to rounding, for evaluation.

On CUDA a convolution adds its bias and its shortcut and rectifies before it writes (cuDNN does), the sums at the end of
each module are one kernel (`segcertify.models.networks.fused_sum`), and channels are padded with zeros to numbers for
which there are fast kernels: 48 to 64, 18 to 24. On the CPU oneDNN adds and rectifies likewise
(`segcertify.models.networks.fused_conv`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from segcertify.errors import InputError
from segcertify.models.networks.fused_conv import convolved
from segcertify.models.networks.fused_sum import enlarged, summed
from segcertify.models.networks.hrnet import HRNet

FAST = 64
"""Convolutions of 33 to 63 channels take longer than those of 64: measured on an H200."""
ALIGNED = 8
"""Half-precision kernels take multiples of it."""


def fast_width(channels: int) -> int:
    """How many channels to give a layer of so many.

    >>> [fast_width(channels) for channels in (3, 18, 48, 96)]
    [8, 24, 64, 96]
    """
    return FAST if FAST // 2 < channels < FAST else -(-channels // ALIGNED) * ALIGNED


class FusedHRNet(nn.Module):
    """An HRNet in evaluation, whose batch norms are folded; ``pad`` pads its channels, for CUDA."""

    stem: Any
    layer1: Any
    transitions: Any
    stages: Any
    last: Any
    head: Any

    def __init__(self, net: HRNet, *, pad: bool) -> None:
        super().__init__()
        if any(isinstance(each, nn.BatchNorm2d) for each in net.modules()):
            raise InputError("only an HRNet without batch norms can be fused: fold them first (models.optimised)")
        net = copy.deepcopy(net)
        self.normalise, self.classes, self.pad = net.normalise, net.architecture.classes, pad
        self.widths = [net.architecture.width * 2**branch for branch in range(4)]
        if pad:
            _pad(net, self.widths)
            self.widths = [fast_width(width) for width in self.widths]
        self.stem = nn.ModuleList([net.conv1, net.conv2])
        self.layer1 = net.layer1
        self.transitions = nn.ModuleList(net.get_submodule(f"transition{i}") for i in (1, 2, 3))
        self.stages = nn.ModuleList(net.get_submodule(f"stage{i}") for i in (2, 3, 4))
        self.last, self.head = net.last_layer[0], net.last_layer[3]
        _gather_biases(self)
        self.eval()

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (B, classes, H / 4, W / 4), rounded up, as the HRNet gives them."""
        if batch.ndim != 4 or batch.shape[1] != 3:
            raise InputError(f"HRNet takes RGB images (B, 3, H, W), but got shape {tuple(batch.shape)}")
        x = _relu(self.stem[1], _relu(self.stem[0], self._image(batch)))
        for block in self.layer1:
            shortcut = x if isinstance(block.downsample, nn.Identity) else block.downsample[0](x)
            x = _add_relu(block.conv3, _relu(block.conv2, _relu(block.conv1, x)), shortcut)
        branches = [x]
        for transition, stage in zip(self.transitions, self.stages, strict=True):
            last = len(branches) - 1
            branches = [_steps(step, branches[min(j, last)]) for j, step in enumerate(transition)]
            for module in stage:
                branches = _module(module, branches)
        logits: Tensor = self.head(_relu(self.last, self._joined(branches)))
        return logits[:, : self.classes]

    def _image(self, batch: Tensor) -> Tensor:
        """The normalised image in the precision of the weights, with channels of zeros where the weights have some."""
        weight, image = self.stem[0].weight, self.normalise(batch)
        shape = len(batch), weight.shape[1], *batch.shape[2:]
        options: dict[str, Any] = {"dtype": weight.dtype, "device": batch.device, "memory_format": torch.channels_last}
        x = torch.empty(shape, **options).zero_()
        x[:, : image.shape[1]] = image
        return x

    def _joined(self, branches: Sequence[Tensor]) -> Tensor:
        """All branches at the resolution of the first, side by side."""
        x, first = branches[0], 0
        shape = x.shape[0], sum(self.widths), *x.shape[2:]
        joined = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        for branch in branches:
            enlarged(branch, joined, first)
            first += branch.shape[1]
        return joined


def _module(module: Any, xs: Sequence[Tensor]) -> list[Tensor]:
    """A `ParallelModule` of the HRNet."""
    outputs = []
    for branch, given in zip(module.branches, xs, strict=True):
        x = given
        for block in branch:
            x = _add_relu(block.conv2, _relu(block.conv1, x), x)
        outputs.append(x)
    fused = []
    for target, layers in enumerate(module.fuse_layers):
        terms = [_steps(layer, x) for layer, x in zip(layers, outputs, strict=True)]
        fused.append(summed([terms[target], *terms[:target], *terms[target + 1 :]], bias=layers.bias))
    return fused


def _steps(steps: nn.Module, x: Tensor) -> Tensor:
    """Convolutions in a row, some with a ReLU after them; none for an identity."""
    leaves = [each for each in steps.modules() if isinstance(each, nn.Conv2d | nn.ReLU)]
    for i, each in enumerate(leaves):
        if isinstance(each, nn.Conv2d):
            x = _relu(each, x) if isinstance(next(iter(leaves[i + 1 :]), None), nn.ReLU) else each(x)
    return x


def _relu(conv: Any, x: Tensor) -> Tensor:
    """A convolution and a ReLU."""
    if _in_one(x, conv):
        return torch.cudnn_convolution_relu(
            x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
        )
    return convolved(conv, x, "relu")


def _add_relu(conv: Any, x: Tensor, shortcut: Tensor) -> Tensor:
    """A convolution, the sum with a shortcut and a ReLU."""
    if _in_one(x, conv):
        return torch.cudnn_convolution_add_relu(
            x, conv.weight, shortcut, 1.0, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
        )
    return convolved(conv, x, "relu", shortcut)


def _in_one(x: Tensor, conv: Any) -> bool:
    """Whether cuDNN takes the convolution with what follows it: it knows no gradients, and mixes no precisions."""
    wanted = torch.is_grad_enabled() and (x.requires_grad or conv.weight.requires_grad)
    return not wanted and x.is_cuda and x.dtype == conv.weight.dtype and torch.backends.cudnn.is_available()  # type: ignore[no-untyped-call]


def _gather_biases(net: FusedHRNet) -> None:
    """Add up the biases of terms of a sum: a constant stays itself through a resize, and cuDNN adds one slowly."""
    for block in net.layer1:
        if not isinstance(block.downsample, nn.Identity):
            block.conv3.bias.data += block.downsample[0].bias.data
            block.downsample[0].bias = None
    for layers in (layers for stage in net.stages for module in stage for layers in module.fuse_layers):
        last = [convs[-1] for layer in layers if (convs := _convolutions(layer))]
        layers.register_buffer("bias", torch.stack([conv.bias.detach() for conv in last]).sum(0))
        for conv in last:
            conv.bias = None


def _pad(net: Any, widths: Sequence[int]) -> None:
    """Give all layers of the network channels of zeros: weights from them and to them are zeros."""
    image = [(3, fast_width(3))]
    wide = [(width, fast_width(width)) for width in widths]
    _widen(net.conv1, image)
    for i in (1, 2, 3):
        transition = net.get_submodule(f"transition{i}")
        for j, step in enumerate(transition.children()):
            given = [] if i == 1 else [wide[min(j, i - 1)]]
            for conv in _convolutions(step):
                _widen(conv, given, wide[j])
        for module in net.get_submodule(f"stage{i + 1}").children():
            for branch, width in zip(module.branches, wide, strict=False):
                for conv in _convolutions(branch):
                    _widen(conv, [width], width)
            for target, layers in enumerate(module.fuse_layers):
                for source, layer in enumerate(layers):
                    convs = _convolutions(layer)
                    for conv in convs:
                        _widen(conv, [wide[source]], wide[target if conv is convs[-1] else source])
    _widen(net.last_layer[0], wide)
    _widen(net.last_layer[3], [], (net.architecture.classes, fast_width(max(net.architecture.classes, FAST // 2 + 1))))


def _convolutions(module: Any) -> list[Any]:
    return [each for each in module.modules() if isinstance(each, nn.Conv2d)]


def _widen(conv: Any, given: Sequence[tuple[int, int]], made: tuple[int, int] | None = None) -> None:
    """Channels of zeros after each group of inputs, (channels, padded), and after the outputs."""
    weight, bias = conv.weight.detach(), conv.bias.detach()
    outputs = conv.out_channels if made is None else made[1]
    groups = given or [(conv.in_channels, conv.in_channels)]
    wide = weight.new_zeros(outputs, sum(padded for _, padded in groups), *weight.shape[2:])
    old = new = 0
    for count, padded in groups:
        wide[: len(weight), new : new + count] = weight[:, old : old + count]
        old, new = old + count, new + padded
    conv.in_channels, conv.out_channels = new, outputs
    conv.weight = nn.Parameter(wide, requires_grad=False)
    conv.bias = nn.Parameter(torch.cat([bias, bias.new_zeros(outputs - len(bias))]), requires_grad=False)
