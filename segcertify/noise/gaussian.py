"""Gaussian noise: l2 certificates, and l-inf ones through the dimension [Cohen2019, Thm. 1]."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scipy import special

from segcertify.errors import InputError, require_integer, require_positive
from segcertify.noise.base import P, Stream, Tensor, above_half, concise, require_norm, round_down


@dataclass(frozen=True, repr=False)
class Gaussian:
    """N(0, sigma^2) on every entry of the input, or on chosen ``channels`` along ``axis``.

    A label of probability above p stays the most likely one for every
    perturbation (of the noised entries) with l2 norm at most sigma Phi^-1(p).

    >>> round(Gaussian(0.25).radius(0.75), 4)
    0.1686
    """

    additive: ClassVar[bool] = True
    sigma: float
    channels: tuple[int, ...] | None = None
    axis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", require_positive("sigma", self.sigma))
        object.__setattr__(self, "axis", require_integer("axis", self.axis, at_least=-16))
        if self.channels is not None:
            if not isinstance(self.channels, Iterable):
                raise InputError(f"channels must be a sequence of numbers such as (0, 1, 2), but got {self.channels!r}")
            channels = tuple(require_integer("a channel", c, at_least=0) for c in self.channels)
            if not channels or len(set(channels)) != len(channels):
                raise InputError(f"channels must be different and at least one, but got {self.channels!r}")
            object.__setattr__(self, "channels", channels)

    __repr__ = concise

    @property
    def norm(self) -> str:
        return "l2"

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        l2 = self.sigma * special.ndtri(above_half(p))
        if require_norm(self, norm, "linf") == "l2":
            return round_down(l2, p)
        if input_shape is None:
            raise InputError("norm='linf' needs the input's shape: pass input_shape= to Votes, or use sample()")
        return round_down(l2 / math.sqrt(self.dimension(input_shape)), p)

    def dimension(self, input_shape: tuple[int, ...]) -> int:
        """d: how many entries are noised."""
        self.check(input_shape)
        if self.channels is None:
            return math.prod(input_shape)
        return math.prod(input_shape) // input_shape[self.axis] * len(self.channels)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        if self.channels is None:
            batch = x.new_empty((len(streams), *x.shape))
            for entry, stream in zip(batch, streams, strict=True):
                stream.normal_(entry)
            return batch.mul_(self.sigma).add_(x)
        batch = x.repeat(len(streams), *[1] * x.ndim)
        where = (*[slice(None)] * (1 + self.axis % x.ndim), list(self.channels))
        noise = batch[where].contiguous()  # a copy
        for entry, stream in zip(noise, streams, strict=True):
            stream.normal_(entry)
        batch[where] += noise.mul_(self.sigma)
        return batch

    def check(self, input_shape: tuple[int, ...]) -> None:
        if self.channels is None:
            return
        if not -len(input_shape) <= self.axis < len(input_shape):
            raise InputError(f"axis={self.axis} is outside an input of shape {input_shape}")
        if max(self.channels) >= input_shape[self.axis]:
            raise InputError(
                f"channels={self.channels} are outside axis {self.axis} of an input of shape {input_shape}, "
                f"which has {input_shape[self.axis]}"
            )

    def threat(self, norm: str) -> str:
        if self.channels is None:
            return f"{norm} norm"
        return f"{norm} norm on channels {list(self.channels)} of axis {self.axis} (all else unchanged)"
