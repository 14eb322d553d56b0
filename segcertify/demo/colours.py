"""The demo's model: every pixel to the nearest of a few colours, after a blur."""

from __future__ import annotations

import torch
from scipy.cluster.vq import kmeans2
from torch import nn


class ColourRegions(nn.Module):
    """Blurs an image and scores each pixel by its distance to each palette colour: logits (B, classes, H, W).

    The blur removes most of the noise, so the regions can be certified without
    any training. The palette is fitted once and then fixed: certificates are
    about this fixed function.
    """

    def __init__(self, colours: torch.Tensor, blur: float) -> None:
        super().__init__()
        reach = int(3 * blur)
        line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / blur) ** 2)
        self.kernel = nn.Parameter((line / line.sum()).repeat(3, 1, 1, 1), requires_grad=False)  # (3, 1, 1, size)
        self.colours = nn.Parameter(colours, requires_grad=False)  # (classes, 3)

    @classmethod
    def fit(cls, image: torch.Tensor, *, classes: int, blur: float = 4.0, seed: int = 0) -> ColourRegions:
        """Palette colours by k-means on the blurred image (3, H, W)."""
        pixels = cls(torch.zeros(classes, 3), blur).blurred(image[None])[0].flatten(1).T
        centres, _ = kmeans2(pixels.double().numpy(), classes, minit="++", seed=seed)
        return cls(torch.from_numpy(centres).float(), blur)

    def blurred(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch under a separable Gaussian blur."""
        reach = self.kernel.shape[-1] // 2
        padded = nn.functional.pad(batch, (reach, reach, reach, reach), mode="reflect")
        rows = nn.functional.conv2d(padded, self.kernel, groups=3)
        return nn.functional.conv2d(rows, self.kernel.transpose(2, 3), groups=3)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Minus the squared distance to each colour, up to a constant of the pixel."""
        scores = torch.einsum("bchw,kc->bkhw", self.blurred(batch), 2 * self.colours)
        return scores - self.colours.square().sum(1)[:, None, None]
