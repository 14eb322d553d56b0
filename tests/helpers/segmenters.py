"""Small segmenters, inputs and comparisons that several tests use."""

import numpy as np
import torch
from torch import nn

import segcertify as sc

NOISE = sc.Gaussian(0.25)


def stripes(batch):
    """Labels (B, *x.shape): which quarter-wide stripe each entry falls in. Exact, so counts are too."""
    return torch.clamp((4 * batch).floor(), -20, 20).long() + 20


class Conv(nn.Module):
    """A small network: logits at full, half or quarter resolution, or labels."""

    def __init__(self, stride=1, classes=5):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, classes, 3, stride=stride, padding=1)

    def forward(self, batch):
        return self.layer(batch)


def image(seed=0, shape=(3, 12, 16)):
    return torch.from_numpy(np.random.default_rng(seed).random(shape)).float()


def same(a, b):
    return np.array_equal(a.candidate, b.candidate) and np.array_equal(a.agree, b.agree)
