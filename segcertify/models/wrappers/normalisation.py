"""Normalisation inside the model, so that sigma stays in the units of the input ([0, 1] for images)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from segcertify.errors import InputError, require_finite, require_positive

Numbers = Sequence[float]
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Normalise(nn.Module):
    """(x - mean) / std per channel, in buffers that move with the model but stay out of its state dict.

    >>> Normalise([0.5], [0.25])(torch.ones(1, 1, 1, 2))
    tensor([[[[2., 2.]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Numbers, std: Numbers) -> None:
        super().__init__()
        means = [require_finite("mean", value) for value in mean]
        stds = [require_positive("std", value) for value in std]
        if not means or len(means) != len(stds):
            raise InputError(f"mean and std must have one entry per channel, but got {len(means)} and {len(stds)}")
        for name, values in (("mean", means), ("std", stds)):  # on the CPU even where a network is built on "meta"
            self.register_buffer(name, torch.tensor(values, device="cpu").view(1, -1, 1, 1), persistent=False)

    def forward(self, batch: Tensor) -> Tensor:
        """The batch (B, channels, H, W), normalised, in its own type."""
        if batch.ndim != 4 or batch.shape[1] != self.mean.shape[1]:
            wanted = f"images (B, {self.mean.shape[1]}, H, W)"
            raise InputError(f"this model normalises {wanted}, but got shape {tuple(batch.shape)}")
        return (batch - self.mean.to(batch)) / self.std.to(batch)

    def description(self) -> dict[str, list[float]]:
        """Mean and std as lists of the shortest numbers that give the same single-precision ones."""
        numbers = {"mean": self.mean.float().cpu().flatten().numpy(), "std": self.std.float().cpu().flatten().numpy()}
        return {name: [float(str(value)) for value in values] for name, values in numbers.items()}

    identity = description
