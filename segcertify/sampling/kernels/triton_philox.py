# mypy: ignore-errors
"""`philox` as Triton kernels: noise drawn, added, resized and cast in one launch for a whole batch of draws."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from segcertify.sampling.kernels.fused import on_device_of

BLOCK = 256
LAWS = {"normal": 0, "laplace": 1, "exponential": 2, "uniform": 3}


def plus(
    x: torch.Tensor, keys: torch.Tensor, law: str, scale: float, shift: float, call: int,
    size: tuple[int, int] | None, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """`philox.plus` for single precision."""
    x, draws = x.contiguous(), len(keys)
    out = x.new_empty((draws, *(x.shape if size is None else (len(x), *size))), dtype=dtype)
    entries = out[0].numel()
    with on_device_of(x):
        if size is None:
            _plus[triton.cdiv(entries, 4 * BLOCK), draws](
                x, keys, out, entries, call, scale, shift, LAW=LAWS[law], BLOCK=BLOCK
            )  # fmt: skip
        else:
            ratios = x.shape[1] / size[0], x.shape[2] / size[1]
            _plus_resized[triton.cdiv(entries, BLOCK), draws](
                x, keys, out, *x.shape, *size, *ratios, call, scale, shift, LAW=LAWS[law], BLOCK=BLOCK
            )  # fmt: skip
    return out


@triton.jit
def _unit(word):
    return word.to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10  # 2^-32 and 2^-33


@triton.jit
def _one(word, LAW: tl.constexpr):
    """A number from one word: Laplace, exponential or uniform."""
    if LAW == 3:
        return (word >> 8).to(tl.float32) * 5.9604644775390625e-08  # 2^-24
    if LAW == 2:
        return -tl.log(_unit(word))
    size = -tl.log(_unit(word & 0xFFFFFFFE))
    return tl.where((word & 1) == 1, -size, size)


@triton.jit
def _four(keys, draw, block, call, LAW: tl.constexpr):
    """The four numbers of a block."""
    k0 = tl.load(keys + draw * 4).to(tl.uint32, bitcast=True)
    k1 = tl.load(keys + draw * 4 + 1).to(tl.uint32, bitcast=True)
    k2 = tl.load(keys + draw * 4 + 2).to(tl.uint32, bitcast=True)
    k3 = tl.load(keys + draw * 4 + 3).to(tl.uint32, bitcast=True)
    c0 = block.to(tl.uint32)
    zero = c0 * 0
    w0, w1, w2, w3 = tl.philox_impl(c0, zero + call.to(tl.uint32), zero + k2, zero + k3, zero + k0, zero + k1)
    if LAW == 0:
        r0 = tl.sqrt(-2 * tl.log(_unit(w0)))
        r1 = tl.sqrt(-2 * tl.log(_unit(w2)))
        a0 = 6.283185307179586 * _unit(w1)
        a1 = 6.283185307179586 * _unit(w3)
        return r0 * tl.cos(a0), r0 * tl.sin(a0), r1 * tl.cos(a1), r1 * tl.sin(a1)
    return _one(w0, LAW), _one(w1, LAW), _one(w2, LAW), _one(w3, LAW)


@triton.jit(do_not_specialize=["call"])
def _plus(x, keys, out, entries, call, scale, shift, LAW: tl.constexpr, BLOCK: tl.constexpr):
    draw = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    n0, n1, n2, n3 = _four(keys, draw, first + tl.arange(0, BLOCK), call, LAW)
    drawn = tl.interleave(tl.interleave(n0, n2), tl.interleave(n1, n3))
    where = first * 4 + tl.arange(0, 4 * BLOCK)
    inside = where < entries
    noisy = tl.load(x + where, mask=inside) + scale * (drawn + shift)
    tl.store(out + draw * entries + where, noisy.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _pick(n0, n1, n2, n3, word):
    return tl.where(word < 2, tl.where(word == 0, n0, n1), tl.where(word == 2, n2, n3))


@triton.jit
def _pair(x, keys, draw, left, right, call, scale, shift, inside, LAW: tl.constexpr):
    """The noisy entries at two indices, which mostly share a block."""
    n0, n1, n2, n3 = _four(keys, draw, left // 4, call, LAW)
    a = _pick(n0, n1, n2, n3, left % 4)
    b = _pick(n0, n1, n2, n3, right % 4)
    apart = left // 4 != right // 4
    if tl.max(apart.to(tl.int32), 0) != 0:
        n0, n1, n2, n3 = _four(keys, draw, right // 4, call, LAW)
        b = tl.where(apart, _pick(n0, n1, n2, n3, right % 4), b)
    first = tl.load(x + left, mask=inside, other=0.0) + scale * (a + shift)
    return first, tl.load(x + right, mask=inside, other=0.0) + scale * (b + shift)


@triton.jit
def _source(at, ratio, side):
    """The two source indices of a target index and the weight of the second, as torch has them."""
    where = tl.maximum((at + 0.5) * ratio - 0.5, 0.0)
    low = tl.minimum(where.to(tl.int32), side - 1)
    return low, tl.minimum(low + 1, side - 1), where - low


@triton.jit(do_not_specialize=["channels", "height", "width", "rows", "columns", "call"])
def _plus_resized(
    x, keys, out, channels, height, width, rows, columns, down, across, call, scale, shift,
    LAW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    draw = tl.program_id(1).to(tl.int64)
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < channels * rows * columns
    channel = where // (rows * columns)
    y0, y1, wy = _source(where // columns % rows, down, height)
    x0, x1, wx = _source(where % columns, across, width)
    plane = tl.minimum(channel, channels - 1) * height
    top = (plane + y0) * width
    bottom = (plane + y1) * width
    a, b = _pair(x, keys, draw, top + x0, top + x1, call, scale, shift, inside, LAW)
    c, d = _pair(x, keys, draw, bottom + x0, bottom + x1, call, scale, shift, inside, LAW)
    value = (1 - wy) * ((1 - wx) * a + wx * b) + wy * ((1 - wx) * c + wx * d)
    tl.store(out + draw * channels * rows * columns + where, value.to(out.dtype.element_ty), mask=inside)
