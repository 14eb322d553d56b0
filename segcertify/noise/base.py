"""The two protocols of this folder: a noise, and the randomness of one draw."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.errors import InputError

Tensor = Any  # a torch.Tensor; this layer does not import torch
P = TypeVar("P", float, FloatArray)
"""Probabilities: of a number the radius is a float, of an array an array."""


class Stream(Protocol):
    """The randomness of one draw: fills tensors in place, on their device."""

    def normal_(self, out: Tensor) -> Tensor:
        """Standard normal numbers."""

    def exponential_(self, out: Tensor) -> Tensor:
        """Standard exponential numbers."""

    def uniform_(self, out: Tensor) -> Tensor:
        """Uniform numbers in [0, 1)."""

    @property
    def rng(self) -> np.random.Generator:
        """A generator for a handful of numbers on the host."""


@runtime_checkable
class Noise(Protocol):
    """Perturbs inputs at random; proves a radius from a probability. Implementations are frozen dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    additive: ClassVar[bool]
    """Whether numbers are added to the input, or it is rotated."""

    @property
    def norm(self) -> str:
        """What the radius measures: "l1", "l2" or "angle"."""

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        """The radius within which a label of probability above p stays the most likely one; 0 for p <= 1/2."""

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        """A batch of independently perturbed copies of x, one for each stream: (len(streams), *x.shape)."""

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Refuse inputs that this noise cannot perturb."""

    def threat(self, norm: str) -> str:
        """The perturbations that a certificate speaks of, in words."""


RADIUS_ROUNDING = 2.0**-22
"""Radii go down by this relative margin: single precision may scale noise by up to 2^-24 less than asked."""


def round_down(radius: FloatArray, p: P, *, largest: float = math.inf) -> P:
    """The radius of ``p``, in its type, between 0 and ``largest``.

    It is lowered by more than the error of its computation and of the noise's scale.
    """
    lowered = np.minimum(np.maximum(radius, 0.0) * (1 - RADIUS_ROUNDING), largest)
    return float(lowered) if np.ndim(p) == 0 else np.asarray(lowered)  # type: ignore[return-value]


def above_half(p: float | FloatArray) -> FloatArray:
    """p, checked to be a probability, raised to 1/2, where every radius is 0."""
    p = np.asarray(p, float)
    if not ((p >= 0) & (p < 1)).all():
        raise InputError(f"a radius needs probabilities in [0, 1), but got {p!r}")
    return np.maximum(p, 0.5)


def largest_radius(noise: Noise) -> float:
    """The largest radius that there is: pi for rotations, infinity for all else."""
    return math.pi if noise.norm == "angle" else math.inf


def require_norm(noise: Noise, norm: str | None, *others: str) -> str:
    """The norm asked for (the noise's own by default), if this noise proves anything in it."""
    norm = norm or noise.norm
    if norm not in (noise.norm, *others):
        known = ", ".join(repr(name) for name in (noise.norm, *others))
        raise InputError(f"{type(noise).__name__} noise proves nothing in norm={norm!r}: use {known}")
    return norm


def concise(noise: Noise) -> str:
    """The noise as Python would write it, without the fields that are at their defaults."""
    fields = (f for f in dataclasses.fields(noise) if getattr(noise, f.name) != f.default)
    return f"{type(noise).__name__}({', '.join(f'{f.name}={getattr(noise, f.name)!r}' for f in fields)})"
