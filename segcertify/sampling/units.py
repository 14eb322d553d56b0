"""The units of an input, which sigma and the radius have: 0..255 where [0, 1] is meant proves next to nothing."""

import warnings

import torch

from segcertify.noise import Noise

SMALL = 0.01
"""Noise below this share of the largest value, or of a volume's range, was chosen for other units."""


def warn_of_units(x: torch.Tensor, noise: Noise) -> None:
    """Warn of an image in 0..255 under noise for images in [0, 1], and of volumes in units as fine.

    Wider noise shows that the units are meant.
    """
    scale = getattr(noise, "factor", None)
    if not noise.additive or scale is None:
        return
    if x.ndim == 4:
        _warn_of_a_volume(x, noise, scale)
    if x.ndim != 3 or x.shape[0] not in (1, 3):
        return
    low, high = (float(value) for value in torch.aminmax(x))
    if low >= 0 and high > 2 and scale < SMALL * high:
        warnings.warn(
            f"the image has values in {low:g} .. {high:g}, in whose units the noise ({noise}) and the radius are: "
            "for a model of images in [0, 1] divide by 255; for a model of such values take a sigma in their units, "
            f"such as {round(scale * 255, 4):g}",
            stacklevel=4,
        )


def _warn_of_a_volume(x: torch.Tensor, noise: Noise, scale: float) -> None:
    low, high = (float(value) for value in torch.aminmax(x))
    span = high - low
    if scale < SMALL * span:
        warnings.warn(
            f"the volume has values in {low:g} .. {high:g}, of which the noise ({noise}) is {scale / span:.2g}: scale "
            "the values as the model takes them, such as to [0, 1], or take a sigma in their units, such as "
            f"{scale * span:.3g}",
            stacklevel=5,
        )
