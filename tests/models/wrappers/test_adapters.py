"""Outputs of other libraries' models, normalisation inside, and modules that stay modules."""

from collections import OrderedDict
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError
from segcertify.models import adapt, with_precision
from segcertify.models.wrappers.normalisation import Normalise


@dataclass
class Output:
    """As Hugging Face returns it."""

    logits: torch.Tensor


class Wrapped(nn.Module):
    """A network whose output is packed in some library's way."""

    def __init__(self, network, pack):
        super().__init__()
        self.network, self.pack = network, pack

    def forward(self, batch):
        return self.pack(self.network(batch))


PACKS = {
    "tensor": lambda scores: scores,
    "torchvision": lambda scores: OrderedDict(out=scores, aux=-scores),
    "object": Output,
    "dict": lambda scores: {"loss": None, "logits": scores},
    "tuple": lambda scores: (scores, scores.mean((1, 2, 3))),
    "list": lambda scores: [scores],
    "tuple of objects": lambda scores: (Output(scores), None),
}


@pytest.mark.parametrize("pack", PACKS)
def test_the_votes_are_the_networks(pack, network, same_votes):
    model = adapt(Wrapped(network, PACKS[pack]).eval())
    assert same_votes(model, network)
    assert list(model.parameters())
    assert not model.training
    assert adapt(model) is model


def test_plain_functions_work(network, same_votes):
    assert same_votes(adapt(lambda batch: {"out": network(batch)}), network)


def test_a_chosen_output(network, same_votes):
    ocr = Wrapped(network, lambda scores: [-scores, scores]).eval()
    assert same_votes(adapt(ocr, output=-1), network)
    assert same_votes(adapt(Wrapped(network, lambda scores: {"main": scores}).eval(), output="main"), network)


def test_several_score_maps_are_a_warning_once(network, image):
    model = adapt(Wrapped(network, lambda scores: [scores, -scores]).eval())
    with pytest.warns(UserWarning, match="returned 2 score maps and the first is taken.*output=-1"):
        model(image[None])
    model(image[None])  # warnings are errors here: the second call gives none


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ({"mask": 1, "edge": 2}, {}, "a dict with the keys 'mask', 'edge': say which"),
        ("text", {}, "the model's scores are str, not a tensor"),
        ((), {}, "scores are tuple"),
        (None, {}, "scores are NoneType"),
        ([1, 2], {}, "scores are int"),
        ([1, 2], {"output": 2}, "no entry 2: it is list of 2"),
        ({"a": 1}, {"output": "b"}, "no entry 'b': it is the keys 'a'"),
    ],
)
def test_outputs_without_scores(output, options, message):
    with pytest.raises(InputError, match=message):
        adapt(lambda batch: output, **options)(torch.zeros(1, 3, 2, 2))


def test_normalisation_goes_inside(network, same_votes):
    mean, std = [0.5, 0.25, 0.125], [0.5, 0.25, 1.0]
    columns = [torch.tensor(values).view(1, 3, 1, 1) for values in (mean, std)]
    assert same_votes(adapt(network, mean=mean, std=std), lambda batch: network((batch - columns[0]) / columns[1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: adapt(3), "model must be callable on a batch, but got int"),
        (lambda: adapt(abs, mean=[0.5]), "needs both mean and std"),
        (lambda: adapt(abs, mean=[0.5], std=[0.0]), "std must be positive, but got 0.0"),
        (lambda: Normalise([], []), "one entry per channel, but got 0 and 0"),
        (lambda: Normalise([float("nan")], [1]), "mean must be finite"),
        (lambda: Normalise([0, 0, 0], [1, 1, 1])(torch.zeros(1, 1, 2, 2)), r"images \(B, 3, H, W\), but got shape"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_modes_and_devices_follow_the_model(network):
    model = adapt(network, mean=[0.5] * 3, std=[0.5] * 3)
    assert not any(module.training for module in model.modules())
    model.train()
    assert network.training
    model.to(torch.float64)
    assert network[0].weight.dtype == model.normalise.mean.dtype == torch.float64
    assert not [name for name in model.state_dict() if "normalise" in name]


def test_a_layer_left_in_training_mode_is_still_seen(network, votes):
    network[3].train()
    with pytest.raises(InputError, match="the model is in training mode"):
        votes(adapt(network))


def test_a_random_model_stays_random(image):
    class Noisy:
        random = True

        def __call__(self, batch, seeds):
            shifts = [torch.rand(3, 1, 1, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
            return {"out": batch + torch.stack(shifts)}

    model = adapt(Noisy())
    assert model.random
    assert sc.sample(model, image, noise=sc.Gaussian(0.1), n=4, n0=2, seed=0).candidate.shape == (16, 24)


def test_precision(network, image, votes):
    assert with_precision(network, "fp32") is network
    low = with_precision(network, "bf16")
    scores = low(image[None])
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, network(image[None]))
    torch.testing.assert_close(scores, network(image[None]), atol=0.1, rtol=0.1)
    assert (votes(low).candidate == votes(network).candidate).mean() > 0.9
    assert not low.random
    with pytest.raises(InputError, match="unknown precision 'int8': use fp32, bf16 or fp16"):
        with_precision(network, "int8")
