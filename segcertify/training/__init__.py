"""Training base models on noise: `train` follows a `Recipe` over a data set and writes a model with its card."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segcertify.training.loop import Every as Every
    from segcertify.training.loop import train as train
    from segcertify.training.recipe import Recipe as Recipe

_HOME = {"Recipe": "recipe", "Every": "loop", "train": "loop"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """A name from its module when asked for: a recipe needs no torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'segcertify.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"segcertify.training.{_HOME[name]}"), name)
