"""Metrics: against plain loops, against every adversary on small cases, and by hand."""

import json
import math
import subprocess
import sys
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segcertify import ABSTAIN, InputError, metrics

LABELS, TARGET, VALID = "labels", "target", "valid"


def scene(seed, *, shape=(13, 17), classes=6, absent=()):
    """A random label map with abstentions, and a ground truth with ignored components, 0 there."""
    rng = np.random.default_rng(seed)
    present = [c for c in range(classes) if c not in absent]
    valid = rng.random(shape) < 0.8
    target = np.where(valid, rng.choice(present, shape), 0)
    labels = np.where(rng.random(shape) < 0.6, target, rng.choice(present, shape))
    return {LABELS: np.where(rng.random(shape) < 0.15, ABSTAIN, labels), TARGET: target, VALID: valid}


def matrix(one, classes=6):
    return metrics.confusion(one[LABELS], one[TARGET], one[VALID], classes=classes)


def by_sets(scenes, classes):
    """Every metric from sets of places, one place at a time: no matrix, no array arithmetic."""
    truth, labelled = {c: set() for c in range(classes)}, {c: set() for c in range(classes)}
    abstained, places = set(), set()
    for number, one in enumerate(scenes):
        for place in np.ndindex(one[LABELS].shape):
            if one[VALID][place]:
                places.add((number, place))
                truth[int(one[TARGET][place])].add((number, place))
                label = int(one[LABELS][place])
                (abstained if label == ABSTAIN else labelled[label]).add((number, place))
    right = sum(len(truth[c] & labelled[c]) for c in range(classes))
    iou, worst = {}, {}
    for c in range(classes):
        if truth[c] | labelled[c]:
            iou[c] = len(truth[c] & labelled[c]) / len(truth[c] | labelled[c])
        if truth[c]:
            against = {place for place in labelled[c] | abstained if place not in truth[c]}
            worst[c] = len(truth[c] & labelled[c]) / (len(truth[c]) + len(against))
    return {"accuracy": right / len(places), "abstention": len(abstained) / len(places), "iou": iou, "worst": worst}


def mean(values):
    return sum(values) / len(values)


@pytest.mark.parametrize("absent", [(), (2,), (0, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_all_metrics_equal_loops_over_sets(seed, absent):
    scenes = [scene(10 * seed + i, absent=absent, shape=(5 + 8 * i, 9)) for i in range(3)]
    matrices = [matrix(one) for one in scenes]
    total = sum(matrices)
    assert total.shape == (6, 7)
    expected = by_sets(scenes, 6)
    assert metrics.accuracy(total) == pytest.approx(expected["accuracy"], rel=1e-12)
    assert metrics.abstention(total) == pytest.approx(expected["abstention"], rel=1e-12)
    for values, wanted in ((metrics.iou(total), "iou"), (metrics.worst_case_iou(total), "worst")):
        assert {c: v for c, v in enumerate(values) if not np.isnan(v)} == pytest.approx(expected[wanted], rel=1e-12)
    pairs = [value for one in scenes for value in by_sets([one], 6)["iou"].values()]
    assert metrics.mean_iou(matrices, "per_image") == pytest.approx(mean(pairs), rel=1e-12)
    assert metrics.mean_iou(np.stack(matrices), "pooled") == pytest.approx(mean(expected["iou"].values()), rel=1e-12)
    assert metrics.mean_iou(matrices, "worst_case") == pytest.approx(mean(expected["worst"].values()), rel=1e-12)


def test_confusion_counts_one_by_one():
    one = scene(0)
    counted = np.zeros((6, 7), int)
    for label, target, valid in zip(*(one[name].ravel() for name in (LABELS, TARGET, VALID)), strict=True):
        if valid:
            counted[target, 6 if label == ABSTAIN else label] += 1
    np.testing.assert_array_equal(matrix(one), counted)
    assert matrix(one).sum() == one[VALID].sum()
    small = {name: array.astype(np.int8) if name != VALID else array for name, array in one.items()}
    np.testing.assert_array_equal(matrix(small), counted)  # no overflow in narrow integers
    np.testing.assert_array_equal(matrix({**one, TARGET: np.where(one[VALID], one[TARGET], 250)}), counted)


def attacks(labels, classes):
    """Every label map that agrees with the certified labels."""
    places = np.flatnonzero(labels == ABSTAIN)
    for choice in product(range(classes), repeat=len(places)):
        attacked = labels.copy()
        attacked[places] = choice
        yield attacked


@st.composite
def small_scenes(draw):
    """Up to 7 components, up to 4 of them abstained, in 2 or 3 classes."""
    classes, size = draw(st.integers(2, 3)), draw(st.integers(1, 7))
    labels = np.array(draw(st.lists(st.integers(ABSTAIN, classes - 1), min_size=size, max_size=size)))
    labels[np.flatnonzero(labels == ABSTAIN)[4:]] = 0
    target = np.array(draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size)))
    valid = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return classes, {LABELS: labels, TARGET: target, VALID: valid}


@given(small_scenes())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_adversary_gets_below_the_worst_case_and_one_attains_it(drawn):
    classes, one = drawn
    bound = metrics.worst_case_iou(matrix(one, classes))
    mean_bound = metrics.mean_iou([matrix(one, classes)], "worst_case")
    present = [c for c in range(classes) if (one[TARGET][one[VALID]] == c).any()]
    assert [c for c in range(classes) if not np.isnan(bound[c])] == present
    lowest = dict.fromkeys(present, math.inf)
    for attacked in attacks(one[LABELS], classes):
        true = by_sets([{**one, LABELS: attacked}], classes)["iou"] if present else {}
        for c in present:
            assert bound[c] <= true[c] + 1e-12
            lowest[c] = min(lowest[c], true[c])
        if present:
            assert mean_bound <= mean([true[c] for c in present]) + 1e-12
    assert lowest == pytest.approx({c: bound[c] for c in present}, rel=1e-12)
    assert present or np.isnan(mean_bound)


def budgeted_attacks(labels, classes, b):
    """Every label map that agrees with the certified labels but for b of them."""
    certified = np.flatnonzero(labels != ABSTAIN)
    for failed in combinations(certified, min(b, len(certified))):
        freed = labels.copy()
        freed[list(failed)] = ABSTAIN
        yield from attacks(freed, classes)


@given(small_scenes(), st.integers(1, 2))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_adversary_with_a_budget_gets_below_the_worst_case(drawn, b):
    """At most b certified labels fail, any of them; absent parts count as ShapeNet counts them."""
    classes, one = drawn
    one = {name: array[:5] for name, array in one.items()}
    table = matrix(one, classes)
    bound, accuracy = metrics.worst_case_iou(table, b=b), metrics.worst_case_accuracy(table, b=b)
    shape, mean_bound = (
        metrics.worst_case_shape_iou(table, range(classes), b=b),
        metrics.mean_iou([table], "worst_case", b=b),
    )
    assert ((bound <= metrics.worst_case_iou(table)) | np.isnan(bound)).all()
    for attacked in budgeted_attacks(one[LABELS], classes, b):
        found = matrix({**one, LABELS: attacked}, classes)
        assert not accuracy > metrics.accuracy(found) + 1e-12
        assert shape <= metrics.shape_iou(found, range(classes)) + 1e-12
        present = ~np.isnan(bound)
        assert (bound[present] <= metrics.iou(found)[present] + 1e-12).all()
        assert not present.any() or mean_bound <= metrics.iou(found)[present].mean() + 1e-12


def test_budgets_add_up_over_scenes():
    """IoU_c >= max(0, TP_c - M b) / U_c over M scenes; a budget belongs to the worst case alone."""
    matrices = [matrix(scene(seed)) for seed in range(3)]
    total = sum(matrices)
    whole = np.diagonal(total) / metrics.worst_case_iou(total)
    expected = np.maximum(np.diagonal(total) - 6, 0) / whole
    assert metrics.mean_iou(matrices, "worst_case", b=2) == pytest.approx(expected[~np.isnan(expected)].mean())
    assert metrics.worst_case_accuracy(total, b=6) == pytest.approx(metrics.accuracy(total) - 6 / total.sum())
    assert metrics.worst_case_accuracy(total, b=10**6) == 0
    with pytest.raises(InputError, match="b=1 belongs to the form 'worst_case', not to 'pooled'"):
        metrics.mean_iou(matrices, "pooled", b=1)
    with pytest.raises(InputError, match="b must be an integer not less than 0"):
        metrics.worst_case_accuracy(total, b=-1)


@given(small_scenes(), small_scenes())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_worst_case_over_two_scenes_holds_against_attacks_on_both(first, second):
    classes = max(first[0], second[0])
    scenes = [first[1], second[1]]
    if not any(one[VALID].any() for one in scenes):
        return
    bound = metrics.mean_iou([matrix(one, classes) for one in scenes], "worst_case")
    rng = np.random.default_rng(0)
    for _ in range(20):
        attacked = [
            {**one, LABELS: np.where(one[LABELS] == ABSTAIN, rng.integers(0, classes, len(one[LABELS])), one[LABELS])}
            for one in scenes
        ]
        total = sum(matrix(one, classes) for one in attacked)
        present = total.sum(axis=1) > 0
        assert bound <= metrics.iou(total)[present].mean() + 1e-12


def test_the_papers_iou_is_no_bound_under_attack():
    """Two right, two abstained of another class: IoU says 1, the attacker makes it 1/2."""
    one = {LABELS: np.array([0, 0, ABSTAIN, ABSTAIN]), TARGET: np.array([0, 0, 1, 1]), VALID: np.ones(4, bool)}
    assert metrics.iou(matrix(one, 2)).tolist() == [1.0, 0.0]
    assert metrics.worst_case_iou(matrix(one, 2)).tolist() == [0.5, 0.0]
    attacked = {**one, LABELS: np.zeros(4, int)}
    assert metrics.iou(matrix(attacked, 2)).tolist() == [0.5, 0.0]


def test_per_image_and_pooled_by_hand():
    """Class 0: 3/4 and 1/2, pooled 4/6. Class 1: 0/1 and 0/1, pooled 0/2. Class 2: never there."""
    everywhere = np.ones(4, bool)
    first = metrics.confusion(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1]), everywhere, classes=3)
    second = metrics.confusion(np.array([0, 1]), np.array([0, 0]), everywhere[:2], classes=3)
    np.testing.assert_equal(metrics.iou(first), [3 / 4, 0, np.nan])
    np.testing.assert_equal(metrics.iou(second), [1 / 2, 0, np.nan])
    assert metrics.mean_iou([first, second], "per_image") == pytest.approx((3 / 4 + 0 + 1 / 2 + 0) / 4)
    assert metrics.mean_iou([first, second], "pooled") == pytest.approx((4 / 6 + 0 / 2) / 2)
    assert metrics.mean_iou([first, second]) == metrics.mean_iou([first, second], "pooled")
    assert metrics.mean_iou([first, second], "worst_case") == pytest.approx((4 / 6 + 0 / 2) / 2)  # none abstained
    released = np.nan_to_num(metrics.iou(first + second)).mean()  # the absent class counts as 0 there
    assert released == pytest.approx((4 / 6) / 3)
    abstaining = metrics.confusion(np.array([0, ABSTAIN]), np.array([0, 1]), everywhere[:2], classes=2)
    assert metrics.mean_iou([abstaining], "pooled") == pytest.approx((1 + 0) / 2)
    assert metrics.mean_iou([abstaining], "worst_case") == pytest.approx((1 / 2 + 0) / 2)
    assert (metrics.accuracy(abstaining), metrics.abstention(abstaining)) == (0.5, 0.5)


def test_class_shares_by_hand():
    """Class 0: 2 of 4 right, 1 abstains. Class 1: 1 of 2 right. Class 2 is not in the ground truth."""
    labels, target = np.array([0, 0, 1, ABSTAIN, 1, 2]), np.array([0, 0, 0, 0, 1, 1])
    counted = metrics.confusion(labels, target, np.ones(6, bool), classes=3)
    np.testing.assert_equal(metrics.class_accuracy(counted), [2 / 4, 1 / 2, np.nan])
    np.testing.assert_equal(metrics.class_abstention(counted), [1 / 4, 0, np.nan])


def test_shape_iou_by_hand():
    """A shape of the category with parts 1, 2 and 3, among 5 classes; it lacks part 3.

    Part 1: 2 right of 3, one abstained: 2/3. Part 2: 2 right of 3 and one wrongly labelled 4: 2/3. Part 3: nowhere, 1.
    Under attack the abstained point may take part 2, 2/4, or part 3, which is then 0.
    """
    labels, target = np.array([1, 1, ABSTAIN, 2, 2, 4]), np.array([1, 1, 1, 2, 2, 2])
    counted = metrics.confusion(labels, target, np.ones(6, bool), classes=5)
    assert metrics.shape_iou(counted, (1, 2, 3)) == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert metrics.worst_case_shape_iou(counted, (1, 2, 3)) == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)
    assert metrics.shape_iou(counted, (3,)) == 1
    certain = metrics.confusion(target, target, np.ones(6, bool), classes=5)
    assert metrics.shape_iou(certain, (1, 2, 3)) == metrics.worst_case_shape_iou(certain, (1, 2, 3)) == 1
    for wrong in ((), (1, 1), (5,)):
        with pytest.raises(InputError, match=r"parts must be different classes of 0 \.\. 4, at least one"):
            metrics.shape_iou(counted, wrong)


@given(small_scenes())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_adversary_gets_below_the_worst_shape_iou(drawn):
    """Over parts that the shape may lack; for a single part it is attained."""
    classes, one = drawn
    counted = matrix(one, classes)
    for parts in [range(classes), *([c] for c in range(classes))]:
        bound = metrics.worst_case_shape_iou(counted, parts)
        attacked = [
            metrics.shape_iou(matrix({**one, LABELS: a}, classes), parts) for a in attacks(one[LABELS], classes)
        ]
        assert bound <= min(attacked) + 1e-12
        if len(parts) == 1:
            assert bound == pytest.approx(min(attacked), rel=1e-12)


def test_nothing_valid():
    nothing = metrics.confusion(np.zeros(3, int), np.zeros(3, int), np.zeros(3, bool), classes=2)
    assert nothing.sum() == 0
    values = [metrics.accuracy(nothing), metrics.abstention(nothing), *metrics.iou(nothing)]
    values += [metrics.mean_iou([nothing], form) for form in metrics.FORMS]
    assert np.isnan(values).all()


@given(st.integers(1, 6), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_plain_values_round_trip(classes, drawn):
    cells = st.one_of(st.just(0), st.integers(0, 2**62))
    size = classes * (classes + 1)
    values = drawn.draw(st.lists(cells, min_size=size, max_size=size))
    original = np.array(values, np.int64).reshape(classes, classes + 1)
    again = metrics.from_plain(json.loads(json.dumps(metrics.to_plain(original))))
    assert (again.dtype, again.shape) == (np.int64, original.shape)
    np.testing.assert_array_equal(again, original)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"classes": 2},
        {"classes": 0, "cells": []},
        {"classes": 2, "cells": [[0, 3, 1]]},
        {"classes": 2, "cells": [[-1, 0, 1]]},
        {"classes": 2, "cells": [[0, 0, -1]]},
        {"classes": 2, "cells": [[0, 0, 1.5]]},
        {"classes": 2, "cells": [[0, 0]]},
        {"classes": 2, "cells": [[0, 0, 2**70]]},
        {"classes": 2, "cells": 7},
    ],
)
def test_bad_plain_values(values):
    with pytest.raises(InputError, match="not a confusion matrix"):
        metrics.from_plain(values)


FOUR = np.zeros(4, int)
ALL = np.ones(4, bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.confusion(FOUR, FOUR[:3], ALL, classes=2),
            r"of shape \(4,\), as the labels, but got int64 of",
        ),
        (lambda: metrics.confusion(FOUR, FOUR, ALL[:2], classes=2), r"bool of shape \(2,\)"),
        (lambda: metrics.confusion(FOUR, FOUR, FOUR, classes=2), "valid booleans"),
        (lambda: metrics.confusion(FOUR, FOUR * 0.5, ALL, classes=2), "target must hold integers"),
        (lambda: metrics.confusion(FOUR * 0.5, FOUR, ALL, classes=2), "labels must hold integers, but got float64"),
        (
            lambda: metrics.confusion(FOUR + 2, FOUR, ALL, classes=2),
            r"labels must be ABSTAIN or lie in 0 \.\. 1, but s",
        ),
        (lambda: metrics.confusion(FOUR - 2, FOUR, ALL, classes=2), "does the model have other classes than the data"),
        (lambda: metrics.confusion(FOUR, FOUR + 2, ALL, classes=2), r"target must lie in 0 \.\. 1 where valid"),
        (lambda: metrics.confusion(FOUR, FOUR - 1, ALL, classes=2), r"spans -1 \.\. -1"),
        (lambda: metrics.confusion(FOUR, FOUR, ALL, classes=0), "classes must be an integer not less than 1"),
        (lambda: metrics.accuracy(np.zeros((3, 3), int)), r"expected a confusion matrix \(C, C \+ 1\) of integers"),
        (lambda: metrics.iou(np.zeros((2, 3))), "got float64 of shape"),
        (lambda: metrics.mean_iou([], "pooled"), "at least one"),
        (lambda: metrics.mean_iou([np.zeros((2, 3), int), np.zeros((3, 4), int)]), "of one shape"),
        (lambda: metrics.mean_iou(np.zeros((2, 3), int)), "make it with metrics.confusion"),
        (
            lambda: metrics.mean_iou([np.zeros((2, 3), int)], "median"),
            "unknown form 'median' .* per_image, pooled or wor",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_metrics_and_data_need_no_torch():
    code = "import sys, segcertify.metrics, segcertify.data; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
