"""Noise from counters: Philox 4x32-10 [Salmon2011], a function of a draw's key and an entry's index alone.

Entry e of call c of a draw is word e % 4 of the block of 128 bits that Philox makes of the counter (e // 4, c, k2, k3)
and the key (k0, k1), where k0 .. k3 are 128 bits of the draw's digest. So neither the batch nor the order of draws
changes a bit, and entries that nobody reads need not be drawn. CUDA runs ``triton_philox``; all else the torch here.
"""

import math
from typing import Literal

import torch
from torch.nn.functional import interpolate

from segcertify.sampling.kernels.fused import fused
from segcertify.sampling.kernels.trust import trusted

Law = Literal["normal", "laplace", "exponential", "uniform"]
"""Standard normal, Laplace and exponential numbers, and uniform ones in [0, 1)."""

CLOSE = 1e-5
"""How much a kernel may differ from its twin where sigma is 0.5, beside the rounding of its precision."""
_LOW = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


def numbers(like: torch.Tensor, keys: torch.Tensor, law: Law, *, call: int = 0) -> torch.Tensor:
    """Numbers of a law for each key (B, 4), int32: (B, *like.shape), in the precision of ``like``."""
    return plus(like.new_zeros(()).expand(like.shape), keys, law, 1.0, call=call)


def plus(
    x: torch.Tensor, keys: torch.Tensor, law: Law, scale: float, *, shift: float = 0.0, call: int = 0,
    size: tuple[int, int] | None = None, dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    """x + scale (number + shift) for each key: (B, *x.shape), cast to ``dtype``.

    With ``size``, of an image (C, H, W), the bilinear resize of that (B, C, *size), without antialiasing: only the
    pixels that it reads are drawn.
    """
    dtype = dtype or x.dtype
    if is_fused(x, law, resized=size is not None, dtype=dtype):
        from segcertify.sampling.kernels import triton_philox

        return triton_philox.plus(x, keys, law, scale, shift, call, size, dtype)
    return plus_twin(x, keys, law, scale, shift, call, size, dtype)


def is_fused(x: torch.Tensor, law: Law, *, resized: bool, dtype: torch.dtype) -> bool:
    """Whether a kernel, which gave what the twin gives, draws noise at x."""
    if x.dtype != torch.float32 or not fused(x):
        return False
    case = f"{law} noise{' of a resized image' if resized else ''} in {dtype} on {x.device}"
    return trusted("noise", case, lambda: _differs(x.device, law, resized, dtype))


def _differs(device: torch.device, law: Law, resized: bool, dtype: torch.dtype) -> str:
    """What the kernel makes of a small input that the twin does not; empty if nothing."""
    from segcertify.sampling.kernels import triton_philox

    x = torch.linspace(0, 1, 3 * 16 * 16, device=device).view(3, 16, 16)
    keys = torch.arange(-5, 3, dtype=torch.int32, device=device).view(2, 4) * 123_456_789
    size = (5, 7) if resized else None
    ours = triton_philox.plus(x, keys, law, 0.5, -0.25, 3, size, dtype)
    twin = plus_twin(x, keys, law, 0.5, -0.25, 3, size, dtype)
    if ours.shape != twin.shape or ours.dtype != twin.dtype:
        return f"it gave {ours.dtype} of shape {tuple(ours.shape)}"
    far = (ours.double() - twin.double()).abs() - 2 * torch.finfo(dtype).eps * twin.double().abs()
    return "" if bool((far <= CLOSE).all()) else f"it differs by up to {float(far.max()):.2g}"


def plus_twin(  # noqa: PLR0917
    x: torch.Tensor, keys: torch.Tensor, law: Law, scale: float, shift: float, call: int,
    size: tuple[int, int] | None, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """What the kernel computes, in plain torch."""
    entries = x.numel()
    out = x.new_empty((len(keys), *(x.shape if size is None else (len(x), *size))), dtype=dtype)
    for key, noisy in zip(keys, out, strict=True):  # a draw at a time: 64-bit words take much memory
        drawn = _of_law(words(key[None], -(-entries // 4), call), law, x.dtype)[:, :entries].view(1, *x.shape)
        drawn = drawn.add_(shift).mul_(scale).add_(x)
        if size is not None:
            drawn = interpolate(drawn, size=size, mode="bilinear", align_corners=False)
        noisy.copy_(drawn[0])
    return out


def words(keys: torch.Tensor, blocks: int, call: int = 0) -> torch.Tensor:
    """The 32-bit words of the first blocks of each key, (B, 4 blocks), in int64: Philox 4x32 with ten rounds.

    The first block of the key 0 is that of Random123's known answers:

    >>> [f"{word:08x}" for word in words(torch.zeros(1, 4, dtype=torch.int32), 1)[0].tolist()]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    blocks_of_each = torch.arange(blocks, device=keys.device).expand(len(keys), -1)
    return _rounds(blocks_of_each, keys, call)


def _rounds(c0: torch.Tensor, keys: torch.Tensor, call: int) -> torch.Tensor:
    """The words of the blocks c0, (B, blocks)."""
    k0, k1, c2, c3 = (key[:, None] for key in (keys.long() & _LOW).T)
    c1 = torch.full_like(c0, call)
    for _ in range(10):
        high0, low0 = _product(c0, _MULTIPLIERS[0])
        high1, low1 = _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return torch.stack([c0, c1, c2, c3], 2).flatten(1)


def _product(a: torch.Tensor, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The upper and the lower 32 bits of a product: int64 wraps around, which leaves all 64 bits right."""
    product = a * b
    return (product >> 32) & _LOW, product & _LOW


def _of_law(drawn: torch.Tensor, law: Law, dtype: torch.dtype) -> torch.Tensor:
    """Numbers of a law from words, in the precision asked for."""
    if law == "uniform":
        bits = 32 if dtype == torch.float64 else 24
        return (drawn >> (32 - bits)).to(dtype) * 2.0**-bits
    if law == "normal":  # Box and Muller, of neighbouring words
        first, second = drawn.view(len(drawn), -1, 2).unbind(2)
        radius, angle = (-2 * _unit(first, dtype).log()).sqrt(), 2 * math.pi * _unit(second, dtype)
        return torch.stack([radius * angle.cos(), radius * angle.sin()], 2).flatten(1)
    if law == "exponential":
        return -_unit(drawn, dtype).log()
    size = -_unit(drawn & ~1, dtype).log()  # the lowest bit is the sign
    return torch.where(drawn & 1 == 1, -size, size)


def _unit(drawn: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Uniform in (0, 1], at least 2^-33: -2 log of it is at most 6.76 squared."""
    return drawn.to(dtype) * 2.0**-32 + 2.0**-33
