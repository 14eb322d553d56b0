"""Tables of sets: outward rounding, and what several scenes claim together."""

from dataclasses import astuple

import numpy as np
import pytest

from segcertify import metrics
from segcertify.claims import Claim
from segcertify.errors import InputError
from segcertify.noise import Gaussian
from segcertify.records import Record
from segcertify.report.sets import named_set_table, set_class_table, set_rows, set_table
from segcertify.sets.groups import Groups

COUNTS = {
    "classes": 3, "valid": 7, "certified": 3, "only": 1, "of_size": [4, 6, 7], "right": [2, 1, 0],
    "inside": [3, 2, 1], "truth": [3, 3, 1], "possible": [1, 2, 1], "informative": [1, 1, 1],
    "small": [[[0, 1], 2, 1], [[0, 1, 2], 1, 1]],
}  # fmt: skip


def claim(alpha=0.001):
    return lambda sigma, correction: Claim.named(correction, alpha, Gaussian(sigma))


def record(name="a", **changes):
    radius = float(Gaussian(0.25).radius(0.75))
    values = {"sigma": 0.25, "n": 100, "tau": 0.75, "radius": radius, "N": 9, "method": "exclusion", "sets": COUNTS}
    return Record(name, "sets", components=9, valid=7, **values | changes)


def test_bounds_are_rounded_down():
    rows = set_rows([record()], claim())
    table = set_table(rows, title="t")
    cells = dict(zip(table.heads, table.rows[0], strict=True))
    assert cells["certified and right"] == "0.4285"  # 3 / 7 = 0.42857
    assert cells["mIoU worst case, majority or nothing"] == "0.2333"  # (2/4 + 1/5 + 0/2) / 3
    assert cells["truth in set"] == "0.8571"
    assert cells["R"] == "0.1686"
    classes = set_class_table(rows, ("background", "cat", "dog"), title="t")
    assert classes.rows[0] == ("background", "0.5000", "0.6666", "1.0000")
    named = named_set_table(rows, ("background", "cat", "dog"), title="t")
    assert named.rows == (
        ("sigma=0.25, n=100, tau=0.75", "background or cat", "0.2857", "0.5000"),
        ("sigma=0.25, n=100, tau=0.75", "any", "0.1429", "1.0000"),
    )


def test_several_scenes():
    rows = set_rows([record(name) for name in "abc"], claim())
    assert rows[0].scenes == 3
    assert rows[0].counts.valid == 21
    assert astuple(rows[0].scores) == pytest.approx(astuple(set_rows([record()], claim())[0].scores))
    sure = set_table(rows, title="t").notes[1]
    assert sure.startswith("With probability at least 0.997 over the noise draws, for all tested components of all 3 ")
    none = set_table(set_rows([record(name) for name in "abc"], claim(0.4)), title="t").notes[1]
    assert "of a scene and all" in none
    assert "Nothing is claimed of all 3 scenes together" in none


def test_classes_without_ground_truth_are_left_out():
    counts = COUNTS | {"truth": [4, 3, 0], "inside": [3, 2, 0]}
    table = set_class_table(set_rows([record(sets=counts)], claim()), ("a", "b", "c"), title="t")
    assert [row[0] for row in table.rows] == ["a", "b"]


def test_a_file_radius_has_a_column_where_all_have_one():
    rows = set_rows([record("a", input_radius=0.4), record("b", input_radius=0.5)], claim())
    table = set_table(rows, title="t")
    assert table.rows[0][table.heads.index("R in files, least")] == "0.4"


def test_scenes_of_other_classes_do_not_add_up():
    other = metrics.sets_to_plain(metrics.set_counts(_two_classes(), np.array([0]), np.array([True]), classes=2))
    with pytest.raises(InputError, match="do not add up"):
        set_rows([record("a"), record("b", sets=other)], claim())


def _two_classes():
    return Groups(np.array([0]), np.array([[True], [False]]), 0.1, 0.01)
