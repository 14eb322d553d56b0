"""Losses of an attack on a segmentation: what it raises, from logits (B, classes, *components) and labels."""

from typing import Protocol

import torch
from torch.nn.functional import cosine_similarity, cross_entropy, one_hot

from segcertify.records.settings import LOSSES as NAMES
from segcertify.records.settings import require_loss_name


class Loss(Protocol):
    """What an attack raises."""

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor, *, done: float) -> torch.Tensor:
        """One number an entry (B,); ``valid`` are the components that count, ``done`` is from 0 at the first step to 1.

        Labels are classes, also where not valid.
        """


def mean_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor, *, done: float, weight: torch.Tensor | float = 1
) -> torch.Tensor:
    """The paper's: the mean cross-entropy of the valid components, times a weight [Fischer2021, App. C]."""
    losses = (cross_entropy(logits, labels, reduction="none") * weight).flatten(1)
    counts = valid.flatten(1).to(losses)
    return (losses * counts).sum(1) / counts.sum(1).clamp(min=1)


def segpgd(logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor, *, done: float) -> torch.Tensor:
    """First the components that are still right, later all alike: weights 1 - done / 2 and done / 2 [Gu2022]."""
    weight = torch.where(logits.argmax(1) != labels, done / 2, 1 - done / 2)
    return mean_cross_entropy(logits, labels, valid, done=done, weight=weight)


def cospgd(logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor, *, done: float) -> torch.Tensor:
    """Each component weighs as much as its probabilities still resemble its label, by their cosine [Agnihotri2024]."""
    truth = one_hot(labels, logits.shape[1]).movedim(-1, 1).to(logits)
    weight = cosine_similarity(logits.softmax(1), truth, dim=1).detach()
    return mean_cross_entropy(logits, labels, valid, done=done, weight=weight)


LOSSES: dict[str, Loss] = dict(zip(NAMES, (mean_cross_entropy, segpgd, cospgd), strict=True))


def require_loss(name: str) -> Loss:
    """A loss by name."""
    return LOSSES[require_loss_name(name)]
