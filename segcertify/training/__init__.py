"""Training base models on noise: `train` follows a `Recipe` over a data set and writes a model with its card."""

from segcertify.training.loop import Schedule, measure, train
from segcertify.training.recipe import Recipe

__all__ = ["Recipe", "Schedule", "measure", "train"]
