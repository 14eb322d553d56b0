"""Numbers as text: bounds are rounded outward, and a count stands beside its noun.

A text is rounded as the number's shortest decimal form: read back as a float, a lower bound is at most the number, and
an upper bound at least. A NaN, which is no number, is a dash.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext

NOTHING = "-"
"""Instead of a number that does not exist or that nothing is claimed of."""


def exact(value: float) -> str:
    """All digits of a setting, without a point that it does not need: 0.25, 1, 0.9999999.

    >>> exact(1.0), exact(0.1 + 0.2)
    ('1', '0.30000000000000004')
    """
    return repr(float(value)).removesuffix(".0")


def lower(value: float, decimals: int = 4) -> str:
    """A lower bound in so many decimals, never above the number.

    >>> lower(0.99998), lower(0.7)
    ('0.9999', '0.7000')
    """
    return _fixed(value, decimals, ROUND_FLOOR)


def upper(value: float, decimals: int = 4) -> str:
    """An upper bound in so many decimals, never below the number."""
    return _fixed(value, decimals, ROUND_CEILING)


def measured(value: float, decimals: int = 4) -> str:
    """The nearest text of a share that was measured; 0 and 1 stand for nothing else.

    >>> measured(0.99998), measured(1.0), measured(0.00001), measured(0.12345678)
    ('0.9999', '1.0000', '0.0001', '0.1235')
    """
    text = _fixed(value, decimals, ROUND_HALF_EVEN)
    if math.isnan(value) or float(text) not in (0.0, 1.0) or float(text) == value:
        return text
    return (upper if float(text) < value else lower)(value, decimals)


def percent(share: float, decimals: int = 1) -> str:
    """A measured share in percent: 100 % is all of it, and 0 % nothing."""
    return f"{_hundred(share, decimals, measured(share, decimals + 2))}%"


def lower_percent(share: float, decimals: int = 1) -> str:
    """A lower bound in percent, never above the share."""
    return f"{_hundred(share, decimals, lower(share, decimals + 2))}%"


def exact_percent(share: float) -> str:
    """All digits of a share that is a setting, in percent.

    >>> exact_percent(0.5), exact_percent(0.57), exact_percent(0.999)
    ('50%', '57%', '99.9%')
    """
    return f"{_plain(Decimal(repr(float(share))) * 100)}%"


def lower_value(value: float) -> str:
    """A lower bound on a number of any size, never above it: whole numbers whole, others in four decimals."""
    return f"{int(value):,}" if float(value).is_integer() else lower(value)


def upper_value(value: float) -> str:
    """An upper bound on a number of any size, never below it: whole numbers whole, others in four decimals.

    >>> lower_value(12345.0), upper_value(12345.00001)
    ('12,345', '12345.0001')
    """
    return f"{int(value):,}" if float(value).is_integer() else upper(value)


def radius_text(value: float, digits: int = 6) -> str:
    """A radius in so many significant digits, never above the number; "0" of all that is not above 0.

    >>> radius_text(0.168622, 3), radius_text(0.3)
    ('0.168', '0.3')
    """
    return _significant(value, digits, ROUND_FLOOR)


def upper_digits(value: float, digits: int = 6) -> str:
    """An upper bound above 0 in so many significant digits, never below the number."""
    return _significant(value, digits, ROUND_CEILING)


def confidence(alpha: float, claims: int = 1) -> str:
    """1 - claims alpha, rounded down, with two digits of what is missing to 1; "0" if nothing is left.

    >>> confidence(0.001, 31), confidence(1e-9), confidence(0.001, 1000)
    ('0.969', '0.999999999', '0')
    """
    with localcontext(prec=400):  # a double has at most 324 + 17 decimals before claims multiply it
        missing = claims * Decimal(repr(float(alpha)))
        if missing >= 1:
            return "0"
        unit = Decimal(1).scaleb(min(missing.adjusted() - 1, -3))
        return _plain((1 - missing).quantize(unit, ROUND_FLOOR))


def union_bound(alpha: float, claims: int) -> str:
    """Claims times alpha, rounded up: how likely it is at most that any of so many claims is false."""
    return _significant(claims * Decimal(repr(float(alpha))), 6, ROUND_CEILING)


def counted(count: int, noun: str) -> str:
    """A count and its noun: 1 scene, 2 scenes.

    >>> counted(1, "scene"), counted(1234, "scene")
    ('1 scene', '1,234 scenes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _fixed(value: float, decimals: int, rounding: str) -> str:
    if math.isnan(value):
        return NOTHING
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding):f}"


def _hundred(share: float, decimals: int, text: str) -> str:
    return text if math.isnan(share) else f"{Decimal(text) * 100:.{decimals}f}"


def _significant(value: float | Decimal, digits: int, rounding: str) -> str:
    if value <= 0:
        return "0"
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return _plain(number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1), rounding))


def _plain(number: Decimal) -> str:
    """Without zeros at the end; with an exponent where that is much shorter."""
    text = f"{number.normalize():f}"
    return text if number == 0 or abs(number.adjusted()) < 5 else exact(float(number))
