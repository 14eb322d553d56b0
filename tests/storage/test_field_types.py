"""The types of a file's values: each field of every kind of certificate and of votes, with every other type."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

import segcertify as sc
from segcertify.metrics.certificate import MetricCertificate
from segcertify.sets.certificate import SetCertificate
from segcertify.storage import archive
from segcertify.storage.field_types import require_types

OTHERS = (None, True, 1, 0.75, "x", "0.75", [], [0.75], [[1]], {}, {"a": 1}, 10**30)
"""A value of every type, some of which look like a number."""


@dataclass
class Kind:
    number: float
    count: int | None
    pairs: tuple[tuple[int, int], ...]
    one: Literal["a", "b"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"number": [0.75]}, "number must be a number"),
        ({"number": True}, "number must be a number"),
        ({"number": "0.75"}, "number must be a number"),
        ({"count": 1.0}, "count must be an integer or nothing"),
        ({"pairs": [[1, 2], [3]]}, "pairs must be a list"),
        ({"pairs": {"1": 2}}, "pairs must be a list"),
        ({"one": ["a"]}, "one must be a text"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(values, words):
    with pytest.raises(sc.InputError, match=words):
        require_types(values, Kind)


def test_values_of_the_right_types_pass():
    require_types({"number": 1, "count": None, "pairs": [[1, 2]], "one": "a", "unknown": []}, Kind)
    require_types({"number": 0.5, "count": 3, "pairs": []}, Kind)


def _votes():
    rng = np.random.default_rng(0)
    agree = rng.integers(90, 101, (3, 4))
    counts = np.stack([agree, 100 - agree])
    return sc.Votes(
        np.zeros((3, 4), int), agree, 100, 5, sc.Gaussian(0.25), seed=0, input_shape=(3, 3, 4), counts=counts, classes=2
    )


MADE = {
    sc.Votes: _votes,
    sc.Certificate: lambda: sc.certify_votes(_votes(), tau=0.75, alpha=0.1),
    SetCertificate: lambda: sc.certify_sets(_votes(), tau=0.75, alpha=0.1),
    MetricCertificate: lambda: MetricCertificate("accuracy", np.linspace(0, 1, 40), 0.1, 0.5, 0.1, sc.Gaussian(0.25)),
}


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_every_field_of_a_file_is_checked_when_it_is_read(kind, tmp_path):
    """A file with a right digest and a wrong value is refused with InputError, or can be used and said in words."""
    path = tmp_path / "file"
    MADE[kind]().save(path)
    content = archive.read_content(path)
    name = content.format.removeprefix("segcertify.")
    refused = 0
    for field in content.header:
        for other in OTHERS:
            header = content.header | {field: other}
            archive.write(path, kind=name, version=content.version, header=header, arrays=content.arrays)
            try:
                found = kind.load(path)
            except sc.InputError:
                refused += 1
                continue
            repr(found)
            for words in ("claim", "threat", "units", "input_radius", "bound"):
                getattr(found, words, None)
    assert refused > 0.7 * len(content.header) * len(OTHERS)
