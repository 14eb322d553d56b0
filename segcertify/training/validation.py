"""Validation: a model's scores under one noise draw per scene, while it trains. They are no certificate."""

import math

import numpy as np
import torch
from torch import nn

from segcertify import metrics
from segcertify.data.augmentation import UNLABELLED
from segcertify.training.objectives import full_size, on_columns
from segcertify.training.pool import Pool


@torch.no_grad()
def validate(model: nn.Module, pool: Pool, *, sigma: float, seed: int = 0) -> dict[str, float]:
    """Accuracy and pooled mIoU of a model's labels on whole scenes, each with its own noise."""
    training = model.training
    model.eval()
    total = np.zeros((pool.classes, pool.classes + 1), np.int64)
    generator = None
    for x, target in pool.scenes():
        generator = generator or torch.Generator(x.device).manual_seed(seed)
        noise = sigma * torch.randn(x.shape, generator=generator, device=x.device)
        labels = full_size(model, x + on_columns(noise, pool.noised)).argmax(1)[0].cpu().numpy()
        truth = target.cpu().numpy().astype(np.int64)
        total += metrics.confusion(labels, truth, truth != UNLABELLED, classes=pool.classes)
    model.train(training)
    return {"accuracy": metrics.accuracy(total), "mIoU": metrics.mean_iou([total])}


@torch.no_grad()
def validate_denoiser(model: nn.Module, pool: Pool, *, sigma: float, seed: int = 0) -> dict[str, float]:
    """The peak signal-to-noise ratio, in decibels, of denoised images against the clean ones: its mean over images."""
    training = model.training
    model.eval()
    ratios, generator = [], None
    for x, _ in pool.scenes():
        generator = generator or torch.Generator(x.device).manual_seed(seed)
        noisy = x + sigma * torch.randn(x.shape, generator=generator, device=x.device)
        clean = model(noisy, torch.full((1,), sigma, device=x.device)).clamp(0, 1)
        ratios.append(-10 * math.log10(max(float((clean - x).square().mean()), 1e-12)))
    model.train(training)
    return {"PSNR": float(np.mean(ratios))}
