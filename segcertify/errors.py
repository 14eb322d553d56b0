"""The error for bad input: it says what was expected, what came, and what to do."""

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Self


class InputError(ValueError):
    """A value, shape or file that cannot be used; raised before long work starts."""


class ModelError(InputError):
    """The model itself failed, perhaps in the middle of long work: what was done before can be kept."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """What the model raised, in one line."""
        said = " ".join(str(error).split())
        return cls(f"the model failed, {type(error).__name__}: {said[:300]}{' ...' if said[300:] else ''}")


def unknown(
    what: str, name: object, known: Iterable[str], *, forms: Iterable[str] | None = None, where: str = ""
) -> InputError:
    """The error for a name that is none of the ``known`` ones: it suggests the nearest, and lists all.

    ``forms`` are listed instead, where a name alone does not say how it is written; ``where`` follows the name.

    >>> raise unknown("correction", "bonferoni", ["holm", "bonferroni", "bh"])
    Traceback (most recent call last):
    segcertify.errors.InputError: unknown correction 'bonferoni': did you mean 'bonferroni'? Use holm, bonferroni or bh
    """
    names = {entry.lower(): entry for entry in known}
    *others, last = list(names.values() if forms is None else forms) or ["nothing: there is none"]
    choices = f"{', '.join(others)} or {last}" if others else last
    near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.65)
    hint = f"did you mean {names[near[0]]!r}? Use" if near else "use"
    return InputError(f"unknown {what} {name!r}{where}: {hint} {choices}")


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


def require_not_negative(name: str, value: float) -> float:
    """``value`` as a finite float of at least zero."""
    number = require_finite(name, value)
    if number < 0:
        raise InputError(f"{name} must not be negative, but got {value!r}")
    return number


def require_finite(name: str, value: float) -> float:
    """``value`` as a finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, but got {value!r}") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, but got {value!r}")
    return number


LARGEST, LARGEST_SEED = 2**63 - 1, 2**256 - 1
"""The largest count that arrays have, and the largest seed."""


def require_integer(name: str, value: int, *, at_least: int = 1, at_most: int = LARGEST) -> int:
    """``value`` as an int within bounds; 100.0 and True are refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer, but got {value!r}") from None
    if number < at_least:
        raise InputError(f"{name} must be an integer not less than {at_least}, but got {value!r:.60}")
    if number > at_most:
        digits = f"an integer of {number.bit_length()} bits"
        raise InputError(f"{name} must be an integer of at most {at_most.bit_length()} bits, but got {digits}")
    return number
