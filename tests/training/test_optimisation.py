"""The learning rate over a run, the groups of weights, and their moving average."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from toys import batch, quick, small

from segcertify.models import Lite
from segcertify.training.optimisation import moving_average, optimiser, rate, schedule, set_norm_momentum


def rates(**settings):
    recipe = quick(**settings)
    return [rate(step, recipe) for step in range(recipe.iterations)]


def test_poly():
    assert rates(iterations=5, warmup=0, power=0.9) == pytest.approx([(1 - step / 5) ** 0.9 for step in range(5)])
    assert rates(iterations=4, warmup=0, power=2.0) == pytest.approx([1, 0.5625, 0.25, 0.0625])


def test_cosine():
    expected = [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]
    assert rates(iterations=4, warmup=0, schedule="cosine") == pytest.approx(expected)


def test_step_decay():
    """PointNet++'s schedule as its public code states it: halved every 20 of 251 epochs, at least 1e-5 of 1e-3."""
    recipe = quick(
        epochs=251, batch_size=2, lr=1e-3, schedule="step", gamma=0.5, decay_every=20, lr_floor=0.01, warmup=0
    ).for_data(scenes=7, classes=3)
    assert recipe.iterations == 251 * 3
    expected = [max(1e-3 * 0.5 ** (epoch // 20), 1e-5) for epoch in range(251) for _ in range(3)]
    assert [recipe.lr * rate(step, recipe) for step in range(recipe.iterations)] == pytest.approx(expected, rel=1e-12)


def test_the_schedules_of_torch_agree():
    recipe = quick(epochs=12, schedule="step", decay_every=5, gamma=0.3, warmup=0, lr=0.1).for_data(scenes=8, classes=3)
    made = torch.optim.SGD(small().parameters(), lr=0.1)
    theirs = torch.optim.lr_scheduler.StepLR(made, 5 * 2, 0.3)
    for step in range(recipe.iterations):
        assert 0.1 * rate(step, recipe) == pytest.approx(made.param_groups[0]["lr"], rel=1e-12)
        made.step()
        theirs.step()


def test_a_floor():
    found = rates(iterations=8, warmup=0, power=1.0, lr_floor=0.5)
    assert found == pytest.approx([1, 0.875, 0.75, 0.625, 0.5, 0.5, 0.5, 0.5])


def test_the_momentum_of_batch_norms_decays():
    """As PointNet++'s public code states it: 0.1, halved every 20 epochs, at least 0.01."""
    recipe = quick(epochs=251, batch_size=2, bn_momentum=(0.1, 0.01), decay_every=20).for_data(scenes=5, classes=3)
    model, found, changes = small(), [], []
    for step in range(recipe.iterations):
        if set_norm_momentum(model, step, recipe):
            changes.append(step)
        found.append(model[2].momentum)
    assert found == pytest.approx([max(0.1 * 0.5 ** (epoch // 20), 0.01) for epoch in range(251) for _ in range(2)])
    assert changes == [40, 80, 120, 160]  # a captured step must be captured anew; 0.1 is torch's own
    assert not set_norm_momentum(model, 0, quick())
    assert model[2].momentum == 0.01


def test_warm_up():
    fall = rates(iterations=20, warmup=0)
    found = rates(iterations=20, warmup=0.25)
    assert [a / b for a, b in zip(found, fall, strict=True)] == pytest.approx([0.2, 0.4, 0.6, 0.8, *[1.0] * 16])
    assert rates(iterations=20, warmup=0.02) == fall  # less than a step is none


def test_no_step_is_for_nothing():
    for name in ("poly", "cosine"):
        assert min(rates(iterations=50, warmup=0.1, schedule=name)) > 0


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.encoders = nn.Conv2d(4, 4, 1)
        self.head = nn.Conv2d(4, 3, 1)
        self.frozen = nn.Conv2d(4, 3, 1).requires_grad_(False)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
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
    assert type(made) is {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    if name == "sgd":
        assert all(group["momentum"] == 0.8 and group["nesterov"] for group in made.param_groups)


def test_weight_decay_on_norms_too():
    made = optimiser(Parts(), quick(weight_decay=0.3, decay_norms=True))
    assert {group["weight_decay"] for group in made.param_groups} == {0.3}


def test_momentum_without_nesterov():
    """Two steps of SGD by hand: v = m v + (g + d w), w = w - lr v."""
    made = optimiser(small(), quick(optimiser="sgd", momentum=0.9, nesterov=False))
    assert all(group["momentum"] == 0.9 and not group["nesterov"] for group in made.param_groups)
    weight = nn.Parameter(torch.tensor([[2.0]]))
    made = optimiser(nn.ParameterList([weight]), quick(optimiser="sgd", nesterov=False, lr=0.1, weight_decay=0.5))
    value, velocity = 2.0, 0.0
    for gradient in (1.0, -3.0):
        weight.grad = torch.tensor([[gradient]])
        made.step()
        velocity = 0.9 * velocity + gradient + 0.5 * value
        value -= 0.1 * velocity
        assert weight.item() == pytest.approx(value, rel=1e-6)


def test_sgd_without_momentum():
    made = optimiser(small(), quick(optimiser="sgd", momentum=0))
    assert not any(group["nesterov"] or group["momentum"] for group in made.param_groups)


def test_lites_encoder_is_an_encoder():
    made = optimiser(Lite(3, 8), quick(encoder_lr=0.1))
    assert {round(group["lr"], 6) for group in made.param_groups} == {0.01, 0.001}


@pytest.mark.parametrize("done", [0, 1, 3])
@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_every_group_follows_the_schedule(name, done):
    """Also if a resumed run starts at a later step; the rates are exactly the factor times the group's own."""
    recipe = quick(optimiser=name, iterations=4, warmup=0.4, power=0.9, lr=0.4, encoder_lr=0.3)
    made = optimiser(Parts(), recipe)
    follows = schedule(made, recipe, done=done)
    for step in range(done, recipe.iterations):
        factor = rate(step, recipe)
        assert {group["lr"] for group in made.param_groups} == {factor * (0.4 * 0.3), factor * 0.4}
        made.step()
        follows.step()


def test_the_learning_rates_are_those_of_before():
    """Computed with the first version's own schedule, at steps 0, 1, 5 and 10 of 11."""
    before = {
        "poly": [
            [0.0013636363636363635, 0.004545454545454545],
            [0.00250308243663691, 0.008343608122123033],
            [0.001738617166659519, 0.00579539055553173],
            [0.0003466313496027657, 0.001155437832009219],
        ],
        "cosine": [
            [0.0013636363636363635, 0.004545454545454545],
            [0.002672035873110678, 0.008906786243702261],
            [0.001713472257409928, 0.005711574191366427],
            [6.0760539578254115e-05, 0.00020253513192751372],
        ],
    }
    for name, expected in before.items():
        recipe = quick(lr=0.01, encoder_lr=0.3, warmup=0.2, schedule=name)
        made, found = optimiser(Parts(), recipe), {}
        follows = schedule(made, recipe)
        for step in range(11):
            found[step] = sorted({group["lr"] for group in made.param_groups})
            made.step()
            follows.step()
        assert [found[step] for step in (0, 1, 5, 10)] == [pytest.approx(rates, rel=1e-14) for rates in expected]


# The moving average


@pytest.mark.parametrize("decay", [0.3, 0.9])
def test_the_average_follows_its_formula(decay):
    model = small().train()
    average = moving_average(model, decay)
    expected = {name: value.double().numpy() for name, value in model.state_dict().items()}
    for step in range(20):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn(weight.shape))
        model(batch(step)[0])
        average.update_parameters(model)
        keep = min(decay, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            now = value.double().numpy()
            whole = name.endswith("num_batches_tracked")
            expected[name] = now if whole else keep * expected[name] + (1 - keep) * now
    assert {"2.running_mean", "2.num_batches_tracked", "1.weight"} <= set(expected)
    for name, value in average.module.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-4, atol=1e-5)
    assert average.module[2].num_batches_tracked == 20


def test_the_model_itself_is_left_alone():
    model = small().train()
    average = moving_average(model, 0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        average.module[1].weight.add_(1)
    average.update_parameters(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert not any(module.training for module in average.module.modules())
    assert not any(weight.requires_grad for weight in average.module.parameters())


def test_the_first_weights_are_soon_forgotten():
    model = small()
    average = moving_average(model, 0.999)
    with torch.no_grad():
        model[1].bias.fill_(1.0)
        average.module[1].bias.fill_(0.0)
    for _ in range(30):
        average.update_parameters(model)
    assert average.module[1].bias.min() > 0.99
