"""A network in lower precision (autocast): noise, normalisation and weights stay in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from segcertify.errors import unknown
from segcertify.models.wrappers.adapters import adapt
from segcertify.sampling.segmenter import Segmenter, for_category

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def with_precision(model: Segmenter, precision: str) -> Segmenter:
    """The model itself for ``fp32``, else the model under autocast to ``bf16`` or ``fp16``.

    The certificate is then about the network as it runs in that precision.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    return model if precision == "fp32" else Autocast(model, PRECISIONS[precision])


class Autocast(nn.Module):
    """A model that runs under autocast and gives its scores in single precision."""

    def __init__(self, model: Segmenter, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = adapt(model), dtype
        self.training = self.model.training

    @property
    def random(self) -> bool:
        """Whether the model declares that it is random."""
        return self.model.random

    def for_category(self, category: str) -> Autocast:
        """The same for inputs of a category, if the model wants to know it."""
        return Autocast(for_category(self.model, category), self.dtype)

    def identity(self) -> dict[str, Any]:
        """The precision."""
        return {"precision": next(name for name, dtype in PRECISIONS.items() if dtype == self.dtype)}

    def forward(self, batch: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """The model's scores for the batch."""
        with torch.autocast(batch.device.type, dtype=self.dtype):
            scores: torch.Tensor = self.model(batch, seeds)
        return scores.float() if scores.is_floating_point() else scores
