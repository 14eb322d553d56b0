"""PGD: finds known worst cases, stays inside, and leaves the model as it was."""

import math

import numpy as np
import pytest
import torch
from segmenters import Conv, image
from torch import nn

import segcertify as sc
from segcertify.attacks import L1, L2, Linf, pgd
from segcertify.attacks.losses import LOSSES
from segcertify.models import MultiScale
from segcertify.sampling.segmenter import predict

BALLS = {"l2": L2(0.4), "linf": Linf(0.02), "l1": L1(4.0)}
every = pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)


class Slope(nn.Module):
    """Logits (0, <w, x> + b) of one component: the worst case in a ball is the dual norm of w."""

    def __init__(self, w, b):
        super().__init__()
        self.w, self.b = nn.Parameter(w), b

    def forward(self, batch):
        score = (batch * self.w).flatten(1).sum(1) + self.b
        return torch.stack([torch.zeros_like(score), score], 1)[:, :, None]


@pytest.fixture
def network():
    return Conv().eval()


@pytest.fixture
def batch():
    return torch.stack([image(seed) for seed in range(3)])


@every
@pytest.mark.parametrize("loss", LOSSES)
def test_attacks_move_labels_and_stay_inside(network, batch, ball, loss):
    labels = predict(network, batch)
    attack = pgd(network, batch, labels, ball, steps=20, loss=loss)
    assert (ball.norm(attack.x.double() - batch.double()) <= ball.radius).all()
    assert attack.x.min() >= 0
    assert attack.x.max() <= 1
    assert (attack.moved > 0).all()
    assert torch.equal(attack.moved, (predict(network, attack.x) != labels).flatten(1).sum(1))
    torch.testing.assert_close(batch + attack.shift, attack.x)
    assert len(attack.losses) == 21
    if loss == "cross-entropy":
        assert attack.losses[-1] > attack.losses[0]


def test_seeds_have_the_lengths_that_runs_draw(network, batch):
    labels = predict(network, batch)
    for seed in (2**128 - 1, 2**256 - 1):
        assert pgd(network, batch, labels, L2(0.1), steps=1, seed=seed).moved.shape == (3,)
    with pytest.raises(sc.InputError, match="seed must be an integer of at most 256 bits"):
        pgd(network, batch, labels, L2(0.1), steps=1, seed=2**256)


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
def test_a_linear_models_worst_case(norm):
    """Label 1 at a margin; the ball that just reaches the boundary in closed form is enough, one below is not."""
    w = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))
    x = torch.full((1, 3, 6, 6), 0.5)
    model = Slope(w, 0.3 - float((w * x[0]).sum())).eval()
    dual = {"l2": w.norm(), "linf": w.abs().sum(), "l1": w.abs().max()}[norm]
    reach = 0.3 / float(dual)
    make = {"l2": L2, "linf": Linf, "l1": L1}[norm]
    labels = torch.ones(1, 1, dtype=torch.long)
    missed = pgd(model, x, labels, make(reach * 0.999), steps=40)
    assert missed.moved.tolist() == [0]
    assert pgd(model, x, labels, make(reach * 1.001), steps=40).moved.tolist() == [1]
    steepest = {"l2": w / w.norm(), "linf": w.sign(), "l1": w.sign() * (w.abs() == w.abs().max())}[norm]
    worst = -reach * 0.999 * steepest
    torch.testing.assert_close(missed.shift[0], worst, atol=1e-5, rtol=1e-3)


def test_the_default_step_is_the_papers():
    """10 R / k from a start in the ball: a constant slope leads to the sphere after R / (10 R / k) = k / 10 steps."""
    w = torch.zeros(1, 4, 4)
    w[0, 0, 0] = 1
    x = torch.full((1, 1, 4, 4), 0.5)
    one = torch.ones(1, 1, dtype=torch.long)
    model = Slope(w, 0.0).eval()
    first, second = (pgd(model, x, one, L2(0.1), steps=steps, step_size=0.01) for steps in (1, 2))
    moved = float(second.x[0, 0, 0, 0] - first.x[0, 0, 0, 0])
    assert moved == pytest.approx(-0.01, rel=1e-4)
    assert torch.equal(pgd(model, x, one, L2(0.1)).x, pgd(model, x, one, L2(0.1), step_size=10 * 0.1 / 100).x)


def test_losses_know_how_far_the_attack_is(network, batch, monkeypatch):
    seen = []

    def loss(logits, labels, valid, *, done):
        seen.append(done)
        return LOSSES["cross-entropy"](logits, labels, valid, done=done)

    monkeypatch.setitem(LOSSES, "segpgd", loss)
    pgd(network, batch, predict(network, batch), L2(0.1), steps=4, restarts=2, loss="segpgd")
    assert seen == [0, 0.25, 0.5, 0.75, 1.0] * 2


def test_restarts_never_make_it_worse(network, batch):
    labels = predict(network, batch)
    moved = [pgd(network, batch, labels, L2(0.5), steps=1, step_size=1e-3, restarts=r).moved for r in (1, 2, 9)]
    assert (moved[0] <= moved[1]).all()
    assert (moved[1] <= moved[2]).all()
    assert moved[2].sum() > moved[0].sum()


@every
def test_an_entry_does_not_depend_on_its_batch_mates(ball):
    """Exact for a model that treats entries alike whatever the batch: one that sums nothing."""

    def model(batch):
        return torch.stack([batch[:, 0], batch[:, 1] ** 2, batch[:, 2]], 1) * 5

    batch = torch.stack([image(seed) for seed in range(3)])
    labels = predict(model, batch)
    together = pgd(model, batch, labels, ball, steps=5, restarts=2)
    for i in (0, 2):
        alone = pgd(model, batch[i : i + 1], labels[i : i + 1], ball, steps=5, restarts=2)
        assert torch.equal(alone.x[0], together.x[i])
        assert alone.moved[0] == together.moved[i]


@pytest.mark.parametrize("weights", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("inputs", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_inputs_and_weights_of_any_precision(network, batch, weights, inputs):
    """Inputs come to the model in its weights' precision, as in `sample`; those in half precision are made single."""
    model, x = network.to(weights), batch.to(inputs)
    kept = torch.float64 if inputs == torch.float64 else torch.float32
    labels = predict(model, x.to(weights))
    attack = pgd(model, x, labels, L2(0.4), steps=5)
    assert attack.x.dtype == kept
    assert (L2(0.4).norm(attack.x.double() - x.double()) <= 0.4).all()
    assert (attack.moved > 0).all()
    assert torch.equal(attack.moved, (predict(model, attack.x.to(weights)) != labels).flatten(1).sum(1))


def test_only_valid_components_count(network, batch):
    labels = predict(network, batch)
    valid = torch.zeros_like(labels, dtype=torch.bool)
    valid[:, :4] = True
    attack = pgd(network, batch, torch.where(valid, labels, -1), L2(0.5), steps=5, valid=valid)
    changed = predict(network, attack.x) != labels
    assert torch.equal(attack.moved, (changed & valid).flatten(1).sum(1))
    assert not attack.shift[:, :, 6:].abs().max() > 0.1  # far from what counts the random start is all there is


def test_the_model_is_left_as_it_was(network, batch):
    network.layer.bias.requires_grad_(False)
    pgd(network, batch, predict(network, batch), L2(0.5), steps=2)
    assert network.layer.weight.requires_grad
    assert not network.layer.bias.requires_grad
    assert network.layer.weight.grad is None
    with torch.no_grad():
        assert pgd(network, batch, predict(network, batch), L2(0.5), steps=2).moved.sum() > 0


def test_the_same_seed_finds_the_same(network, batch):
    labels = predict(network, batch)
    first, again, other = (pgd(network, batch, labels, L2(0.2), steps=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: MultiScale(model, (0.5,)),
        lambda model: MultiScale(model, (0.5, 1.0), flip=True),
        lambda model: MultiScale(model, (1.0,), flip=True, tile=(8, 8)),
        lambda model: MultiScale(model, (1.5,)),
    ],
    ids=["one scale", "two scales", "tiles", "larger"],
)
def test_attacks_go_through_multiscale(network, batch, wrap):
    """With steep logits the exponentials of one scale have next to no gradient; their logarithms do."""
    with torch.no_grad():
        network.layer.weight.mul_(20)
    model = wrap(network).eval()
    labels, scales = predict(model, batch), model.scales
    attack = pgd(model, batch, labels, L2(0.5), steps=10)
    assert model.scales == scales
    assert torch.equal(attack.moved, (predict(model, batch * 0 + attack.x) != labels).flatten(1).sum(1))
    noise = torch.randn(batch.shape, generator=torch.Generator().manual_seed(0))
    noise *= 0.5 / noise.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    by_chance = (predict(model, (batch + noise).clamp(0, 1)) != labels).flatten(1).sum(1)
    assert (attack.moved > 2 * by_chance).all()


def test_coarse_logits(batch):
    model = Conv(stride=2).eval()
    labels = predict(model, batch)
    attack = pgd(model, batch, labels, L2(0.5), steps=10)
    assert (attack.moved > 0).all()
    assert torch.equal(attack.moved, (predict(model, attack.x) != labels).flatten(1).sum(1))


def test_random_models_get_seeds(network, batch):
    class Random(nn.Module):
        random = True

        def __init__(self):
            super().__init__()
            self.model, self.seen = network, []

        def forward(self, batch, seeds):
            assert len(seeds) == len(batch)
            self.seen.append(seeds[0])
            return self.model(batch)

    model = Random().eval()
    pgd(model, batch, predict(network, batch), L2(0.5), steps=5)
    assert len(set(model.seen)) == 6


def short_of_memory(model, most):
    """The model on a device with room for so few inputs."""

    def called(batch, **seeds):
        if len(batch) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return model(batch, **seeds)

    return called


@pytest.mark.parametrize("most", [1, 2])
def test_out_of_memory_halves_what_is_asked_at_once(network, batch, most):
    network, batch = network.double(), batch.double()
    labels = predict(network, batch)
    whole = pgd(network, batch, labels, L2(0.4), steps=5)
    parts = pgd(short_of_memory(network, most), batch, labels, L2(0.4), steps=5)
    torch.testing.assert_close(parts.x, whole.x)
    assert torch.equal(parts.moved, whole.moved)
    assert parts.losses == pytest.approx(whole.losses)


def test_out_of_memory_for_a_single_input_is_an_error(network, batch):
    with pytest.raises(torch.OutOfMemoryError):
        pgd(short_of_memory(network, 0), batch, predict(network, batch), L2(0.4), steps=5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda batch: (batch[:, 0] > 0.5).long(), "needs logits, but the model gave torch.int64: return logits"),
        (lambda batch: batch.detach(), "logits have no gradient"),
        (lambda batch: {"a": batch, "b": batch}, "say which holds the scores"),
        (
            lambda batch: batch[:, :, :4] * torch.ones(1, requires_grad=True),
            "labels are of shape|no class axis|coarser",
        ),
        (lambda batch: torch.zeros_like(batch) * torch.ones(1, requires_grad=True), "logits have no gradient"),
        (lambda batch: batch * torch.nan, "not finite"),
        (nn.Dropout(), "in training mode"),
    ],
)
def test_models_that_cannot_be_attacked(model, message, batch):
    labels = torch.zeros(3, 12, 12 + 4, dtype=torch.long)
    if "coarser" in message:
        labels = labels[:, :2]
    with pytest.raises(sc.InputError, match=message):
        pgd(model, batch, labels, L2(0.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be an integer not less than 1, but got 0"),
        ({"step_size": -1.0}, "step_size must be positive"),
        ({"loss": "none"}, "unknown loss 'none'"),
        ({"x": image()[None] + 3}, r"outside the box \(0.0, 1.0\)"),
        ({"x": image()[None] * math.nan, "box": None}, "NaN or infinite"),
        ({"x": torch.zeros(1, 3, 12, 16, dtype=torch.long)}, "must be a batch"),
        ({"x": image()[None].numpy()}, r"must be a batch \(B, ...\) of floats, but got ndarray"),
        ({"labels": np.zeros((1, 12, 16), int)}, "labels must be a tensor, but got ndarray"),
        ({"valid": [True]}, "valid must be a tensor, but got list"),
        ({"ball": 0.5}, r"ball must be such as L2\(0.16\), .* but got 0.5"),
        ({"labels": torch.zeros(2, 12, 16, dtype=torch.long)}, "must be of one batch"),
        ({"labels": torch.full((1, 12, 16), -1)}, "a label is -1, which is no class"),
        ({"labels": torch.full((1, 12, 16), 5)}, "labels must be below 5"),
        ({"labels": torch.zeros(1, 12, 15, dtype=torch.long)}, "labels are of shape"),
    ],
)
def test_bad_input(network, change, message):
    arguments = {"x": image()[None], "labels": torch.zeros(1, 12, 16, dtype=torch.long), "ball": L2(0.5)} | change
    with pytest.raises(sc.InputError, match=message):
        pgd(network, arguments.pop("x"), arguments.pop("labels"), arguments.pop("ball"), **arguments)
