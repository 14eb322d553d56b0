"""The error for an unknown name: it suggests the nearest one and lists them all."""

import pytest

from segcertify import InputError
from segcertify.errors import unknown


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("holmm", ["holm", "bh"], "unknown correction 'holmm': did you mean 'holm'? Use holm or bh"),
        ("HOLM", ["holm"], "unknown correction 'HOLM': did you mean 'holm'? Use holm"),
        ("x", ["holm", "bh", "by"], "unknown correction 'x': use holm, bh or by"),
        (None, {"holm": 1, "bh": 2}, "unknown correction None: use holm or bh"),
        (["holm"], ("by",), "unknown correction ['holm']: use by"),
        ("x", [], "unknown correction 'x': use nothing: there is none"),
    ],
)
def test_unknown(name, known, message):
    error = unknown("correction", name, known)
    assert isinstance(error, InputError)
    assert str(error) == message


def test_unknown_with_forms():
    error = unknown("option", "widht", ["width"], forms=["width=NUMBER"], where=" in 'lite?widht=3'")
    assert str(error) == "unknown option 'widht' in 'lite?widht=3': did you mean 'width'? Use width=NUMBER"
