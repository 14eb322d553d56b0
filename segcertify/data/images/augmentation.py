"""Augmentation of images on their device: scale, rotation, crop, flip and colour, one draw for each image."""

import math

import torch
from torch.nn.functional import grid_sample

from segcertify.data.augmentation import UNLABELLED, Augmentation

GREY = 127
"""The value of pixels outside an image."""

ASPECT = 0.1
"""The logarithms of the height's and the width's scales differ from their common part by up to this much."""

LUMA = (0.299, 0.587, 0.114)


def augment_images(
    images: torch.Tensor, targets: torch.Tensor, *, sizes: torch.Tensor, augmentation: Augmentation
) -> tuple[torch.Tensor, torch.Tensor]:
    """Crops (B, 3, *crop) in [0, 1] of byte images (B, 3, H, W), and of their targets (B, H, W).

    ``sizes`` (B, 2) holds each image's own height and width; it lies in the upper left corner of its canvas.
    """
    grid = _grid(sizes.float(), images.shape[-2:], augmentation)
    x = grid_sample(images.float() - GREY, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    x = (x + GREY) / 255
    shifted = targets[:, None].float() - UNLABELLED  # zero, which pads the outside, then stands for unlabelled
    target = grid_sample(shifted, grid, mode="nearest", padding_mode="zeros", align_corners=False)[:, 0] + UNLABELLED
    x, target = _colour(x, augmentation.colour), target.round().long()
    return paste(x, target, augmentation.paste) if augmentation.paste else (x, target)


def paste(x: torch.Tensor, target: torch.Tensor, part: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Crops and targets with a rectangle from the next crop of the batch at the same place, in ``part`` of them.

    The rectangle's sides are drawn uniformly, up to those of the crop, and then its position [Yun2019].
    """
    inside = torch.rand(len(x), 1, 1, device=x.device) < part
    for length, shape in zip(target.shape[1:], ((1, -1, 1), (1, 1, -1)), strict=True):
        side = length * torch.rand(len(x), 1, 1, device=x.device)
        start = (length - side) * torch.rand(len(x), 1, 1, device=x.device)
        place = torch.arange(length, device=x.device).view(shape)
        inside = inside & (place >= start) & (place < start + side)
    return torch.where(inside[:, None], x.roll(1, 0), x), torch.where(inside, target.roll(1, 0), target)


def _grid(sizes: torch.Tensor, canvas: torch.Size, augmentation: Augmentation) -> torch.Tensor:
    """The position in its canvas that each pixel of the crops comes from, for `grid_sample`: (B, *crop, 2), x first."""
    count, device = len(sizes), sizes.device
    low, high = (math.log(scale) for scale in augmentation.rescale)
    scale = low + (high - low) * torch.rand(count, 1, device=device)
    scale = torch.exp(scale + ASPECT * _symmetric(count, 2, device=device) * (high > low))  # of height and of width
    angle = math.radians(augmentation.rotate) * _symmetric(count, device=device)
    mirror = torch.where(torch.rand(count, device=device) < 0.5 * augmentation.flip, -1.0, 1.0)
    height, width = augmentation.crop
    room = sizes - torch.tensor((height, width), device=device) / scale  # if negative, all of the image and some grey
    centre = sizes / 2 + room.abs() / 2 * _symmetric(count, 2, device=device)
    y = (torch.arange(height, device=device) - (height - 1) / 2).view(1, -1, 1)
    x = (torch.arange(width, device=device) - (width - 1) / 2).view(1, 1, -1)
    cos, sin = (part(angle).view(-1, 1, 1) for part in (torch.cos, torch.sin))
    mirror = mirror.view(-1, 1, 1)
    rows = centre[:, 0].view(-1, 1, 1) + (cos * y - sin * mirror * x) / scale[:, 0].view(-1, 1, 1)
    columns = centre[:, 1].view(-1, 1, 1) + (sin * y + cos * mirror * x) / scale[:, 1].view(-1, 1, 1)
    return torch.stack([2 * columns / canvas[1] - 1, 2 * rows / canvas[0] - 1], -1)


def _colour(x: torch.Tensor, strength: float) -> torch.Tensor:
    """Random gamma, saturation, contrast, brightness and tint, clipped to [0, 1]; the noise, added later, is not."""
    if strength == 0:
        return x.clamp(0, 1)
    count, device = len(x), x.device

    def factor(channels: int, spread: float) -> torch.Tensor:
        return torch.exp(strength * spread * _symmetric(count, channels, 1, 1, device=device))

    x = x.clamp(1e-3, 1) ** factor(1, 0.6)
    luma = (x * torch.tensor(LUMA, device=device).view(1, 3, 1, 1)).sum(1, keepdim=True)
    x = luma + (x - luma) * factor(1, 1.0)
    mean = luma.mean((2, 3), keepdim=True)
    x = mean + (x - mean) * factor(1, 0.6)
    return (x * factor(1, 0.5) * factor(3, 0.15)).clamp(0, 1)


def _symmetric(*shape: int, device: torch.device) -> torch.Tensor:
    """Uniform draws from [-1, 1]."""
    return 2 * torch.rand(*shape, device=device) - 1
