"""The noise of a run, by name and sigma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.noise import AxisRotation, Gaussian, Noise, Rotation

NOISES: dict[str, Callable[[float], Noise]] = {
    "gaussian": Gaussian,
    "rotation": Rotation,
    **{f"{axis}-rotation": partial(AxisRotation, axis=axis) for axis in "xyz"},
}
"""What sigma is the scale of: noise on a scene's colours or coordinates, or rotations of a cloud."""


def noise_of(noise: str | Callable[[float], Noise], sigma: float, data: DataSet) -> Noise:
    """The noise of a sigma; Gaussian noise goes on the channels that the data set names."""
    if isinstance(noise, str) and noise not in NOISES:
        raise InputError(f"unknown noise {noise!r}: use {', '.join(NOISES)}")
    made = NOISES[noise](sigma) if isinstance(noise, str) else noise(sigma)
    if isinstance(made, Gaussian) and made.channels is None:
        return replace(made, channels=data.noised, axis=data.noise_axis)
    return made
