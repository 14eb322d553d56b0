"""Certify any model in three lines: here a small random network on a synthetic image.

Writes `any_model.png` to the working folder, and prints what was proved.
"""

import torch
from torch import nn

import segcertify as sc
from segcertify.figures.image import certified_figure, save_figure


def two_discs(size: int = 96) -> torch.Tensor:
    """An image (3, size, size) in [0, 1]: a red and a blue disc on grey."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    image = torch.full((3, size, size), 0.5)
    image[:, (x + 0.4) ** 2 + y**2 < 0.12] = torch.tensor([0.9, 0.1, 0.1])[:, None]
    image[:, (x - 0.4) ** 2 + y**2 < 0.12] = torch.tensor([0.1, 0.1, 0.9])[:, None]
    return image


class ColourNet(nn.Module):
    """Logits for grey, red and blue from a blurred image."""

    def __init__(self) -> None:
        super().__init__()
        self.blur = nn.AvgPool2d(9, stride=1, padding=4, count_include_pad=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) to (B, 3, H, W)."""
        red, green, blue = self.blur(batch).unbind(1)
        return torch.stack([green, red - 0.3, blue - 0.3], 1)


if __name__ == "__main__":
    x, model = two_discs(), ColourNet().eval()
    certificate = sc.certify(model, x, sigma=0.25, tau=0.75, n=100, n0=10, alpha=0.001, seed=0)
    print(certificate.claim)
    save_figure(certified_figure(x.numpy(), model(x[None])[0].argmax(0).numpy(), certificate), "any_model.png")
