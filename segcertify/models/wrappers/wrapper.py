"""Wrapper: a module around another model, of the same mode, randomness and categories."""

import copy
from collections.abc import Callable
from typing import Any, Self

from torch import nn

from segcertify.sampling.segmenter import for_category


def unwrapped(model: nn.Module) -> nn.Module:
    """The network inside all wrappers of this kind."""
    while isinstance(model, Wrapper) and isinstance(model.model, nn.Module):
        model = model.model
    return model


class Wrapper(nn.Module):
    """A module around ``model``, which is what a wrapped model's card is looked for in."""

    def __init__(self, model: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self.training = model.training if isinstance(model, nn.Module) else False

    @property
    def random(self) -> bool:
        """Whether the model declares that it is random."""
        return bool(getattr(self.model, "random", False))

    def for_category(self, category: str) -> Self:
        """The same for inputs of a category, if the model wants to know it."""
        model = for_category(self.model, category)
        if model is self.model:
            return self
        other = copy.copy(self)
        other._modules = dict(self._modules)  # or setting the copy's model would set that of the original
        other.model = model
        return other
