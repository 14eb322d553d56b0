"""Noise that is added to the input: Gaussian, Laplace and uniform numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from segcertify.arrays import FloatArray
from segcertify.errors import InputError, require_integer, require_not_negative
from segcertify.noise.base import P, ScaledNoise, Stream, Tensor, above_half, added, gaussian_worst


@dataclass(frozen=True, repr=False)
class Gaussian(ScaledNoise):
    """N(0, sigma^2) on every entry of the input, or on chosen ``channels`` along ``axis``.

    A label of probability above p stays the most likely one for every perturbation (of the noised entries) with
    l2 norm at most sigma Phi^-1(p) [Cohen2019, Thm. 1]. The l-inf radius follows through the dimension.

    >>> round(Gaussian(0.25).radius(0.75), 4)
    0.1686
    """

    norm = "l2"
    unit_radius = staticmethod(special.ndtri)
    unit_worst = staticmethod(gaussian_worst)
    sigma: float
    channels: tuple[int, ...] | None = None
    axis: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", require_integer("axis", self.axis, at_least=-16))
        if self.channels is not None:
            if not isinstance(self.channels, Iterable):
                raise InputError(f"channels must be a sequence of numbers such as (0, 1, 2), but got {self.channels!r}")
            channels = tuple(require_integer("a channel", c, at_least=0) for c in self.channels)
            if not channels or len(set(channels)) != len(channels):
                raise InputError(f"channels must be different and at least one, but got {self.channels!r}")
            object.__setattr__(self, "channels", channels)

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        if self.require_norm(norm, "linf") == "l2":
            return super().radius(p)
        if input_shape is None:
            raise InputError("norm='linf' needs the input's shape: pass input_shape= to Votes, or use sample()")
        l2 = self.sigma * special.ndtri(above_half(p))
        return self.round_down(l2 / math.sqrt(self.dimension(input_shape)), p)

    def own_radius(self, R: float, norm: str | None, input_shape: tuple[int, ...] | None) -> float:
        if self.require_norm(norm, "linf") == "l2":
            return super().own_radius(R, None, None)
        if input_shape is None:
            raise InputError("norm='linf' needs the input's shape: pass input_shape=")
        return require_not_negative("the radius R", R) * math.sqrt(self.dimension(input_shape))

    def dimension(self, input_shape: tuple[int, ...]) -> int:
        """d: how many entries are noised."""
        self.check(input_shape)
        if self.channels is None:
            return math.prod(input_shape)
        return math.prod(input_shape) // input_shape[self.axis] * len(self.channels)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        if self.channels is None:
            return added(x, streams, "normal", self.sigma)
        where = (*[slice(None)] * (self.axis % x.ndim), list(self.channels))
        batch = x.repeat(len(streams), *[1] * x.ndim)
        batch[(slice(None), *where)] = added(x[where], streams, "normal", self.sigma)
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


@dataclass(frozen=True, repr=False)
class Laplace(ScaledNoise):
    """Laplace(0, b) on every entry: density exp(-|t| / b) / (2 b) [Teng2020], [Yang2020].

    A label of probability above p stays the most likely one for every
    perturbation with l1 norm at most -b ln(2 (1 - p)).

    >>> round(Laplace(0.25).radius(0.75), 4)
    0.1733
    """

    norm = "l1"
    b: float

    @staticmethod
    def unit_radius(p: FloatArray) -> FloatArray:
        return np.asarray(-np.log1p(-(2 * p - 1)))

    @staticmethod
    def unit_worst(p: FloatArray, radius: float) -> FloatArray:
        """The event is a half-line: its end moves by the radius [Teng2020]."""
        shrunk = math.exp(-radius)
        far, across = 1 - (1 - p) * shrunk, 1 - shrunk / (4 * np.maximum(p, np.finfo(float).tiny))
        near = p / max(shrunk, np.finfo(float).tiny)
        return np.where(p <= shrunk / 2, near, np.where(p <= 0.5, across, far))  # across: over the density's peak

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        return added(x, streams, "laplace", self.b)


@dataclass(frozen=True, repr=False)
class Uniform(ScaledNoise):
    """U[-lam, lam] on every entry [Lee2019], [Yang2020].

    A label of probability above p stays the most likely one for every
    perturbation with l1 norm at most 2 lam (p - 1/2).

    >>> round(Uniform(0.5).radius(0.75), 4)
    0.25
    """

    norm = "l1"
    lam: float

    @staticmethod
    def unit_radius(p: FloatArray) -> FloatArray:
        return 2 * (p - 0.5)

    @staticmethod
    def unit_worst(p: FloatArray, radius: float) -> FloatArray:
        """A move by the radius leaves all of the cube but this volume where it was [Lee2019]."""
        return np.asarray(p + radius / 2)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        return added(x, streams, "uniform", 2 * self.lam, -0.5)
