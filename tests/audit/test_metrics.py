"""Audits of metric certificates: what they try, what they refuse, and what they say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from segmenters import NOISE

import segcertify as sc
from segcertify.audit import audit_metric

X = torch.linspace(-1, 2, 40)
TARGET = (X > 0.5).long().numpy()
ACCURACY = sc.metrics.overall_accuracy(TARGET)
OPTIONS = {"n": 200, "steps": 3, "draws": 4, "seed": 1}


def bright(batch):
    return torch.stack([0.5 - batch, batch - 0.5], 1)


def certified(metric=ACCURACY, **changes):
    return sc.certify_metric(bright, X, metric, **{"noise": NOISE, "radius": 0.2, "n": 100, "seed": 0} | changes)


def test_a_true_certificate_is_not_refuted():
    finding = audit_metric(bright, X, certified(), ACCURACY, target=TARGET, **OPTIONS)
    assert not finding.refuted
    assert [each.name for each in finding.perturbed] == [
        "x itself", "attack on the smoothed model", "attack on the base model", "random direction 1",
        "random direction 2",
    ]  # fmt: skip
    assert finding.verdict.startswith("No violation: 200 fresh noisy runs at each of 5 perturbed inputs.")
    assert "It finds with 95 % probability a perturbed input at which at most 0." in finding.verdict
    assert finding.verdict.endswith("of the runs keep the bound; 50% are claimed.")
    for each in finding.perturbed:
        assert float((each.x - X).norm()) <= 0.2 * (1 + 1e-6)


def test_a_bound_that_is_too_high_is_refuted():
    high = replace(certified(), values=np.ones(100))
    finding = audit_metric(bright, X, high, ACCURACY, target=TARGET, **OPTIONS)
    assert finding.refuted
    assert "noisy runs keep the bound (" in finding.verdict
    assert "but 50% are claimed" in finding.verdict
    assert "The certificate is refuted" in finding.verdict


def test_both_sides_are_tried():
    """Of an area the opposite steps too; an upper bound that is too low is refuted, a true one is not."""
    area = sc.metrics.area(1)
    true = certified(area, n=200)
    finding = audit_metric(bright, X, true, area, **OPTIONS)
    assert not finding.refuted
    assert sum(each.name.startswith("opposite of attack") for each in finding.perturbed) == 2
    low = replace(true, values=true.values - 15)
    assert audit_metric(bright, X, low, area, **OPTIONS).refuted


def test_nothing_is_claimed_without_a_bound():
    none = replace(certified(), values=np.ones(5))
    assert none.bound is None
    finding = audit_metric(bright, X, none, ACCURACY, **OPTIONS)
    assert (finding.refuted, finding.verdict) == (False, "Nothing is claimed, so there is nothing to refute.")


def test_draws_are_fresh_and_a_seed_repeats_them():
    same = {"target": TARGET, **OPTIONS}
    first, again = (audit_metric(bright, X, certified(), ACCURACY, **same) for _ in range(2))
    assert [each.kept for each in first.perturbed] == [each.kept for each in again.perturbed]
    other = audit_metric(bright, X, certified(), ACCURACY, **same | {"seed": 2})
    assert [each.kept for each in first.perturbed] != [each.kept for each in other.perturbed]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((bright, X + 1, ACCURACY), {}, "the input is not the one that was certified"),
        ((lambda batch: bright(batch + 0.1), X, ACCURACY), {}, "the model is not the one that was certified"),
        ((bright, X, sc.metrics.miou(TARGET)), {}, "the certificate bounds 'accuracy', but the metric given is 'mIoU'"),
        ((bright, X, sc.metrics.overall_accuracy(1 - TARGET)), {}, "made with another target or unit"),
        ((bright, X, ACCURACY), {"n": 5}, "n=5 draws can refute nothing at level=1e-06 over 5 perturbed inputs: use n"),
        (
            (lambda batch: (batch > 0.5).long(), X, ACCURACY),
            {},
            "the model is not the one|For an audit without attacks",
        ),
    ],
)
def test_what_is_refused(arguments, options, message):
    model, x, metric = arguments
    with pytest.raises(sc.InputError, match=message):
        audit_metric(model, x, certified(), metric, **OPTIONS | options)
