"""What is drawn, and the radius it proves. Noises are frozen data; nothing heavy is imported."""

from __future__ import annotations

import dataclasses
from typing import Any

from segcertify.errors import InputError, unknown
from segcertify.noise.base import Noise, Stream, largest_radius
from segcertify.noise.gaussian import Gaussian
from segcertify.noise.laplace import Laplace
from segcertify.noise.names import EXAMPLES, FAMILIES, NAMES, NoiseName, name_of, parse
from segcertify.noise.rotation import AxisRotation, Rotation
from segcertify.noise.scale import scale_for
from segcertify.noise.uniform import Uniform

__all__ = [
    "EXAMPLES",
    "FAMILIES",
    "NAMES",
    "AxisRotation",
    "Gaussian",
    "Laplace",
    "Noise",
    "NoiseName",
    "Rotation",
    "Stream",
    "Uniform",
    "largest_radius",
    "name_of",
    "parse",
    "scale_for",
]


def require_noise(noise: Noise) -> Noise:
    """The noise, if it is one."""
    known = tuple(family.noise for family in FAMILIES.values())
    if isinstance(noise, type) or not isinstance(noise, (*known, Noise)):  # the protocol last: it is slow
        raise InputError(f"noise must be a noise such as Gaussian(0.25), but got {noise!r}")
    return noise


def to_plain(noise: Noise) -> dict[str, Any]:
    """The noise as plain values, for a file's header."""
    if type(noise).__name__ not in FAMILIES:
        raise InputError(f"{noise!r} cannot be written to a file: only {', '.join(FAMILIES)} can be read back")
    return {"type": type(noise).__name__, **dataclasses.asdict(noise)}


def from_plain(values: dict[str, Any]) -> Noise:
    """The noise that `to_plain` wrote down."""
    fields = dict(values)
    name = fields.pop("type", None)
    if name not in FAMILIES:
        raise unknown("noise", name, FAMILIES)
    try:
        noise: Noise = FAMILIES[name].noise(
            **{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
        )
    except TypeError as error:
        raise InputError(f"unreadable noise {values!r}: {error}") from None
    return noise
