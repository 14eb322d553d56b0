"""A network in lower precision (autocast): noise, normalisation and weights stay in single precision."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from segcertify.errors import unknown
from segcertify.models.wrappers.adapters import Adapted, adapt
from segcertify.models.wrappers.wrapper import Wrapper
from segcertify.sampling.segmenter import Resizing, Segmenter

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def with_precision(model: Segmenter, precision: str) -> Segmenter:
    """The model itself for ``fp32``, else the model under autocast to ``bf16`` or ``fp16``.

    The certificate is then about the network as it runs in that precision.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    return model if precision == "fp32" else Autocast(model, precision)


class Autocast(Wrapper):
    """A model that runs under autocast and gives its scores in single precision."""

    def __init__(self, model: Segmenter, precision: str) -> None:
        super().__init__(adapt(model))
        self.precision = precision

    def identity(self) -> dict[str, Any]:
        """The precision."""
        return {"precision": self.precision}

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """The model's scores for the batch."""
        return self._under_autocast(self.model, batch, seeds)

    def resized_to(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """As the model, if it resizes its images."""
        inner = self._resizing()
        return None if inner is None else inner.resized_to(size)

    def log_scores(self, image: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """As the model's, under autocast."""
        inner = self._resizing()
        assert inner is not None
        return self._under_autocast(inner.log_scores, image, seeds)

    def _resizing(self) -> Resizing | None:
        inner = self.model.model if isinstance(self.model, Adapted) and self.model.plain else self.model
        return inner if isinstance(inner, Resizing) else None

    def _under_autocast(self, ask: Callable[..., Tensor], batch: Tensor, seeds: Sequence[int] | None) -> Tensor:
        with torch.autocast(batch.device.type, dtype=PRECISIONS[self.precision]):
            scores = ask(batch, seeds)
        return scores.float() if scores.is_floating_point() else scores
