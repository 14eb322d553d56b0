"""The two protocols of this folder, a noise and the randomness of one draw, and what our noises share."""

import dataclasses
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from scipy import special

from segcertify.arrays import FloatArray
from segcertify.errors import InputError, require_not_negative, require_positive

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


class ScaledNoise(Noise):
    """What our noises share: frozen dataclasses whose first field is the scale, to which the radius is proportional."""

    additive = True

    @staticmethod
    def unit_radius(p: FloatArray) -> FloatArray:
        """The radius of a noise whose `factor` is 1, for p of at least 1/2."""
        raise NotImplementedError

    @staticmethod
    def unit_worst(p: FloatArray, radius: float) -> FloatArray:
        """`worst` of a noise whose `factor` is 1, for a radius above 0."""
        raise NotImplementedError

    @property
    def factor(self) -> float:
        """What `unit_radius` is multiplied with: the scale."""
        return float(getattr(self, dataclasses.fields(self)[0].name))

    def __post_init__(self) -> None:
        name = dataclasses.fields(self)[0].name
        object.__setattr__(self, name, require_positive(name, getattr(self, name)))

    def __repr__(self) -> str:
        """As Python would write it, without the fields that are at their defaults."""
        fields = (f for f in dataclasses.fields(self) if getattr(self, f.name) != f.default)
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields)})"

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        self.require_norm(norm)
        return self.round_down(self.factor * self.unit_radius(above_half(p)), p)

    def worst(self, p: P, R: float, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        """An upper bound on the probability that an event of probability ``p`` can get within the radius R.

        Of every set of outputs that the model gives with probability p at the input,
        the probability is at most this under every perturbation of size R at most.
        It is rounded up, and p itself for R = 0. Its inverse is `rare`.
        """
        if type(self).unit_worst is ScaledNoise.unit_worst:
            raise InputError(f"{self!r} does not say what an attack can do to a probability: give it unit_worst")
        probability = np.asarray(p, float)
        if not ((probability >= 0) & (probability <= 1)).all():
            raise InputError(f"the worst case needs probabilities in [0, 1], but got {p!r}")
        radius = min(self.own_radius(R, norm, input_shape), largest_radius(self)) / self.factor
        reached = probability
        if radius > 0:
            reached = self.unit_worst(probability, radius * (1 + RADIUS_ROUNDING / 2)) * (1 + WORST_ROUNDING)
            reached = np.clip(reached, probability, 1.0)
        return float(reached) if np.ndim(p) == 0 else np.asarray(reached)  # type: ignore[return-value]

    def rare(self, beta: P, R: float, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        """The largest probability of an event that no perturbation within R raises above ``beta``, rounded down.

        The worst perturbation moves along a line, and moving back undoes it: this
        is 1 - worst(1 - beta, R). 0 if there is no such event but the impossible one.
        """
        return 1 - self.worst(1 - beta, R, norm, input_shape)

    def own_radius(self, R: float, norm: str | None, input_shape: tuple[int, ...] | None) -> float:
        """A radius in the noise's own norm that contains all perturbations within R."""
        self.require_norm(norm)
        return require_not_negative("the radius R", R)

    def round_down(self, radius: FloatArray, p: P) -> P:
        """The radius of ``p``, in its type, lowered by more than the error of its computation and of the scale."""
        lowered = np.minimum(np.maximum(radius, 0.0) * (1 - RADIUS_ROUNDING), largest_radius(self))
        return float(lowered) if np.ndim(p) == 0 else np.asarray(lowered)  # type: ignore[return-value]

    def require_norm(self, norm: str | None, *others: str) -> str:
        """The norm that is wanted (by default the noise's own), if this noise proves anything in it."""
        known = (self.norm, *others)
        if (norm or self.norm) in known:
            return norm or self.norm
        use = ", ".join(map(repr, known))
        raise InputError(f"{type(self).__name__} noise proves nothing in norm={norm!r}: use {use}")

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Any shape will do."""

    def threat(self, norm: str) -> str:
        return f"{norm} norm"


RADIUS_ROUNDING = 2.0**-22
"""Radii go down by this relative margin: single precision may scale noise by up to 2^-24 less than it should.

Radii that are given (`ScaledNoise.worst`) go up by half of it.
"""

WORST_ROUNDING = 1e-12
"""Worst-case probabilities go up by this relative margin, far above the error of their computation (1e-14)."""


def above_half(p: float | FloatArray) -> FloatArray:
    """p, checked to be a probability, raised to 1/2, where every radius is 0."""
    p = np.asarray(p, float)
    if not ((p >= 0) & (p < 1)).all():
        raise InputError(f"a radius needs probabilities in [0, 1), but got {p!r}")
    return np.maximum(p, 0.5)


def gaussian_worst(p: FloatArray, radius: float) -> FloatArray:
    """Phi(Phi^-1(p) + R): the event is a half-space that moves by the radius, in standard deviations [Cohen2019]."""
    return np.asarray(special.ndtr(special.ndtri(p) + radius))


def largest_radius(noise: Noise) -> float:
    """The largest radius that there is: pi for rotations, infinity for all else."""
    return math.pi if noise.norm == "angle" else math.inf


PARALLEL_FROM = 2**13
"""The fewest numbers of an input that are worth another thread."""


def added(x: Tensor, streams: Sequence[Stream], law: str, scale: float, shift: float = 0.0) -> Tensor:
    """x plus ``scale`` times (numbers of a law + ``shift``), a batch of one copy for each stream.

    Streams that can add all at once, with a static method ``plus``, do so; it may decline by returning None.
    """
    plus = getattr(streams[0], "plus", None) if streams else None
    batch = None if plus is None else plus(streams, x, law, scale, shift)
    if batch is not None:
        return batch
    batch = filled(x, streams, law)
    return (batch.add_(shift) if shift else batch).mul_(scale).add_(x)


def filled(x: Tensor, streams: Sequence[Stream], law: str) -> Tensor:
    """A batch of the shape of x for each stream, which fills it with numbers of a law: in as many threads as it allows.

    Each stream's numbers are its own, so threads change none of them.
    """
    batch = x.new_empty((len(streams), *x.shape))
    entries = list(batch)
    threads = min(getattr(streams[0], "threads", 1) if streams else 1, len(entries))
    if batch.is_cuda or threads < 2 or x.numel() < PARALLEL_FROM:
        for stream, entry in zip(streams, entries, strict=True):
            _fill(stream, entry, law)
        return batch
    for _ in _pool(os.getpid(), threads).map(_fill, streams, entries, [law] * len(entries)):
        pass
    return batch


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of a process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="noise")


def _fill(stream: Stream, entry: Tensor, law: str) -> None:
    if law == "laplace":  # a difference of two exponentials is Laplace
        stream.exponential_(entry).sub_(stream.exponential_(entry.new_empty(entry.shape)))
    else:
        getattr(stream, f"{law}_")(entry)
