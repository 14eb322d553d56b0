"""Average: a copy of a model whose weights follow it slowly (exponential moving average)."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Average:
    """The moving average of a model's floating-point weights and buffers; whole numbers are copied.

    The decay starts small and grows to its value, so that the first weights are
    soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        self._floats = [pair for pair in pairs if pair[0].is_floating_point()]
        self._others = [pair for pair in pairs if not pair[0].is_floating_point()]

    def update(self, step: int) -> None:
        """Move towards the model, after step ``step`` (0, 1, ...)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages, values = ([pair[side] for pair in self._floats] for side in (0, 1))
        torch._foreach_lerp_(averages, values, 1 - decay)
        for average, value in self._others:
            average.copy_(value)
