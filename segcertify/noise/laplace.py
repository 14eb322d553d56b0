"""Laplace noise: l1 certificates [Teng2020], [Yang2020]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segcertify.errors import require_positive
from segcertify.noise.base import P, Stream, Tensor, above_half, concise, require_norm, round_down


@dataclass(frozen=True, repr=False)
class Laplace:
    """Laplace(0, b) on every entry: density exp(-|t| / b) / (2 b).

    A label of probability above p stays the most likely one for every
    perturbation with l1 norm at most -b ln(2 (1 - p)).

    >>> round(Laplace(0.25).radius(0.75), 4)
    0.1733
    """

    additive: ClassVar[bool] = True
    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", require_positive("b", self.b))

    __repr__ = concise

    @property
    def norm(self) -> str:
        return "l1"

    def radius(self, p: P, norm: str | None = None, input_shape: tuple[int, ...] | None = None) -> P:
        require_norm(self, norm)
        return round_down(-self.b * np.log1p(-(2 * above_half(p) - 1)), p)

    def draw(self, x: Tensor, streams: Sequence[Stream]) -> Tensor:
        batch = x.new_empty((len(streams), *x.shape))
        other = x.new_empty(x.shape)
        for entry, stream in zip(batch, streams, strict=True):
            stream.exponential_(entry)
            entry.sub_(stream.exponential_(other))  # a difference of two exponentials is Laplace
        return batch.mul_(self.b).add_(x)

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Any shape will do."""

    def threat(self, norm: str) -> str:
        return f"{norm} norm"
