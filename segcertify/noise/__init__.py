"""What is drawn, and the radius it proves. Noises are frozen data; nothing heavy is imported."""

from __future__ import annotations

import dataclasses
from typing import Any

from segcertify.errors import InputError
from segcertify.noise.base import Noise, Stream
from segcertify.noise.gaussian import Gaussian
from segcertify.noise.laplace import Laplace
from segcertify.noise.rotation import AxisRotation, Rotation
from segcertify.noise.scale import scale_for
from segcertify.noise.uniform import Uniform

__all__ = ["NOISES", "AxisRotation", "Gaussian", "Laplace", "Noise", "Rotation", "Stream", "Uniform", "scale_for"]

NOISES: dict[str, type[Noise]] = {cls.__name__: cls for cls in (Gaussian, Laplace, Uniform, AxisRotation, Rotation)}


def require_noise(noise: Noise) -> Noise:
    """The noise, if it is one."""
    if isinstance(noise, type) or not isinstance(noise, (*NOISES.values(), Noise)):  # the protocol last: it is slow
        raise InputError(f"noise must be a noise such as Gaussian(0.25), but got {noise!r}")
    return noise


def to_plain(noise: Noise) -> dict[str, Any]:
    """The noise as plain values, for a file's header."""
    if type(noise).__name__ not in NOISES:
        raise InputError(f"{noise!r} cannot be written to a file: only {', '.join(NOISES)} can be read back")
    return {"type": type(noise).__name__, **dataclasses.asdict(noise)}


def from_plain(values: dict[str, Any]) -> Noise:
    """The noise that `to_plain` wrote down."""
    fields = dict(values)
    name = fields.pop("type", None)
    if name not in NOISES:
        raise InputError(f"unknown noise {name!r}: expected one of {', '.join(NOISES)}")
    try:
        return NOISES[name](**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
    except TypeError as error:
        raise InputError(f"unreadable noise {values!r}: {error}") from None
