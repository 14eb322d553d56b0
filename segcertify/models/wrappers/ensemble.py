"""Ensemble: several networks that answer together, which noise moves less than any of them [Horvath2022]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import interpolate

from segcertify.errors import InputError, require_positive

SCALES = (0.125, 8.0)
"""The smallest and the largest scale of a view."""

LARGEST = 100
"""No ensemble has more members or views."""


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

    def answer(self, member: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        """A member's logits of images that it sees this way, the right way round again."""
        if self.scale != 1:
            size = [max(1, math.floor(side * self.scale + 0.5)) for side in batch.shape[2:]]
            batch = interpolate(batch, size=size, mode="bilinear", align_corners=False)
        return member(batch.flip(-1)).flip(-1) if self.mirrored else member(batch)  # type: ignore[no-any-return]


class Ensemble(nn.Module):
    """The mean of its members' logits, of all their ``views`` of the image.

    Members and views may answer at different resolutions: the first one's is taken, or the image's if that is
    coarser.

    >>> double = nn.Conv2d(3, 2, 1)
    >>> Ensemble([double, double], views=[View(), View(0.5)])(torch.zeros(1, 3, 8, 6)).shape
    torch.Size([1, 2, 8, 6])
    """

    def __init__(self, members: Sequence[nn.Module], *, views: Sequence[View] = (View(),)) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member, but got none")
        if not views:
            raise InputError("an ensemble needs at least one view of the image, such as View(), but got none")
        for name, given in (("members", members), ("views", views)):
            if len(given) > LARGEST:
                raise InputError(f"an ensemble has at most {LARGEST} {name}, but got {len(given)}")
        self.members, self.views = nn.ModuleList(members), tuple(views)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits (B, classes, h, w) of images (B, channels, H, W)."""
        answers = [view.answer(member, batch) for member in self.members for view in self.views]
        size = [min(sides) for sides in zip(answers[0].shape[2:], batch.shape[2:], strict=True)]
        return torch.stack([_resized(answer, size) for answer in answers]).mean(0)

    def identity(self) -> dict[str, Any]:
        """What decides its answers, beside the members."""
        return {"views": [[view.scale, view.mirrored] for view in self.views]}


def _resized(answer: torch.Tensor, size: list[int]) -> torch.Tensor:
    """Logits at another resolution."""
    if list(answer.shape[2:]) == size:
        return answer
    return interpolate(answer, size=size, mode="bilinear", align_corners=False)
