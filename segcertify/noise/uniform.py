"""Uniform noise: l1 certificates [Lee2019], [Yang2020]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from segcertify.errors import require_positive
from segcertify.noise.base import P, Stream, Tensor, above_half, concise, require_norm, round_down


@dataclass(frozen=True, repr=False)
class Uniform:
    """U[-lam, lam] on every entry.

    A label of probability above p stays the most likely one for every
    perturbation with l1 norm at most 2 lam (p - 1/2).

    >>> round(Uniform(0.5).radius(0.75), 4)
    0.25
    """

    additive: ClassVar[bool] = True
    lam: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", require_positive("lam", self.lam))

    __repr__ = concise

    @property
    def norm(self) -> str:
        return "l1"

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        require_norm(self, norm)
        return round_down(2 * self.lam * (above_half(p) - 0.5), p)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        batch = x.new_empty((len(streams), *x.shape))
        for entry, stream in zip(batch, streams, strict=True):
            stream.uniform_(entry)
        return batch.sub_(0.5).mul_(2 * self.lam).add_(x)

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Any shape will do."""

    def threat(self, norm: str) -> str:
        return f"{norm} norm"
