"""Balls: the shifts that an attack may add to an input, and how it starts, steps and stays inside.

Shifts are batches (B, ...); every entry has a ball of its own around 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from segcertify.errors import InputError, require_positive, unknown
from segcertify.noise import Stream

TINY = 1e-12


class Ball(Protocol):
    """All shifts of norm at most ``radius``."""

    @property
    def radius(self) -> float:
        """The largest norm."""

    def start(self, like: torch.Tensor, stream: Stream) -> torch.Tensor:
        """A random shift inside the ball, for a batch of one."""

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """A shift of norm 1 that raises a loss of this gradient; 0 where the gradient is 0."""

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """The shift itself where it is inside the ball, else the nearest one inside."""

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The norm of each entry (B,)."""


@dataclass(frozen=True)
class L2:
    """The Euclidean ball."""

    radius: float

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def start(self, like: torch.Tensor, stream: Stream) -> torch.Tensor:
        """Any direction is as likely as another, and any norm up to the radius."""
        towards = self.direction(stream.normal_(torch.empty_like(like)))
        return towards * (self.radius * stream.rng.random())

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient over its norm."""
        largest = per_entry(gradient.flatten(1).abs().amax(1), gradient)
        scaled = gradient / torch.where(largest > 0, largest, 1)  # so that no square vanishes
        return scaled / per_entry(self.norm(scaled), scaled).clamp(min=TINY)

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """Scaled back to the sphere where outside."""
        return shift * (self.radius / per_entry(self.norm(shift), shift).clamp(min=TINY)).clamp(max=1)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The root of the sum of squares."""
        norms: torch.Tensor = torch.linalg.vector_norm(shift.flatten(1), dim=1)
        return norms


@dataclass(frozen=True)
class Linf:
    """Every number of the input moves by at most the radius."""

    radius: float

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def start(self, like: torch.Tensor, stream: Stream) -> torch.Tensor:
        """Uniform in the ball."""
        uniform: torch.Tensor = stream.uniform_(torch.empty_like(like))
        return self.radius * (2 * uniform - 1)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient's signs."""
        return gradient.sign()

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """Each number brought back."""
        return shift.clamp(-self.radius, self.radius)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The largest size."""
        return shift.flatten(1).abs().amax(1)


@dataclass(frozen=True)
class L1:
    """All numbers together move by at most the radius; a step moves the ``part`` with the largest gradients."""

    radius: float
    part: float = 0.01

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)
        if require_positive("part", self.part) > 1:
            raise InputError(f"part must lie in (0, 1], but got {self.part!r}: 0.01 steps along 1 % of the numbers")

    def start(self, like: torch.Tensor, stream: Stream) -> torch.Tensor:
        """In the direction of Laplace noise, with any norm up to the radius."""
        towards: torch.Tensor = stream.exponential_(torch.empty_like(like))
        towards -= stream.exponential_(torch.empty_like(like))
        return towards * per_entry(self.radius * stream.rng.random() / self.norm(towards).clamp(min=TINY), like)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """The signs of the largest numbers, sharing a norm of 1 [Tramer2019]."""
        flat = gradient.flatten(1)
        largest, where = flat.abs().topk(max(1, int(self.part * flat.shape[1])), dim=1)
        signs = torch.zeros_like(flat).scatter(1, where, flat.gather(1, where).sign())
        return (signs / (largest > 0).sum(1, keepdim=True).clamp(min=1)).view_as(gradient)

    def project(self, shift: torch.Tensor) -> torch.Tensor:
        """Every number's size falls by one amount, not below 0 [Duchi2008]."""
        sizes = shift.flatten(1).abs()
        ordered = sizes.sort(1, descending=True).values
        excess = (ordered.cumsum(1) - self.radius) / torch.arange(1, sizes.shape[1] + 1, device=shift.device)
        kept = (ordered > excess).sum(1, keepdim=True).clamp(min=1)  # numbers that stay above 0
        amount = excess.gather(1, kept - 1).clamp(min=0)
        amount = torch.where(sizes.sum(1, keepdim=True) > self.radius, amount, 0)
        return shift.sign() * (sizes - amount).clamp(min=0).view_as(shift)

    def norm(self, shift: torch.Tensor) -> torch.Tensor:
        """The sum of sizes."""
        return shift.flatten(1).abs().sum(1)


BALLS: dict[str, Callable[[float], Ball]] = {"l2": L2, "linf": Linf, "l1": L1}


def ball_of(norm: str, radius: float) -> Ball:
    """The ball of a norm: ``l2``, ``linf`` or ``l1``."""
    if norm not in BALLS:
        raise unknown("norm of an attack", norm, BALLS)
    return BALLS[norm](radius)


def per_entry(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """One number for each entry of a batch, (B,), in a shape that multiplies the batch."""
    return values.view(-1, *[1] * (like.ndim - 1))
