"""Whether a model fits its training data: checked before the long work."""

import torch
from torch import nn

from segcertify.data import DataSet
from segcertify.data.domain import CLOUD
from segcertify.errors import InputError
from segcertify.models.networks.denoiser import Denoiser
from segcertify.sampling.segmenter import upsampled
from segcertify.training.recipe import DENOISING, Recipe
from segcertify.training.streaming import with_category


def require_fit(model: nn.Module, data: DataSet, validation: DataSet | None, recipe: Recipe) -> None:
    """Raise `InputError` unless the model has weights to train and takes the inputs and classes of both data sets.

    A denoiser is trained by its own objective, on images of any classes.
    """
    crop = recipe.crop
    if isinstance(model, Denoiser) != (recipe.objective == DENOISING):
        raise InputError(
            f"the objective {DENOISING} is for the model denoiser, and for no other: got the objective "
            f"{recipe.objective} for a {type(model).__name__}"
        )
    if validation is not None and validation.classes != data.classes:
        raise InputError(f"{validation.name} has other classes than {data.name}")
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(f"{type(model).__name__} has no weights to train")
    if isinstance(model, Denoiser):
        if data.domain is CLOUD:
            raise InputError(f"a denoiser takes images, but {data.name} holds clouds")
        return
    require_logits(model, data, crop=crop)
    if validation is not None:
        _require_logits(model, _first(validation), validation)


def require_logits(model: nn.Module, data: DataSet, *, crop: tuple[int, int]) -> None:
    """Raise `InputError` unless the model gives logits of the data's classes for its clouds, or for crops of images."""
    _require_logits(model, _first(data) if data.domain is CLOUD else torch.full((1, 3, *crop), 0.5), data)


def _first(data: DataSet) -> torch.Tensor:
    """The first scene as a batch, as the pool has it."""
    return torch.from_numpy(with_category(data[0], data))[None]


def _require_logits(model: nn.Module, x: torch.Tensor, data: DataSet) -> None:
    """The model's output for x must be logits of the data's classes."""
    training = model.training
    try:
        with torch.no_grad():
            logits = model.eval()(x.to(next(model.parameters(), x).device))
    except RuntimeError as error:
        raise InputError(
            f"the model cannot take inputs {tuple(x.shape)}, as of {data.name} (of images, crop sets the size in "
            f"training): {error}"
        ) from error
    finally:
        model.train(training)
    if not isinstance(logits, torch.Tensor) or logits.ndim != x.ndim or logits.shape[1] != len(data.classes):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        components = "points" if data.domain is CLOUD else "height, width"
        raise InputError(
            f"the model must give logits (B, {len(data.classes)}, {components}) for {data.name}, but gave {got}"
        )
    upsampled(logits, x)  # raises if they are finer than x
