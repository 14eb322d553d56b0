"""Validation: a model's scores under one noise draw per scene, while it trains. They are no certificate."""

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
