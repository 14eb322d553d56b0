"""What is drawn, and the radius it proves. Noises are frozen data; nothing heavy is imported."""

from segcertify.errors import InputError
from segcertify.noise.additive import Gaussian, Laplace, Uniform
from segcertify.noise.base import Noise, Stream, largest_radius
from segcertify.noise.names import (
    EXAMPLES,
    FAMILIES,
    NAMES,
    NoiseName,
    common_name,
    described,
    from_plain,
    identified,
    is_proven,
    name_of,
    parse,
    to_plain,
)
from segcertify.noise.rotation import AxisRotation, Rotation
from segcertify.noise.scale import scale_for

__all__ = [
    "EXAMPLES", "FAMILIES", "NAMES", "AxisRotation", "Gaussian", "Laplace", "Noise", "NoiseName", "Rotation",
    "Stream", "Uniform", "common_name", "described", "from_plain", "identified", "is_proven", "largest_radius",
    "name_of", "parse", "scale_for", "to_plain",
]  # fmt: skip


def require_noise(noise: Noise) -> Noise:
    """The noise, if it is one."""
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise InputError(f"noise must be a noise such as Gaussian(0.25), with all that Noise has, but got {noise!r}")
    return noise
