"""A folded Lite with fewer passes over memory: the same function up to rounding, for evaluation.

On the CPU convolutions add, rectify and clip before they write (`segcertify.models.networks.fused_conv`), and no image
is copied to get a border of zeros. A batch is computed some images at a time: features of more are in memory that the
operating system has to clear for each layer, which takes longer than the convolutions. On CUDA depthwise convolutions
do so (`segcertify.models.networks.fused_depthwise`), and nothing is compiled for the size of an image.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from segcertify.errors import InputError
from segcertify.models.networks.fused_conv import convolved
from segcertify.models.networks.fused_depthwise import depthwise, is_laid, lay
from segcertify.models.networks.lite import Lite

AT_ONCE = 2**23
"""How many of the widest features the CPU computes at once, if more than an image's: 32 MB in single precision.

The C library keeps memory that was no larger, and gives it out again.
"""


class FusedLite(nn.Module):
    """A Lite in evaluation, whose batch norms are folded; ``lays`` lays its depthwise weights for CUDA."""

    encoder: Any
    context: Any
    decoder: Any

    def __init__(self, net: Lite, *, lays: bool = False) -> None:
        super().__init__()
        if any(isinstance(each, nn.BatchNorm2d) for each in net.modules()):
            raise InputError("only a Lite without batch norms can be fused: fold them first (models.optimised)")
        net = copy.deepcopy(net)
        self.normalise, self.encoder, self.context = net.normalise, net.encoder, net.context
        self.decoder, self.skips, self.head = net.decoder, net.skips, net.head
        self.widest = _widest(net)
        for block in self.encoder.blocks if lays else ():
            lay(block.depthwise_conv)
        self.eval()

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (B, classes, H / 4, W / 4), rounded up, as the Lite gives them."""
        if batch.ndim != 4 or batch.shape[1] != 3:
            raise InputError(f"Lite takes RGB images (B, 3, H, W), but got shape {tuple(batch.shape)}")
        parts = math.ceil(len(batch) / max(1, AT_ONCE // (self.widest * batch.shape[2] * batch.shape[3])))
        if parts <= 1 or batch.is_cuda:
            return self._logits(batch)
        return torch.cat([self._logits(part) for part in batch.chunk(parts)])

    def _logits(self, batch: Tensor) -> Tensor:
        features = self._features(batch)
        x = _with_context(self.context, features[-1])
        for join, stage in zip(self.decoder, self.skips, strict=True):
            fine = features[stage]
            coarse = interpolate(x, size=fine.shape[2:], mode="bilinear", align_corners=False)
            x = torch.cat([coarse, fine], 1)
            for unit in join.merge:
                x = _unit(unit, x)
        return convolved(self.head, x)

    def _features(self, batch: Tensor) -> list[Tensor]:
        """The output of every stage of the encoder."""
        encoder, stem = self.encoder, self.encoder.conv_stem
        image = self.normalise(batch).to(stem.weight.dtype).contiguous(memory_format=torch.channels_last)
        x = convolved(stem, image, "relu6", pads=stem.pads(image))
        outputs = []
        for count, block in enumerate(encoder.blocks, 1):
            x = _block(block, x)
            if count in encoder.ends:
                outputs.append(x)
        return outputs


def _widest(net: Lite) -> int:
    """The most features that a block has for each pixel of an image."""
    blocks: Any = net.encoder.blocks
    most, stride = 1, 2
    for block in blocks:
        most = max(most, math.ceil(block.wide / stride**2))
        stride *= block.depthwise_conv.stride[0]
    return most


def _block(block: Any, x: Tensor) -> Tensor:
    """A `Block` of the Lite."""
    strips = list(block.strips(x))
    if len(strips) == 1:
        return convolved(block.project_conv, _wide(block, x, *strips[0]), shortcut=x if block.shortcut else None)
    y = torch.cat([convolved(block.project_conv, _wide(block, x, *strip)) for strip in strips], 2)
    return y.add_(x) if block.shortcut else y


def _wide(block: Any, x: Tensor, rows: slice, pads: Any) -> Tensor:
    """The filtered wide features of some rows."""
    wide = convolved(block.expand_conv, x[:, :, rows], "relu6") if block.expands else x[:, :, rows]
    conv = block.depthwise_conv
    return depthwise(conv, wide, pads) if is_laid(conv) else convolved(conv, wide, "relu6", pads=pads)


def _with_context(context: Any, x: Tensor) -> Tensor:
    """The `Context` of the Lite."""
    x = _unit(context.reduce, x)
    everywhere = context.everywhere(x).expand(-1, -1, *x.shape[2:])
    return _unit(context.merge, torch.cat([x, _unit(context.near, x), _unit(context.far, x), everywhere], 1))


def _unit(unit: Any, x: Tensor) -> Tensor:
    """A convolution, what is left of its batch norm, and a ReLU."""
    return convolved(unit[0], x, "relu")
