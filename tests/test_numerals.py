"""Numbers as text: a printed bound is never better than the number, read back as a float."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from segcertify import numerals
from segcertify.numerals import (
    confidence,
    counted,
    exact,
    lower,
    lower_percent,
    measured,
    percent,
    radius_text,
    union_bound,
    upper,
    upper_digits,
)


def shares():
    """Fractions as scores are, numbers of every size near 0 and 1, and all decimals of four digits."""
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 10**6, 4000)
    near = 10.0 ** -rng.uniform(0, 17, 2000)
    some = [*(rng.integers(0, whole + 1) / whole), *near, *(1 - near), *(np.arange(10001) / 10000), 0.0, 1.0]
    return [float(each) for each in (*some, *np.nextafter(some, 0), *np.nextafter(some, 1))]


SHARES = shares()


@pytest.mark.parametrize("decimals", [1, 2, 4, 6])
def test_bounds_are_rounded_outward(decimals):
    for value in SHARES:
        low, high, unit = float(lower(value, decimals)), float(upper(value, decimals)), 10.0**-decimals
        assert value - unit * (1 + 1e-9) < low <= value <= high < value + unit * (1 + 1e-9), value
        near = float(measured(value, decimals))
        assert low <= near <= high
        assert abs(near - value) <= unit * (1 + 1e-9)
        assert (near in (0, 1)) == (value in (0, 1))
        assert len(measured(value, decimals)) == 2 + decimals
        assert float(lower_percent(value).rstrip("%")) / 100 <= value * (1 + 1e-15)
        assert (percent(value) in ("0.0%", "100.0%")) == (value in (0, 1))


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
def test_significant_digits_are_rounded_outward(digits):
    rng = np.random.default_rng(1)
    for value in [*(10.0 ** rng.uniform(-12, 9, 3000)), *(each for each in SHARES if each > 0), 0.3, 99999.5, 1e5]:
        low, high = float(radius_text(value, digits)), float(upper_digits(value, digits))
        assert low <= value <= high
        assert high - low <= 10.0 ** (1 - digits) * 1.0001 * value
    assert radius_text(0.0) == radius_text(-1.0) == "0"


def test_the_probability_of_many_claims_is_rounded_down_and_never_1():
    for alpha in (0.1, 0.001, 0.00012345678, 1e-9, 1e-17, 0.5, 1e-28, 1.2345678901234567e-40):
        for claims in (1, 3, 31, 184, 2975):
            text, missing = confidence(alpha, claims), claims * Decimal(repr(alpha))
            assert Fraction(text) <= max(0, 1 - Fraction(missing))
            assert text != "1"
            assert (text == "0") == (missing >= 1)
            assert Decimal(union_bound(alpha, claims)) >= missing
    assert [confidence(1e-17), confidence(0.001, 5), confidence(0.00002, 1)] == ["0." + "9" * 17, "0.995", "0.99998"]
    assert [confidence(1e-28), confidence(5e-324)] == ["0." + "9" * 28, "0." + "9" * 323 + "5"]
    assert union_bound(0.1, 3) == "0.3"


def test_what_is_exact_stays_so():
    for value in (0.25, 1.0, 0.9999999, 1e-05, 0.1 + 0.2, np.float64(0.75)):
        assert float(exact(value)) == value
    assert (exact(1.0), exact(np.float64(0.75))) == ("1", "0.75")


def test_words():
    assert [counted(n, "scene") for n in (0, 1, 2, 1234)] == ["0 scenes", "1 scene", "2 scenes", "1,234 scenes"]
    assert {text(math.nan) for text in (lower, upper, measured)} == {numerals.NOTHING}
