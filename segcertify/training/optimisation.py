"""Optimisation: which weights take which learning rate, how it changes over a run, and the average of the weights."""

import math
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

from segcertify.training.recipe import Recipe

Tensors = tuple[torch.Tensor, ...] | list[torch.Tensor]


def rate(step: int, recipe: Recipe) -> float:
    """The factor on the learning rate at step 0, 1, ...: a linear warm-up times poly or cosine decay.

    >>> [round(rate(step, Recipe(steps=4, warmup=0.0, power=1.0)), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    warm = recipe.warmup * recipe.iterations
    rise = min(1.0, (step + 1) / warm) if warm else 1.0
    done = step / recipe.iterations
    fall = (1 - done) ** recipe.power if recipe.schedule == "poly" else (1 + math.cos(math.pi * done)) / 2
    return rise * fall


def optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW or SGD; no weight decay on biases and norms, and a pretrained encoder's own learning rate."""
    groups = _groups(model, recipe)
    fused = groups[0]["params"][0].is_cuda  # one kernel for many weights
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(
            groups, lr=recipe.lr, momentum=recipe.momentum, nesterov=recipe.momentum > 0, fused=fused
        )
    return torch.optim.AdamW(groups, lr=recipe.lr, fused=fused)


def schedule(optimiser: torch.optim.Optimizer, recipe: Recipe, *, done: int = 0) -> LambdaLR:
    """The schedule of every group's learning rate, set for the step after ``done`` steps."""
    return LambdaLR(optimiser, lambda step: rate(step, recipe), last_epoch=done - 1)


def moving_average(model: nn.Module, decay: float) -> AveragedModel:
    """A copy whose weights and floating-point buffers follow the model's slowly; integer buffers are copied.

    After step j = 0, 1, ... the average keeps the part min(decay, (1 + j) / (10 + j)) of itself, so that the first
    weights are soon forgotten. They count as the first model that was averaged: torch would else replace them.
    """

    def update(averages: Tensors, values: Tensors, count: torch.Tensor | int) -> None:
        step = int(count) - 1
        if averages[0].is_floating_point():
            torch._foreach_lerp_(averages, values, 1 - min(decay, (1 + step) / (10 + step)))
        else:
            torch._foreach_copy_(averages, values)

    average = AveragedModel(model, multi_avg_fn=update, use_buffers=True).eval().requires_grad_(False)
    average.n_averaged.fill_(1)
    return average


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Weights by learning rate and weight decay; a resumed schedule reads the rate from ``initial_lr``."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            lr = recipe.lr * (recipe.encoder_lr if name.startswith("encoder.") else 1)
            decay = recipe.weight_decay if weight.ndim > 1 else 0.0
            groups.setdefault((lr, decay), []).append(weight)
    return [{"params": w, "lr": lr, "initial_lr": lr, "weight_decay": decay} for (lr, decay), w in groups.items()]
