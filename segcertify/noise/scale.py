"""How wide a noise must be for a radius: the inverse of every noise's ``radius``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from segcertify.errors import InputError, require_positive, require_probability
from segcertify.noise.base import RADIUS_ROUNDING, Noise
from segcertify.noise.gaussian import Gaussian
from segcertify.noise.laplace import Laplace
from segcertify.noise.rotation import AxisRotation, Rotation
from segcertify.noise.uniform import Uniform

PI_ROUNDING = 1e-4
"""Pi may be given with so much more than it has: 3.1416 is all rotations, too."""

_SCALES: dict[type[Noise], Callable[[float, float], float]] = {
    Gaussian: lambda radius, tau: radius / float(special.ndtri(tau)),
    Laplace: lambda radius, tau: -radius / math.log(2 * (1 - tau)),
    Uniform: lambda radius, tau: radius / (2 * tau - 1),
    AxisRotation: lambda radius, tau: radius / float(special.ndtri(tau)),
    Rotation: lambda radius, tau: math.sqrt(2 * math.log1p((radius / float(special.ndtri(tau))) ** 2 / 2)),
}


def scale_for(noise: type[Noise], radius: float, *, tau: float) -> float:
    """The smallest scale (sigma, b or lam) with which a noise proves ``radius`` at tau, to within 1e-6 of it.

    Rotations by pi are all there are. The paper asks for sqrt(3) pi instead
    [Fischer2021, app. B], in a space of parameters in which its radius proves nothing.

    >>> round(scale_for(Rotation, math.pi, tau=0.75), 3)
    2.224
    >>> round(float(Rotation(2.224).radius(0.75)), 4)
    3.1416
    """
    if noise not in _SCALES:
        known = ", ".join(each.__name__ for each in _SCALES)
        raise InputError(f"noise must be one of the classes {known}, but got {noise!r}")
    tau = require_probability("tau", tau, low=0.5)
    radius = require_positive("radius", radius)
    if noise in (AxisRotation, Rotation):
        if radius > math.pi * (1 + PI_ROUNDING):
            raise InputError(
                f"no rotation is farther than pi, but the radius is {radius:g}: ask for pi, which is all of them"
            )
        radius = min(radius, math.pi)
    scale = _SCALES[noise](radius * (1 + 2 * RADIUS_ROUNDING), tau)  # radii are rounded down
    return float(np.nextafter(scale, np.inf))
