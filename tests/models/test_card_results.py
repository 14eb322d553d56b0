"""What a card says of an evaluation: bounds go down, the model without noise certifies nothing, nor do others."""

from dataclasses import replace

import pytest
from cards import BASE, FOUND

from segcertify import InputError
from segcertify.models.card_results import wrong
from segcertify.reproduce.axis_angle import UnprovenAxisAngle


def test_the_table():
    text = FOUND.markdown()
    assert "| the model without noise, no guarantee | - | - | - | 0.0000 | - | 0.9600 |" in text
    assert (
        "| sigma = 0.25, n = 100, tau = 0.75 | 0.168 | 0.9475 | 0.0137 | 0.0387 | 0.8134 | 0.9476 |" in text
    )  # certified rounded down, measured to the nearest
    assert "Proved with probability at least 96.9% over the noise drawn, for all 31 scenes together" in text
    assert "42 of 255 steps" in text
    assert "Exactly: With probability at least 0.969 over the noise draws" in text
    assert "This assumes that scenes and model were fixed" in text
    assert "Made by `` a `b` ``." in text
    assert "This assumes" not in replace(FOUND, seed_given=False).markdown()


def test_metrics_are_bounds_of_certificates_alone():
    assert [(each["type"], each["value"]) for each in FOUND.metrics()] == [("accuracy", 0.9475), ("mean_iou", 0.8134)]
    assert (
        "within R = 0.168 in l2 norm (sigma = 0.25, n = 100, tau = 0.75, alpha = 0.001)" in FOUND.metrics()[0]["name"]
    )


def test_other_weights():
    other = replace(FOUND, weights="a twin.")
    assert "**Not of these weights:** a twin." in other.markdown()
    assert (FOUND.about, other.about) == ("pets/val", "pets/val, of another model by the same recipe")


def test_nothing_wrong_is_exactly_none():
    assert wrong({"accuracy": 0.9, "abstained": 0.1}) == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"correction": "bh"}, "bh with Gaussian.* certifies no label"),
        ({"noise": UnprovenAxisAngle(0.25)}, "certifies no label: give an evaluation with holm"),
        ({"rows": [BASE]}, "nothing of pets/val was certified yet"),
    ],
)
def test_what_certifies_nothing_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        replace(FOUND, **changes)
