"""A volume, certified voxel by voxel, with bounds on its size under attack: writes `volume.png`.

The scan is a blurred ball, the model a local mean. The picture shows the middle slices along the three axes.
"""

import torch
from torch import nn

import segcertify as sc


def ball(size: int = 32) -> torch.Tensor:
    """A scan (1, size, size, size) in [0, 1]: bright in the middle."""
    along = torch.linspace(-1, 1, size)
    distance = torch.stack(torch.meshgrid(along, along, along, indexing="ij")).norm(dim=0)
    return (1.3 - distance).clamp(0, 1)[None]


class LocalMean(nn.Module):
    """Logits for outside and inside, from the mean of 5 x 5 x 5 voxels."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """(B, 1, D, H, W) to (B, 2, D, H, W)."""
        inside = nn.functional.avg_pool3d(batch, 5, 1, 2, count_include_pad=False) - 0.7
        return torch.cat([-inside, inside], 1)


if __name__ == "__main__":
    x, model = ball(), LocalMean().eval()
    certificate = sc.certify(model, x, sigma=0.25, tau=0.75, n=100, n0=10, seed=0)
    print(certificate.sentence)
    size = sc.certify_metric(model, x, sc.metrics.volume(1), sigma=0.25, radius=certificate.radius, n=60, seed=1)
    print(size.sentence)
    certificate.plot(x).savefig("volume.png", dpi=100)
