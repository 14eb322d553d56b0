"""Ready metrics against the scores of confusion matrices, and what is refused."""

import numpy as np
import pytest

from segcertify import InputError, metrics
from segcertify.metrics.map_metrics import metric_name, metric_value


@pytest.mark.parametrize("seed", range(20))
def test_metrics_are_the_scores_of_the_confusion_matrix(seed):
    rng = np.random.default_rng(seed)
    target, labels = rng.integers(0, 4, (7, 9)), rng.integers(0, 5, (7, 9), dtype=np.int32)
    target[rng.random((7, 9)) < 0.2] = 255
    target[0, 0] = -1
    valid = (target >= 0) & (target != 255)
    matrix = metrics.confusion(labels, np.where(valid, target, 0), valid, classes=5)
    assert metrics.overall_accuracy(target)(labels) == metrics.accuracy(matrix)
    assert metrics.miou(target)(labels) == pytest.approx(metrics.mean_iou([matrix], "worst_case"))  # none abstains
    for c in range(4):
        assert metrics.recall(target, c)(labels) == metrics.class_accuracy(matrix)[c]
        iou = metrics.iou(matrix)[c]
        assert metrics.dice(target, c)(labels) == pytest.approx(2 * iou / (1 + iou))
        assert metrics.area(c, pixel=0.25)(labels) == metrics.volume(c, voxel=0.25)(labels) == (labels == c).sum() / 4
    shown = np.where(rng.random((7, 9)) < 0.3, -1, labels)
    assert metrics.agreement(labels)(labels) == metrics.agreement(shown)(labels) == 1
    assert metrics.agreement(labels)((labels + 1) % 5) == 0


def test_undefined_values_are_fixed_beforehand():
    target, none = np.zeros(4, int), np.zeros(4, np.int32)
    assert metrics.recall(target, 3)(none) == metrics.dice(target, 3)(none) == 1.0
    assert metrics.recall(target, 3, undefined=0.5)(none) == metrics.dice(target, 3, undefined=0.5)(none) == 0.5
    assert metrics.dice(target, 3)(none + 3) == 0


def test_a_metric_is_told_apart_by_its_target_and_keeps_it():
    target, labels = np.array([0, 1, 1]), np.array([0, 1, 1], np.int32)
    made = metrics.miou(target)
    assert made.digest == metrics.miou([0, 1, 1]).digest != metrics.miou(np.array([0, 1, 0])).digest
    assert metrics.dice(target, 1).digest != metrics.dice(target, 0).digest
    target[:] = 0
    assert made(labels) == 1
    assert metrics.area(1).two_sided
    assert metrics.volume(1).two_sided
    assert not made.two_sided


def test_names():
    def lesions(labels):
        return 0.0

    assert metric_name(lesions) == "lesions"
    assert metric_name(metrics.overall_accuracy([0])) == "accuracy"
    assert repr(metrics.recall([0], 2)) == "MapMetric('recall of class 2')"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metrics.miou(np.zeros(3)), "must hold integers, but got float64"),
        (lambda: metrics.miou(np.full(3, 255)), "has ground truth: nothing to score"),
        (lambda: metrics.miou([0, 1])(np.zeros(3, int)), r"shape \(2,\), but the label map has shape \(3,\)"),
        (lambda: metrics.dice([0], -1), "label must be an integer not less than 0"),
        (lambda: metrics.area(0, pixel=0), "pixel must be positive"),
        (lambda: metrics.recall([0], 0, undefined=np.nan), "undefined must be finite"),
        (lambda: metric_name(0.7), "must be a function from a label map to a number, but got 0.7"),
        (lambda: metric_value(lambda labels: float("nan"), np.zeros(3, int)), "is nan for a noisy run"),
        (lambda: metric_value(lambda labels: 1 / 0, np.zeros(3, int)), "ZeroDivisionError: division by zero"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_mean_iou_where_no_pixel_gets_the_last_classes():
    target = np.array([0, 0, 1, 2])
    assert metrics.miou(target)(np.array([0, 0, 0, 0])) == pytest.approx((2 / 4 + 0 + 0) / 3)
    assert metrics.miou(np.array([3, 3]))(np.array([3, 0])) == pytest.approx(1 / 2)
