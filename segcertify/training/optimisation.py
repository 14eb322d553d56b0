"""The learning rate over a run, and which weights take which."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from segcertify.training.recipe import Recipe


def rate(step: int, recipe: Recipe) -> float:
    """The factor on the learning rate at step 0, 1, ...: a linear warm-up times poly or cosine decay.

    >>> [round(rate(step, Recipe(steps=4, warmup=0.0, power=1.0)), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    warm = recipe.warmup * recipe.steps
    rise = min(1.0, (step + 1) / warm) if warm else 1.0
    done = step / recipe.steps
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


def set_rate(optimiser: torch.optim.Optimizer, step: int, recipe: Recipe) -> float:
    """Set every group's learning rate for a step; returns the first factor times lr."""
    factor = rate(step, recipe)
    for group in optimiser.param_groups:
        group["lr"] = factor * group["full_lr"]
    return factor * recipe.lr


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Weights by learning rate and weight decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            lr = recipe.lr * (recipe.encoder_lr if name.startswith("encoder.") else 1)
            decay = recipe.weight_decay if weight.ndim > 1 else 0.0
            groups.setdefault((lr, decay), []).append(weight)
    return [
        {"params": weights, "lr": lr, "full_lr": lr, "weight_decay": decay} for (lr, decay), weights in groups.items()
    ]
