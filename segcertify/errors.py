"""The error for bad input: it says what was expected, what came, and what to do."""

from __future__ import annotations

import math
import operator


class InputError(ValueError):
    """A value, shape or file that cannot be used; raised before long work starts."""


def require_probability(name: str, value: float, *, low: float = 0.0, closed: bool = False) -> float:
    """``value`` as a float inside (low, 1), or [low, 1) if ``closed``."""
    number = require_finite(name, value)
    if not ((number >= low if closed else number > low) and number < 1):
        raise InputError(f"{name} must lie in {'[' if closed else '('}{low:g}, 1), but got {value!r}")
    return number


def require_positive(name: str, value: float) -> float:
    """``value`` as a finite float above zero."""
    number = require_finite(name, value)
    if number <= 0:
        raise InputError(f"{name} must be positive, but got {value!r}")
    return number


def require_finite(name: str, value: float) -> float:
    """``value`` as a finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, but got {value!r}") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, but got {value!r}")
    return number


def require_integer(name: str, value: int, *, at_least: int = 1) -> int:
    """``value`` as an int of at least ``at_least``; 100.0 and True are refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer, but got {value!r}") from None
    if number < at_least:
        raise InputError(f"{name} must be an integer not less than {at_least}, but got {value!r}")
    return number
