"""Balls: the perturbations that an attack may use, and how it starts, steps and stays inside.

Shifts are batches (B, ...); every entry has a ball of its own around 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from segcertify.errors import InputError, require_positive

TINY = 1e-12


class Ball(Protocol):
    """All shifts of norm at most ``radius``."""

    @property
    def radius(self) -> float:
        """The largest norm."""

    def start(self, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A random shift inside the ball for each entry of a batch."""

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The shift of norm 1 that raises a loss of this gradient the most; 0 where the gradient is 0."""

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """The shift itself where it is inside the ball, else a nearest one inside."""

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The norm of each entry (B,)."""


@dataclass(frozen=True)
class L2:
    """The Euclidean ball."""

    radius: float

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def start(self, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Uniform in direction, and in radius as is uniform in a ball of few dimensions: anywhere between 0 and R."""
        towards = self.direction(_normal(like, generator))
        return towards * self.radius * _column(_uniform(like, generator), like)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient over its norm."""
        return gradient / _column(self.norm(gradient), gradient).clamp(min=TINY)

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """Scaled back to the sphere where outside."""
        return shift * (self.radius / _column(self.norm(shift), shift).clamp(min=TINY)).clamp(max=1)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The root of the sum of squares."""
        norms: torch.Tensor = torch.linalg.vector_norm(shift.flatten(1), dim=1)
        return norms


@dataclass(frozen=True)
class Linf:
    """Every entry of the input moves by at most the radius."""

    radius: float

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def start(self, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Uniform in the ball."""
        uniform = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
        return self.radius * (2 * uniform - 1)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient's signs."""
        return gradient.sign()

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """Each entry brought back."""
        return shift.clamp(-self.radius, self.radius)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The largest entry."""
        return shift.flatten(1).abs().amax(1)


@dataclass(frozen=True)
class L1:
    """All entries together move by at most the radius; a step moves the ``part`` with the largest gradients."""

    radius: float
    part: float = 0.01

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)
        if not 0 < require_positive("part", self.part) <= 1:
            raise InputError(f"part must lie in (0, 1], but got {self.part!r}")

    def start(self, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """In the direction of Laplace noise, anywhere between 0 and R."""
        towards = _normal(like, generator)
        towards = (
            towards.sign() * -torch.rand(like.shape, generator=generator, device=like.device).clamp(min=TINY).log()
        )
        scale = self.radius * _uniform(like, generator) / self.norm(towards).clamp(min=TINY)
        return towards * _column(scale, like)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The signs of the largest entries, sharing a norm of 1 [Tramer2019]."""
        flat = gradient.flatten(1)
        count = max(1, int(self.part * flat.shape[1]))
        threshold = flat.abs().topk(count, dim=1).values[:, -1:]
        signs = flat.sign() * (flat.abs() >= threshold)
        return (signs / signs.abs().sum(1, keepdim=True).clamp(min=1)).view_as(gradient)

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """The nearest point of the ball: every entry's size falls by one amount, not below 0 [Duchi2008]."""
        sizes = shift.flatten(1).abs()
        ordered = sizes.sort(1, descending=True).values
        excess = (ordered.cumsum(1) - self.radius) / torch.arange(1, sizes.shape[1] + 1, device=shift.device)
        kept = (ordered > excess).sum(1, keepdim=True).clamp(min=1)  # entries that stay above 0
        amount = excess.gather(1, kept - 1).clamp(min=0)
        amount = torch.where(sizes.sum(1, keepdim=True) > self.radius, amount, torch.zeros_like(amount))
        return shift.sign() * (sizes - amount).clamp(min=0).view_as(shift)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The sum of sizes."""
        return shift.flatten(1).abs().sum(1)


BALLS: dict[str, Callable[[float], Ball]] = {"l2": L2, "linf": Linf, "l1": L1}


def ball(norm: str, radius: float) -> Ball:
    """The ball of a norm: ``l2``, ``linf`` or ``l1``."""
    if norm not in BALLS:
        raise InputError(f"no attack in the norm {norm!r}: use {', '.join(BALLS)}")
    return BALLS[norm](radius)


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def _uniform(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One number in [0, 1) for each entry of a batch."""
    return torch.rand(len(like), generator=generator, device=like.device, dtype=like.dtype)


def _column(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Numbers (B,) in a shape that goes with a batch."""
    return values.view(-1, *[1] * (like.ndim - 1))
