"""Augmentation of images on their device: scale, rotation, crop, flip and colour, one draw for each image."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import grid_sample

from segcertify.training.pool import GREY, IGNORE, ImagePool
from segcertify.training.recipe import Recipe

ASPECT = 0.1
"""Width and height are scaled apart by up to this much (of a logarithm)."""

LUMA = (0.299, 0.587, 0.114)


def augment(pool: ImagePool, indices: torch.Tensor, recipe: Recipe) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (B, 3, *crop) in [0, 1] and targets (B, *crop) for one training step."""
    images, targets = pool.images[indices].float(), pool.targets[indices]
    grid = _grid(pool.sizes[indices].float(), images.shape[-2:], recipe)
    x = grid_sample(images - GREY, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    x = (x + GREY) / 255
    wanted = targets[:, None].float() - IGNORE  # zero stands for ignore, which is what lies outside
    target = grid_sample(wanted, grid, mode="nearest", padding_mode="zeros", align_corners=False)[:, 0] + IGNORE
    return _colour(x, recipe.colour), target.round().long()


def _grid(sizes: torch.Tensor, canvas: torch.Size, recipe: Recipe) -> torch.Tensor:
    """Where in its canvas each pixel of the crops comes from, as `grid_sample` wants it: (B, *crop, 2), x first."""
    count, device = len(sizes), sizes.device
    low, high = math.log(recipe.scale[0]), math.log(recipe.scale[1])
    scale = low + (high - low) * torch.rand(count, 1, device=device)
    scale = torch.exp(scale + ASPECT * _symmetric(count, 2, device=device) * (high > low))  # of height and of width
    angle = math.radians(recipe.rotate) * _symmetric(count, device=device)
    mirror = torch.where(torch.rand(count, device=device) < 0.5 * recipe.flip, -1.0, 1.0)
    crop = torch.tensor(recipe.crop, device=device)
    room = sizes - crop / scale  # where negative, the crop shows all of the image and some grey
    centre = sizes / 2 + room.abs() / 2 * _symmetric(count, 2, device=device)
    y = (torch.arange(recipe.crop[0], device=device) - (recipe.crop[0] - 1) / 2).view(1, -1, 1)
    x = (torch.arange(recipe.crop[1], device=device) - (recipe.crop[1] - 1) / 2).view(1, 1, -1)
    cos, sin = (part(angle).view(-1, 1, 1) for part in (torch.cos, torch.sin))
    mirror = mirror.view(-1, 1, 1)
    rows = centre[:, 0].view(-1, 1, 1) + (cos * y - sin * mirror * x) / scale[:, 0].view(-1, 1, 1)
    columns = centre[:, 1].view(-1, 1, 1) + (sin * y + cos * mirror * x) / scale[:, 1].view(-1, 1, 1)
    return torch.stack([2 * columns / canvas[1] - 1, 2 * rows / canvas[0] - 1], -1)


def _colour(x: torch.Tensor, strength: float) -> torch.Tensor:
    """Random gamma, saturation, contrast, brightness and tint, back in [0, 1]: the noise comes later, unclipped."""
    if strength == 0:
        return x.clamp(0, 1)
    count, device = len(x), x.device

    def drawn(channels: int, spread: float) -> torch.Tensor:
        return torch.exp(strength * spread * _symmetric(count, channels, 1, 1, device=device))

    x = x.clamp(1e-3, 1) ** drawn(1, 0.6)
    luma = (x * torch.tensor(LUMA, device=device).view(1, 3, 1, 1)).sum(1, keepdim=True)
    x = luma + (x - luma) * drawn(1, 1.0)
    mean = luma.mean((2, 3), keepdim=True)
    x = mean + (x - mean) * drawn(1, 0.6)
    return (x * drawn(1, 0.5) * drawn(3, 0.15)).clamp(0, 1)


def _symmetric(*shape: int, device: torch.device) -> torch.Tensor:
    """Uniform draws from [-1, 1]."""
    return 2 * torch.rand(*shape, device=device) - 1
