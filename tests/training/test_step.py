"""One step: it lowers its loss, and leaves this batch's gradients alone in the weights."""

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch import nn
from toys import Recorder, batch, quick, small

from segcertify import InputError
from segcertify.models import Denoiser
from segcertify.models.networks.hrnet import Architecture, HRNet
from segcertify.training.objectives import PixelLoss, objective
from segcertify.training.optimisation import optimiser
from segcertify.training.recipe import DENOISING, OBJECTIVES
from segcertify.training.step import Step


def step_of(model, **changes):
    teacher = None
    if changes.get("objective") == "distillation":
        changes, teacher = {**changes, "teacher": "camvid"}, small().eval()  # the spec is not loaded here
    recipe = quick(**changes)
    return Step(model, objective(recipe, PixelLoss(), "cpu", teacher=teacher), recipe, graphed=False)


def losses(step, *, seed=0, size=(16, 20)):
    torch.manual_seed(seed)
    return step(*batch(size=size))


def hrnet():
    torch.manual_seed(0)
    return HRNet(Architecture(width=4, classes=3, blocks=1, modules=(1, 1, 1)))


def denoiser():
    """A denoiser as it is after some steps: a new one's last layer is 0, and so are the gradients of all others."""
    torch.manual_seed(0)
    model = Denoiser((4, 8))
    nn.init.normal_(model.tail.weight, std=0.1)
    return model


SEGMENTING = [name for name in OBJECTIVES if name != DENOISING]
SMALL = (small, (16, 20), {"adamw": 1e-3, "sgd": 0.02})
DEEP = (hrnet, (64, 64), {"adamw": 1e-4, "sgd": 0.002})


@pytest.mark.parametrize("how", ["adamw", "sgd"])
@pytest.mark.parametrize(
    ("name", "network", "size", "lr"),
    [
        *((name, *each) for name in SEGMENTING for each in (SMALL, DEEP)),
        (DENOISING, denoiser, (16, 20), {"adamw": 1e-3, "sgd": 0.02}),
    ],
)
def test_one_step_lowers_its_loss(name, how, network, size, lr):
    model = network().train()
    settings = {"objective": name, "epsilon": 0.1, "optimiser": how, "lr": lr[how]}
    update, step = optimiser(model, quick(**settings | {"objective": "noise"})), step_of(model, **settings)
    before = losses(step, size=size)["loss"].item()
    update.step()
    assert losses(step, size=size)["loss"].item() < before


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_of_the_loss_on_this_batch_alone(name):
    model = denoiser() if name == DENOISING else small(dropout=0.0, norm=False).train()
    step = step_of(model, objective=name)
    found = losses(step)
    first = [weight.grad.clone() for weight in model.parameters()]
    losses(step, seed=1)
    again = losses(step)
    for weight, gradient in zip(model.parameters(), first, strict=True):
        assert torch.equal(weight.grad, gradient)
        assert gradient.abs().max() > 0
    assert {key: value.item() for key, value in found.items()} == {key: value.item() for key, value in again.items()}
    assert not any(value.requires_grad for value in found.values())


def test_gradients_point_up():
    """Against a finite difference, in the direction of the gradient itself."""
    model = small(dropout=0.0, norm=False).train()
    step = step_of(model, objective="consistency")
    losses(step)
    gradient = [weight.grad.clone() for weight in model.parameters()]
    slope = sum(float((g**2).sum()) for g in gradient)
    ends = []
    for sign in (-1, 1):
        with torch.no_grad():
            for weight, g in zip(model.parameters(), gradient, strict=True):
                weight.add_(sign * 1e-3 * g)
        ends.append(losses(step)["loss"].item())
        with torch.no_grad():
            for weight, g in zip(model.parameters(), gradient, strict=True):
                weight.sub_(sign * 1e-3 * g)
    assert (ends[1] - ends[0]) / 2e-3 == pytest.approx(slope, rel=0.02)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_half_precision_is_in_the_network_alone(name):
    kinds = []
    network, last = (denoiser, "tail") if name == DENOISING else (partial(small, dropout=0.0), "5")
    model = Recorder(network().train())
    model.model.get_submodule(last).register_forward_hook(lambda *arguments: kinds.append(arguments[2].dtype))
    precise = losses(step_of(network().train(), objective=name))
    found = losses(step_of(model, objective=name, precision="bf16"))
    assert set(kinds) == {torch.bfloat16}
    assert {x.dtype for x in model.seen} == {torch.float32}
    for key, value in found.items():
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(precise[key].item(), rel=0.05, abs=0.01)
    assert all(weight.dtype == weight.grad.dtype == torch.float32 for weight in model.parameters())


def test_a_model_that_cannot_be_captured_is_told_what_to_say(monkeypatch):
    """As CUDA does it, without CUDA."""

    @contextmanager
    def capturing(graph):
        yield
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("torch.cuda.CUDAGraph", object)
    monkeypatch.setattr("torch.cuda.graph", capturing)
    recipe = quick()
    step = Step(small(), objective(recipe, PixelLoss(), "cpu"), recipe, graphed=True)
    step._done = 3
    with pytest.raises(InputError, match=r"graphable = False. CUDA said: operation not permitted"):
        losses(step)
