"""Wrapper: a module around another model, of the same mode, randomness and categories."""

from __future__ import annotations

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


def like(model: nn.Module, other: Wrapper) -> None:
    """Let the sampler run a model as another one."""
    for name in ("fast", "compiled"):
        if getattr(other, name):  # else it stays the class's: what an object has of its own may be part of its identity
            setattr(model, name, True)


class Wrapper(nn.Module):
    """A module around ``model``, which is what a wrapped model's card is looked for in."""

    fast = False
    """Whether the sampler runs a faster copy (`segcertify.models.optimised`), as of models that were loaded."""
    compiled = False
    """Whether that copy is compiled, too."""

    def __init__(self, model: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        if isinstance(model, Wrapper):
            like(self, model)
        self.training = model.training if isinstance(model, nn.Module) else False

    @property
    def random(self) -> bool:
        """Whether the model declares that it is random."""
        return bool(getattr(self.model, "random", False))

    def for_sampling(self) -> Self:
        """What the sampler runs: a faster copy where that is wanted."""
        if not (self.fast or self.compiled):
            return self
        from segcertify.models.fast_copy import for_sampling

        return for_sampling(self, compile=self.compiled)

    def for_category(self, category: str) -> Self:
        """The same for inputs of a category, if the model wants to know it."""
        model = for_category(self.model, category)
        if model is self.model:
            return self
        other = copy.copy(self)
        other._modules = dict(self._modules)  # or setting the copy's model would set that of the original
        other.model = model
        return other
