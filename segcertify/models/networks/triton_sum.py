"""The Triton kernel of `segcertify.models.networks.fused_sum`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from segcertify.models.networks.fused_sum import MOST

ELEMENTS = 2048
"""How many elements of the result a program of the kernel computes, at least one pixel."""


def launch(terms: Sequence[Tensor], out: Tensor, *, bias: Tensor | None = None, first: int = 0) -> None:
    """Write the sum of the terms to the channels of ``out`` from ``first`` on; with a bias, add it, and a ReLU."""
    size = out.shape[2:]
    terms = [term.contiguous(memory_format=torch.channels_last) for term in terms]
    terms = sorted(terms, key=lambda term: term.shape[2:] != size)
    batch, channels = out.shape[0], terms[0].shape[1]
    pixels, padded = batch * size[0] * size[1], triton.next_power_of_2(channels)
    rows = max(1, ELEMENTS // padded)
    four = [*terms, *[terms[0]] * (MOST - len(terms))]
    sides = [side for term in four for side in term.shape[2:]]
    same = sum(term.shape[2:] == size for term in terms)
    add[(triton.cdiv(pixels, rows),)](
        out, *four, out if bias is None else bias, pixels, *size, *sides, out.shape[1], first, channels,
        COLUMNS=padded, ROWS=rows, SAME=same, TERMS=len(terms), ACTIVE=bias is not None,
    )  # fmt: skip


@triton.jit
def read(term, image, row, column, c, mask, height, width, H, W, C):
    """A term's features at pixels of the result, between the four nearest of its own (half-pixel centres)."""
    y = tl.maximum((row.to(tl.float32) + 0.5) * (height * 1.0 / (H * 1.0)) - 0.5, 0.0)
    x = tl.maximum((column.to(tl.float32) + 0.5) * (width * 1.0 / (W * 1.0)) - 0.5, 0.0)
    top, left = y.to(tl.int32), x.to(tl.int32)
    bottom, right = tl.minimum(top + 1, height - 1), tl.minimum(left + 1, width - 1)
    down, across = (y - top.to(tl.float32))[:, None], (x - left.to(tl.float32))[:, None]
    upper, lower = (image * height + top) * width, (image * height + bottom) * width
    a = tl.load(term + (upper + left)[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    b = tl.load(term + (upper + right)[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    above = a + across * (b - a)
    a = tl.load(term + (lower + left)[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    b = tl.load(term + (lower + right)[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    return above + down * (a + across * (b - a) - above)


@triton.jit
def add(out, t0, t1, t2, t3, bias, pixels, H, W, h0, w0, h1, w1, h2, w2, h3, w3, OUT, FIRST, C, COLUMNS: tl.constexpr,
        ROWS: tl.constexpr, SAME: tl.constexpr, TERMS: tl.constexpr, ACTIVE: tl.constexpr):  # fmt: skip
    """Some pixels of the result, all channels."""
    pixel = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.arange(0, COLUMNS)
    mask = (pixel < pixels)[:, None] & (c < C)[None, :]
    image, within = pixel // (H * W), pixel % (H * W)
    row, column = within // W, within % W
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    if SAME > 0:
        total += tl.load(t0 + pixel[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    else:
        total += read(t0, image, row, column, c, mask, h0, w0, H, W, C)
    if TERMS > 1:
        if SAME > 1:
            total += tl.load(t1 + pixel[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        else:
            total += read(t1, image, row, column, c, mask, h1, w1, H, W, C)
    if TERMS > 2:
        if SAME > 2:
            total += tl.load(t2 + pixel[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        else:
            total += read(t2, image, row, column, c, mask, h2, w2, H, W, C)
    if TERMS > 3:
        if SAME > 3:
            total += tl.load(t3 + pixel[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        else:
            total += read(t3, image, row, column, c, mask, h3, w3, H, W, C)
    if ACTIVE:
        total += tl.load(bias + c, mask=c < C, other=0.0).to(tl.float32)[None, :]
        total = tl.maximum(total, 0.0)
    tl.store(out + pixel[:, None] * OUT + FIRST + c[None, :], total.to(out.dtype.element_ty), mask=mask)
