"""Ensemble: several networks that answer together, which noise moves less than any of them [Horvath2022]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import interpolate, log_softmax

from segcertify.errors import InputError


class Ensemble(nn.Module):
    """The logarithm of the mean of its members' class probabilities.

    With ``flip`` each member also sees the mirrored image. Members may answer at
    different resolutions: the first one's is taken.

    >>> double = nn.Conv2d(3, 2, 1)
    >>> Ensemble([double, double])(torch.zeros(1, 3, 8, 6)).shape
    torch.Size([1, 2, 8, 6])
    """

    def __init__(self, members: Sequence[nn.Module], *, flip: bool = False) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member, but got none")
        if not isinstance(flip, bool):
            raise InputError(f"flip must be True or False, but got {flip!r}")
        self.members, self.flip = nn.ModuleList(members), flip

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits (B, classes, h, w) of images (B, channels, H, W)."""
        answers: list[torch.Tensor] = []
        for member in self.members:
            answers.append(log_softmax(member(batch), 1))
            if self.flip:
                answers.append(log_softmax(member(batch.flip(-1)), 1).flip(-1))
        size = answers[0].shape[2:]
        answers = [answer if answer.shape[2:] == size else _resized(answer, size) for answer in answers]
        return torch.stack(answers).logsumexp(0) - math.log(len(answers))


def _resized(answer: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Log-probabilities at another resolution."""
    return interpolate(answer, size=tuple(size), mode="bilinear", align_corners=False)
