"""Ensemble: the mean of several networks, which varies less under noise than any one of them [Horvath2022]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from segcertify.errors import InputError, require_positive
from segcertify.sampling.segmenter import is_random

SCALES = (0.125, 8.0)  # the smallest and the largest scale of a view
LARGEST = 100  # no ensemble has more members or views


@dataclass(frozen=True)
class View:
    """How a member sees an image: rescaled by a factor on its sides, mirrored or not.

    >>> View.parse("0.75m")
    View(scale=0.75, mirrored=True)
    """

    scale: float = 1.0
    mirrored: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", require_positive("the scale of a view", self.scale))
        low, high = SCALES
        if not low <= self.scale <= high:
            raise InputError(f"the scale of a view must be from {low:g} to {high:g}, but got {self.scale!r}")
        if not isinstance(self.mirrored, bool):
            raise InputError(f"a view is mirrored or not: expected True or False, but got {self.mirrored!r}")

    @classmethod
    def parse(cls, text: str) -> View:
        """The view that a text names: a scale, with an m if mirrored."""
        try:
            scale = float(text.removesuffix("m"))
        except ValueError:
            raise InputError(f"a view must be a scale such as 0.75, or 0.75m if mirrored, but got {text!r}") from None
        return cls(scale, text.endswith("m"))

    def logits(self, member: nn.Module, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """A member's logits of images that are rescaled and mirrored so; the logits are mirrored back."""
        given = {"seeds": seeds} if is_random(member) else {}
        if self.scale != 1:
            size = [max(1, math.floor(side * self.scale + 0.5)) for side in batch.shape[2:]]
            batch = interpolate(batch, size=size, mode="bilinear", align_corners=False)
        logits: Tensor = member(batch.flip(-1), **given).flip(-1) if self.mirrored else member(batch, **given)
        return logits


class Ensemble(nn.Module):
    """The mean of its members' logits, of all their ``views`` of the image.

    The logits of members and views may differ in resolution. The result has that of the first, but no more than
    the image.

    >>> double = nn.Conv2d(3, 2, 1)
    >>> Ensemble([double, double], views=[View(), View(0.5)])(torch.zeros(1, 3, 8, 6)).shape
    torch.Size([1, 2, 8, 6])
    """

    def __init__(self, members: Sequence[nn.Module], *, views: Sequence[View] = (View(),)) -> None:
        super().__init__()
        if not members or not views:
            counts = f"{len(members)} and {len(views)}"
            raise InputError(f"an ensemble needs at least one member and at least one view, but got {counts}")
        for name, values in (("members", members), ("views", views)):
            if len(values) > LARGEST:
                raise InputError(f"an ensemble has at most {LARGEST} {name}, but got {len(values)}")
        self.members, self.views = nn.ModuleList(members), tuple(views)

    @property
    def random(self) -> bool:
        """Whether a member declares that it is random: each such member gets the same seeds."""
        return any(is_random(member) for member in self.members)

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Logits (B, classes, h, w) of images (B, channels, H, W)."""
        logits = [view.logits(member, batch, seeds) for member in self.members for view in self.views]
        size = [min(sides) for sides in zip(logits[0].shape[2:], batch.shape[2:], strict=True)]
        return torch.stack([_resized(each, size) for each in logits]).mean(0)

    def identity(self) -> dict[str, Any]:
        """What decides its labels, beside the members."""
        return {"views": [[view.scale, view.mirrored] for view in self.views]}


def _resized(logits: Tensor, size: list[int]) -> Tensor:
    """Logits at another resolution."""
    if list(logits.shape[2:]) == size:
        return logits
    return interpolate(logits, size=size, mode="bilinear", align_corners=False)
