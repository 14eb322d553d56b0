"""Metrics by name."""

import numpy as np
import pytest

from segcertify import InputError, metrics
from segcertify.metrics.names import FORMS, parse

CLASSES = ("background", "cat", "dog")
TARGET, LABELS = np.array([0, 1, 1, -1]), np.array([0, 1, 0, 1], np.int32)


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("accuracy", metrics.overall_accuracy(TARGET)),
        ("miou", metrics.miou(TARGET)),
        ("dice:cat", metrics.dice(TARGET, 1)),
        ("dice:1", metrics.dice(TARGET, 1)),
        ("recall:cat", metrics.recall(TARGET, 1)),
        ("area:dog", metrics.area(2)),
        ("volume:background", metrics.volume(0)),
        ("agreement", metrics.agreement(LABELS[::-1])),
    ],
)
def test_a_name_gives_its_metric(text, metric):
    made = parse(text, CLASSES).made(target=TARGET, shown=LABELS[::-1])
    assert made(LABELS) == metric(LABELS)
    assert (made.digest, made.two_sided) == (metric.digest, metric.two_sided)
    assert made.two_sided == parse(text, CLASSES).two_sided
    assert made.name in (text, metric.name)
    if not parse(text, CLASSES).needs_target:
        assert parse(text, CLASSES).made(target=None, shown=LABELS[::-1])(LABELS) == metric(LABELS)


def test_all_forms_are_known():
    assert {parse(form.replace("CLASS", "1")).text for form in FORMS} == {form.replace("CLASS", "1") for form in FORMS}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parse("acuracy"), "unknown metric 'acuracy': did you mean 'accuracy'"),
        (lambda: parse("dice", CLASSES), "needs a class: write dice:CLASS, such as dice:dog"),
        (lambda: parse("miou:1"), "has no class: write miou"),
        (lambda: parse("dice:bird", CLASSES), "unknown class 'bird': use background, cat or dog"),
        (lambda: parse("dice:3", CLASSES), "unknown class '3'"),
        (lambda: parse("area:" + "9" * 5000), "unknown class '999"),
        (lambda: parse("dice:cat"), "a number such as 1"),
        (lambda: parse("miou").made(target=None, shown=LABELS), "compares with ground truth, but the input has none"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
