"""The learning rate over a run, and the groups of weights."""

import math

import pytest
import torch
from torch import nn
from toys import quick, small

from segcertify.models import Lite
from segcertify.training.optimisation import optimiser, rate, set_rate


def rates(**settings):
    recipe = quick(**settings)
    return [rate(step, recipe) for step in range(recipe.steps)]


def test_poly():
    assert rates(steps=5, warmup=0, power=0.9) == pytest.approx([(1 - step / 5) ** 0.9 for step in range(5)])
    assert rates(steps=4, warmup=0, power=2.0) == pytest.approx([1, 0.5625, 0.25, 0.0625])


def test_cosine():
    expected = [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]
    assert rates(steps=4, warmup=0, schedule="cosine") == pytest.approx(expected)


def test_warm_up():
    fall = rates(steps=20, warmup=0)
    found = rates(steps=20, warmup=0.25)
    assert [a / b for a, b in zip(found, fall, strict=True)] == pytest.approx([0.2, 0.4, 0.6, 0.8, *[1.0] * 16])
    assert rates(steps=20, warmup=0.02) == fall  # less than a step is none


def test_no_step_is_for_nothing():
    for schedule in ("poly", "cosine"):
        assert min(rates(steps=50, warmup=0.1, schedule=schedule)) > 0


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.encoders = nn.Conv2d(4, 4, 1)
        self.head = nn.Conv2d(4, 3, 1)
        self.frozen = nn.Conv2d(4, 3, 1).requires_grad_(False)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_groups(name):
    model = Parts()
    made = optimiser(model, quick(optimiser=name, lr=0.1, encoder_lr=0.25, weight_decay=0.3, momentum=0.8))
    found = {id(w): (g["lr"], g["weight_decay"]) for g in made.param_groups for w in g["params"]}
    assert {n: found.get(id(w)) for n, w in model.named_parameters()} == {
        "encoder.0.weight": (0.025, 0.3),
        "encoder.0.bias": (0.025, 0.0),
        "encoder.1.weight": (0.025, 0.0),
        "encoder.1.bias": (0.025, 0.0),
        "encoders.weight": (0.1, 0.3),
        "encoders.bias": (0.1, 0.0),
        "head.weight": (0.1, 0.3),
        "head.bias": (0.1, 0.0),
        "frozen.weight": None,
        "frozen.bias": None,
    }
    assert type(made) is {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name]
    if name == "sgd":
        assert all(group["momentum"] == 0.8 and group["nesterov"] for group in made.param_groups)


def test_sgd_without_momentum():
    made = optimiser(small(), quick(optimiser="sgd", momentum=0))
    assert not any(group["nesterov"] or group["momentum"] for group in made.param_groups)


def test_lites_encoder_is_an_encoder():
    made = optimiser(Lite(3, 8), quick(encoder_lr=0.1))
    assert {round(group["lr"], 6) for group in made.param_groups} == {0.01, 0.001}


def test_every_group_follows_the_schedule():
    recipe = quick(steps=4, warmup=0, power=1.0, lr=0.4, encoder_lr=0.5)
    made = optimiser(Parts(), recipe)
    for step, factor in ((0, 1), (3, 0.25), (1, 0.75)):  # in any order: a resumed run starts anywhere
        assert set_rate(made, step, recipe) == pytest.approx(0.4 * factor)
        assert sorted({group["lr"] for group in made.param_groups}) == pytest.approx([0.2 * factor, 0.4 * factor])
