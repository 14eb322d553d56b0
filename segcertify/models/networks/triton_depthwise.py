"""The Triton kernel of `segcertify.models.networks.fused_depthwise`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor

from segcertify.models.networks.fused_conv import Pads
from segcertify.sampling.kernels.fused import on_device_of

DOWN, ACROSS, CHANNELS = 4, 8, 32
"""How many rows, columns and channels of an image's result a program of the kernel computes."""
OPTIONS = {"enable_fp_fusion": True}  # the default of Triton until 3.9
SIZES = ["height", "width", "rows", "columns", "top", "left"]
"""One compiled kernel serves all sizes."""


def launch(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pads: Pads) -> Tensor:
    """ReLU6 of the convolution of x (B, C, H, W) with weight (K, K, C) and bias (C,); channels last."""
    (top, bottom), (left, right) = pads
    batch, channels, height, width = x.shape
    rows, columns = ((side - len(weight)) // stride + 1 for side in (height + top + bottom, width + left + right))
    shape = batch, channels, rows, columns
    out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
    programs = batch * triton.cdiv(rows, DOWN) * triton.cdiv(columns, ACROSS) * triton.cdiv(channels, CHANNELS)
    with on_device_of(x):
        convolve[(programs,)](
            out, x, weight.contiguous(), bias, height, width, rows, columns, top, left, channels,
            KERNEL=len(weight), STRIDE=stride, DOWN=DOWN, ACROSS=ACROSS, CHANNELS=CHANNELS, **OPTIONS,
        )  # fmt: skip
    return out


@triton.jit(do_not_specialize=SIZES)
def convolve(out, x, weight, bias, height, width, rows, columns, top, left, channels, KERNEL: tl.constexpr,
             STRIDE: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, CHANNELS: tl.constexpr):  # fmt: skip
    """Some channels of a tile of an image; each element is the same sum in the same order, wherever it lies."""
    blocks, down, across = tl.cdiv(channels, CHANNELS), tl.cdiv(rows, DOWN), tl.cdiv(columns, ACROSS)
    c = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    tile = tl.program_id(0) // blocks
    image = tl.cast(tile // (down * across), tl.int64)
    within = tl.arange(0, DOWN * ACROSS)
    row, column = tile // across % down * DOWN + within // ACROSS, tile % across * ACROSS + within % ACROSS
    i, j = row * STRIDE - top, column * STRIDE - left
    first = x + (((image * height + i) * width + j) * channels)[:, None] + c[None, :]
    some = c < channels
    total = tl.zeros((DOWN * ACROSS, CHANNELS), dtype=tl.float32)
    for di in tl.static_range(KERNEL):
        for dj in tl.static_range(KERNEL):
            inside = (i + di >= 0) & (i + di < height) & (j + dj >= 0) & (j + dj < width)
            further = tl.cast(width * di + dj, tl.int64) * channels
            values = tl.load(first + further, mask=inside[:, None] & some[None, :], other=0.0).to(tl.float32)
            tap = tl.load(weight + (di * KERNEL + dj) * channels + c, mask=some, other=0.0).to(tl.float32)
            total += values * tap[None, :]
    total += tl.load(bias + c, mask=some, other=0.0).to(tl.float32)[None, :]
    total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)  # NaN stays, as torch has it
    total = tl.minimum(total, 6.0, propagate_nan=tl.PropagateNan.ALL)
    to = out + (((image * rows + row) * columns + column) * channels)[:, None] + c[None, :]
    tl.store(to, total.to(out.dtype.element_ty), mask=((row < rows) & (column < columns))[:, None] & some[None, :])
