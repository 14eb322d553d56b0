"""Shared by the tests of networks for parts of shapes: random weights, and a card."""

import torch
from torch import nn

from segcertify.metrics.shapenet import PART_NAMES
from segcertify.models import Card
from segcertify.models.families import describe


def lively(model, seed=0):
    """The network with random weights and lively batch-norm statistics, in evaluation mode."""
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        elif isinstance(module, nn.Conv1d | nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight)
            nn.init.normal_(module.bias, std=0.1)
    return model.eval()


def card(model):
    return Card(
        architecture=describe(model),
        classes=PART_NAMES,
        colours=((0, 0, 0),) * 50,
        data="toy (3 scenes)",
        objective="cross-entropy",
        sigma=(0.1,),
        recipe={},
        metrics={},
        licence="none",
        date="2025-01-31",
        version="0",
    )
