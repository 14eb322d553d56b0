"""Models with sigmoids (binary and multi-label) as segmenters: yes or no for each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from segcertify.errors import InputError, require_finite
from segcertify.models.wrappers.wrapper import Wrapper
from segcertify.sampling.model_outputs import scores_in
from segcertify.sampling.segmenter import require_finite_scores, upsampled


class Decisions(Wrapper):
    """Label 1 where a score is ``above`` a number, else 0: a decision for each class and component.

    A binary model gives scores (B, 1, *components) or (B, *components), and gets labels (B, *components). A model of
    several classes that may hold at once gives (B, classes, *components): each class of each component is then a
    component of its own, so that N is classes times pixels and a certificate's labels have the shape
    (classes, *components). Scores of images and volumes that are coarser than the input are upsampled.

    ``above`` is 0 for logits, 0.5 for probabilities.

    >>> import torch
    >>> Decisions(lambda batch: batch - 0.5)(torch.tensor([[[[0.2, 0.9]]]])).tolist()
    [[[0, 1]]]
    """

    def __init__(self, model: Callable[..., Any], *, above: float = 0.0) -> None:
        super().__init__(model)
        self.above = require_finite("above", above)

    def identity(self) -> dict[str, Any]:
        """Above what the label is 1."""
        return {"above": self.above}

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """The decisions for a batch."""
        scores = scores_in(self.model(batch) if seeds is None else self.model(batch, seeds=seeds))
        if not scores.is_floating_point():
            raise InputError(f"Decisions are for scores, but the model gave {scores.dtype}: certify it as it is")
        require_finite_scores(scores)
        if scores.ndim == batch.ndim:
            scores = upsampled(scores, batch)
        labels = (scores > self.above).long()
        return labels[:, 0] if labels.ndim == batch.ndim and labels.shape[1] == 1 else labels
