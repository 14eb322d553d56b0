"""Scores by category, by hand."""

import numpy as np
import pytest

from segcertify import metrics
from segcertify.records import Record
from segcertify.report.categories import by_category, shape_scores

PARTS = {"Mug": [0, 1], "Knife": [2, 3], "Cap": [4, 5]}


def record(category, labels, target):
    matrix = metrics.confusion(np.array(labels), np.array(target), np.ones(len(target), bool), classes=6)
    return Record("x", "certified", len(target), len(target), category, confusion=metrics.to_plain(matrix))


def test_categories_by_hand():
    """Two mugs of IoU (1/2 + 2/3) / 2 and (1 + 1) / 2, a knife of (0 + 1/2) / 2; no caps; one shape of no category."""
    records = [
        record("Mug", [0, 1, 1, 1], [0, 0, 1, 1]),
        record("Knife", [-1, -1, 3, -1], [2, 2, 3, 3]),
        record("Mug", [0, 0], [0, 0]),
        record(None, [5], [5]),
    ]
    knife, mug = by_category(records, PARTS)
    assert (knife.name, knife.shapes, knife.accuracy, knife.abstained) == ("Knife", 1, 1 / 4, 3 / 4)
    assert knife.iou == pytest.approx(1 / 4)
    assert knife.worst_case_iou == pytest.approx((0 + 1 / 4) / 2)  # two abstained points of part 2 may become part 3
    assert (mug.name, mug.shapes, mug.accuracy, mug.abstained) == ("Mug", 2, 5 / 6, 0)
    assert mug.iou == mug.worst_case_iou == pytest.approx((7 / 12 + 1) / 2)  # nothing abstains
    scores = shape_scores([knife, mug])
    assert scores.mean == pytest.approx((7 / 12 + 1 + 1 / 4) / 3)
    assert scores.category_mean == pytest.approx((19 / 24 + 1 / 4) / 2)
    assert scores.worst_case == pytest.approx((7 / 12 + 1 + 1 / 8) / 3)
