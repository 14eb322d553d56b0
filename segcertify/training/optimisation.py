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
    """The factor on the learning rate at step 0, 1, ...: a linear warm-up times poly, cosine or step decay.

    >>> [round(rate(step, Recipe(iterations=4, warmup=0.0, power=1.0)), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    warm = recipe.warmup * recipe.iterations
    rise = min(1.0, (step + 1) / warm) if warm else 1.0
    done = step / recipe.iterations
    if recipe.schedule == "step":
        fall = recipe.gamma ** decays(step, recipe)
    else:
        fall = (1 - done) ** recipe.power if recipe.schedule == "poly" else (1 + math.cos(math.pi * done)) / 2
    return rise * max(fall, recipe.lr_floor)


def decays(step: int, recipe: Recipe) -> int:
    """How often ``decay_every`` epochs have passed before a step."""
    return step * recipe.epochs // (recipe.decay_every * recipe.iterations)


def set_norm_momentum(model: nn.Module, step: int, recipe: Recipe) -> bool:
    """Give the batch norms the recipe's momentum for a step; returns whether any changed."""
    first, least = recipe.bn_momentum
    if not first:
        return False
    momentum, changed = max(first * recipe.gamma ** decays(step, recipe), least), False
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum != momentum:
            module.momentum, changed = momentum, True
    return changed


def optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD, Adam or AdamW, with the recipe's weight decay, and a pretrained encoder's own learning rate."""
    groups = _groups(model, recipe)
    fused = groups[0]["params"][0].is_cuda  # one kernel for many weights
    if recipe.optimiser == "sgd":
        nesterov = recipe.nesterov and recipe.momentum > 0
        return torch.optim.SGD(groups, lr=recipe.lr, momentum=recipe.momentum, nesterov=nesterov, fused=fused)
    kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=recipe.lr, fused=fused)


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
            decay = recipe.weight_decay if weight.ndim > 1 or recipe.decay_norms else 0.0
            groups.setdefault((lr, decay), []).append(weight)
    return [{"params": w, "lr": lr, "initial_lr": lr, "weight_decay": decay} for (lr, decay), w in groups.items()]
