"""How wide a noise must be for a radius: the inverse of every noise's ``radius``."""

import math

from segcertify.errors import InputError, require_positive, require_probability
from segcertify.noise.base import RADIUS_ROUNDING, Noise, largest_radius
from segcertify.noise.names import require_family

PI_ROUNDING = 1e-4
"""Radii up to pi (1 + 1e-4) are accepted for rotations, so that 3.1416 counts as pi."""


def scale_for(noise: type[Noise], radius: float, *, tau: float) -> float:
    """The smallest scale (sigma, b or lam) with which a noise proves ``radius`` at tau, to within 1e-6 of it.

    No rotation is farther than pi. The paper asks for sqrt(3) pi instead
    [Fischer2021, app. B], in a space of parameters in which its radius proves nothing.

    >>> from segcertify.noise import Rotation
    >>> round(scale_for(Rotation, math.pi, tau=0.75), 3)
    2.224
    >>> round(Rotation(2.224).radius(0.75), 4)
    3.1416
    """
    family = require_family(noise)
    tau = require_probability("tau", tau, low=0.5)
    radius, largest = require_positive("radius", radius), largest_radius(family.noise(family.usual))
    if radius > largest * (1 + PI_ROUNDING):
        raise InputError(f"no rotation is farther than pi, but the radius is {radius:g}: pi is all of them")
    wanted = min(radius, largest) * (1 + 2 * RADIUS_ROUNDING)  # radii are rounded down
    return math.nextafter(family.scale(wanted / float(family.noise.unit_radius(tau))), math.inf)
