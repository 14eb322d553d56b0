"""Training base models on noise: `train` follows a `Recipe` over a data set and writes a model with its card."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segcertify.training.loop import train as train
    from segcertify.training.recipe import Intervals as Intervals
    from segcertify.training.recipe import Recipe as Recipe
    from segcertify.training.recipe_files import read_recipe as read_recipe

_MODULES = {"Recipe": "recipe", "Intervals": "recipe", "read_recipe": "recipe_files", "train": "loop"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a name's module on first use: a recipe needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'segcertify.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"segcertify.training.{_MODULES[name]}"), name)
