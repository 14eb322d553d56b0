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

Law = Literal["normal", "laplace", "exponential", "uniform"]
"""Standard normal, Laplace and exponential numbers, and uniform ones in [0, 1)."""

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
    if x.dtype == torch.float32 and fused(x):
        from segcertify.sampling.kernels.triton_philox import plus as kernel

        return kernel(x, keys, law, scale, shift, call, size, dtype or x.dtype)
    return plus_twin(x, keys, law, scale, shift, call, size, dtype or x.dtype)


def plus_twin(  # noqa: PLR0917
    x: torch.Tensor, keys: torch.Tensor, law: Law, scale: float, shift: float, call: int,
    size: tuple[int, int] | None, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """What the kernel computes, in plain torch."""
    entries = max(x.numel(), 1)
    drawn = _of_law(words(keys, -(-entries // 4), call), law, x.dtype)[:, :entries].view(len(keys), *x.shape)
    noisy = drawn.add_(shift).mul_(scale).add_(x)
    if size is not None:
        noisy = interpolate(noisy, size=size, mode="bilinear", align_corners=False)
    return noisy.to(dtype)


def words(keys: torch.Tensor, blocks: int, call: int = 0) -> torch.Tensor:
    """The 32-bit words of the first blocks of each key, (B, 4 blocks), in int64: Philox 4x32 with ten rounds.

    The first block of the key 0 is that of Random123's known answers:

    >>> [f"{word:08x}" for word in words(torch.zeros(1, 4, dtype=torch.int32), 1)[0].tolist()]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    k0, k1, c2, c3 = (key[:, None] for key in (keys.long() & _LOW).T)
    c0 = torch.arange(blocks, device=keys.device).expand(len(keys), -1)
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
