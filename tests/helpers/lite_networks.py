"""Lites with random weights whose every layer has something to say."""

import torch
from torch import nn

from segcertify.models.folding import folded
from segcertify.models.networks.lite import Lite


def lively(stride=16, size=0):
    torch.manual_seed(stride + size)
    net = Lite(classes=4, width=8, stride=stride, size=size)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the statistics of one batch, so that each layer's signal is alive
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
    with torch.no_grad():
        net(torch.rand(4, 3, 64, 64))
    return net.eval()


def without_norms(net):
    return folded(net, torch.rand(1, 3, 64, 64).to(next(net.parameters())))[0]
