"""The units of an image, which sigma and the radius have: 0..255 where [0, 1] is meant proves next to nothing."""

import warnings

import torch

from segcertify.noise import Noise

SMALL = 0.01
"""Noise below this share of the largest value was chosen for other units."""


def warn_of_units(x: torch.Tensor, noise: Noise) -> None:
    """Warn of a colour image in 0..255 under noise for images in [0, 1]. Wider noise shows that the units are meant."""
    scale = getattr(noise, "factor", None)
    if x.ndim != 3 or x.shape[0] != 3 or not noise.additive or scale is None:
        return
    low, high = (float(value) for value in torch.aminmax(x))
    if low >= 0 and high > 2 and scale < SMALL * high:
        warnings.warn(
            f"the image has values in {low:g} .. {high:g}, in whose units the noise ({noise}) and the radius are: "
            "for a model of images in [0, 1] divide by 255; for a model of such values take a sigma in their units, "
            f"such as {round(scale * 255, 4):g}",
            stacklevel=4,
        )
