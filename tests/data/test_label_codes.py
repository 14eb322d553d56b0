"""Codes: values to classes."""

import numpy as np
import pytest

from segcertify import InputError
from segcertify.data.label_codes import IGNORE, decode, ranges, require_codes


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64, np.uint16])
def test_each_value_gets_its_class(kind):
    codes = {9: 1, 2: 0, 5: IGNORE, 3: 1}
    raw = np.random.default_rng(0).choice(list(codes), (6, 7)).astype(kind)
    target = decode(raw, codes, where=str)
    assert target.dtype == np.int32
    assert target.tolist() == [[codes[value] for value in row] for row in raw.astype(int).tolist()]


@pytest.mark.parametrize("value", [-3, -2, 1, 4, 10, 11, 10**12])
def test_any_other_value_is_an_error(value):
    codes = {-1: IGNORE, 0: 0, 2: 1, 3: 1, 9: 0}
    assert decode(np.array([-1, 9]), codes, where=str).tolist() == [IGNORE, 0]
    with pytest.raises(
        InputError, match=rf"row 2 holds the value {value}, .* \(allowed: -1 \.\. 0, 2 \.\. 3, 9\): corr"
    ):
        decode(np.array([9.0, -1, value, 77]), codes, where=lambda i: f"row {i}")


def test_codes_that_mean_nothing():
    for codes in ({}, {0: 2}, {0: -2}, {-1: 0}):
        with pytest.raises(InputError, match=r"some: label values must map to 0 \.\. 1, but got"):
            require_codes("some", codes, 2)
    require_codes("some", {-1: IGNORE, 0: 1}, 2, smallest=-1)
    assert ranges([4]) == "4"


def test_the_option_that_ignores_a_value_is_named():
    with pytest.raises(InputError, match=r"value 11, .*\(ignore=11, in certify --ignore 11\)"):
        decode(np.array([0, 11]), {0: 0}, where=lambda index: f"pixel {index}")
