"""A model's identity in plain values: what decides its answers is in it, and nothing else is."""

import functools
import hashlib
import json

import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify.errors import InputError
from segcertify.models import Ensemble, MultiScale, View, adapt, load, with_precision
from segcertify.sampling.identity import answers, identity, same_identity, weights_digest
from segcertify.votes import model_difference


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU()).eval()


class Scaled(nn.Module):
    """A module of somebody else: it has a setting, no weights and no method ``identity``."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.function = factor, abs

    def forward(self, x):
        return self.factor * x

    def extra_repr(self):
        return f"{self.factor}"


MODELS = {
    "plain": network,
    "other weights": lambda: network(1),
    "another class": lambda: nn.Sequential(network()[0], nn.GELU()),
    "a setting of somebody else's module": lambda: nn.Sequential(network(), Scaled(1.0)),
    "another setting of it": lambda: nn.Sequential(network(), Scaled(-1.0)),
    "adapted": lambda: adapt(network()),
    "output": lambda: adapt(network(), output="out"),
    "normalisation": lambda: adapt(network(), mean=[0.5] * 3, std=[0.25] * 3),
    "another normalisation": lambda: adapt(network(), mean=[0.5] * 3, std=[0.5] * 3),
    "scales": lambda: MultiScale(network(), (0.5,)),
    "other scales": lambda: MultiScale(network(), (0.75,)),
    "flip": lambda: MultiScale(network(), (0.5,), flip=True),
    "tile": lambda: MultiScale(network(), (0.5,), tile=(8, 8)),
    "stride": lambda: MultiScale(network(), (0.5,), tile=(8, 8), stride=0.5),
    "combine": lambda: MultiScale(network(), (0.5,), combine="softmax"),
    "views": lambda: Ensemble([network()], views=[View(), View(0.5)]),
    "other views": lambda: Ensemble([network()], views=[View(), View(0.5, mirrored=True)]),
    "bf16": lambda: with_precision(network(), "bf16"),
    "fp16": lambda: with_precision(network(), "fp16"),
    "parts": lambda: load("parts?runs=1"),
    "more runs": lambda: load("parts?runs=2"),
    "a category": lambda: load("parts?runs=1&category=Chair"),
}


def test_models_differ_exactly_where_they_were_made_differently():
    said = {name: identity(make()) for name, make in MODELS.items()}
    texts = {name: json.dumps(each) for name, each in said.items()}  # plain values
    assert len(set(texts.values())) == len(MODELS)
    for name, make in MODELS.items():
        assert json.dumps(identity(make())) == texts[name]
        assert same_identity(make(), json.loads(texts[name]))
        assert not any(same_identity(make(), json.loads(text)) for other, text in texts.items() if other != name)
        assert " at 0x" not in texts[name]


def test_what_is_said():
    said = identity(MultiScale(adapt(network(), mean=[0.5] * 3, std=[0.25] * 3), (0.5, 1.0), flip=True))
    assert said["classes"] == ["Sequential", "Conv2d", "ReLU"]
    assert said["settings"] == {
        "": {
            "class": "MultiScale", "scales": (0.5, 1.0), "flip": True, "tile": None, "combine": "exp", "stride": 1.0,
        },
        "model.normalise": {"class": "Normalise", "mean": [0.5] * 3, "std": [0.25] * 3},
    }  # fmt: skip
    assert identity(load("parts?runs=1"))["settings"] == {"": {"class": "PartSegmenter", "category": None, "runs": 1}}


def test_functions_say_nothing_adapted_or_not():
    assert identity(torch.relu) == identity(adapt(torch.relu)) == {"weights": "", "classes": [], "settings": {}}


def test_a_foreign_module_may_say_more():
    class Foreign(nn.Module):
        def __init__(self, bound):
            super().__init__()
            self.bound = bound

        def identity(self):
            return {"bound": self.bound}

    assert identity(Foreign(3))["settings"] == {"": {"class": "Foreign", "bound": 3}}
    assert identity(Foreign(3)) != identity(Foreign(4))
    with pytest.raises(InputError, match=r"Wrong\.identity\(\) must return a dict"):
        identity(type("Wrong", (nn.Module,), {"identity": lambda self: 3})())
    named = network()
    named.identity = nn.Identity()  # a submodule of that name is no description
    assert identity(named)["settings"] == {}


def test_what_earlier_versions_stored():
    """A digest of weights, where no module had settings of its own; of a function none, or that of no bytes."""
    model = network()
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    stored = digest.hexdigest()[:16]
    assert weights_digest(model) == stored
    assert same_identity(model, stored)
    assert not same_identity(network(1), stored)
    assert not same_identity(MultiScale(network(), (0.5,)), stored)
    assert same_identity(torch.relu, "")
    assert same_identity(torch.relu, hashlib.sha256().hexdigest()[:16])
    assert not same_identity(torch.relu, stored)


def test_a_wrapper_without_settings_is_still_told_apart():
    """Two wrappers of one network that say nothing but give opposite labels."""

    class Kept(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def identity(self):
            return {}

        def forward(self, batch):
            return self.model(batch)

    class Negated(Kept):
        def forward(self, batch):
            return -self.model(batch)

    kept, negated = identity(Kept(network())), identity(Negated(network()))
    assert kept != negated
    assert kept["settings"] == {"": {"class": "Kept"}}
    assert not same_identity(Negated(network()), kept)


def votes_of(model, x=None, **settings):
    x = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(0)) if x is None else x
    return sc.sample(model, x, noise=sc.Gaussian(0.1), n=20, n0=5, **{"seed": 0, **settings})


def test_votes_keep_the_identity_of_a_network():
    model = network()
    votes = votes_of(model)
    assert votes.model == json.loads(json.dumps(identity(model)))
    assert "name" not in votes.model
    assert votes_of(network(1)).model != votes.model
    assert sc.certify_votes(votes, tau=0.5, alpha=0.1).model == votes.model


def test_a_network_is_described_once_for_each_smoothed_model(monkeypatch):
    described = []
    monkeypatch.setattr(
        "segcertify.sampling.running.identity", lambda model: described.append(model) or identity(model)
    )
    smooth = sc.Smooth(network(), sigma=0.1, seed=0)
    for size in (6, 6, 8):
        smooth.votes(torch.rand(3, 6, size), n=4, n0=2)
    assert len(described) == 1


def bright(batch):
    return (batch.mean(1) > 0.5).long()


def test_a_function_is_known_by_all_its_answers_to_the_probe():
    """Also where a single one of 1,536 differs, of which a fingerprint takes every third."""
    x = torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(1))

    def one_other(batch):
        labels = bright(batch)
        labels[:, 5, 7] = 1 - labels[:, 5, 7]
        return labels

    ours = votes_of(bright, x)
    assert (ours.model["name"], ours.model["weights"]) == ("bright", "")
    assert votes_of(bright, x, batch_size=1).model == ours.model
    assert votes_of(bright, x + 1, seed=3).model == ours.model  # whatever the input and the seed
    other = votes_of(one_other, x)
    assert other.fingerprint == ours.fingerprint
    assert other.model["answers"] != ours.model["answers"]
    assert "its answers is" in model_difference(ours.model, other.model)


def test_a_function_around_a_network_is_known_by_its_logits():
    """On noise a network may give all of an image one label: two networks then differ in their logits alone."""

    def made(seed):
        inner = network(seed)
        return lambda batch: inner(batch) + torch.tensor([5.0, 0.0])[:, None, None]

    first, again, other = (votes_of(made(seed)).model for seed in (0, 0, 1))
    assert first["answers"] == other["answers"]
    assert model_difference(first, again) == ""
    assert "the mean sizes of its logits" in model_difference(first, other)
    assert votes_of(made(0), batch_size=1).model["answers"] == first["answers"]


def test_names_have_no_addresses():
    class Callable:
        def __call__(self, batch):
            return bright(batch)

    named = (("Callable", Callable()), ("bright", functools.partial(bright)), ("bright", adapt(bright)))
    for name, model in named:
        said = votes_of(model).model["name"]
        assert said.endswith(name)
        assert "0x" not in said


@pytest.mark.parametrize(("classes", "step"), [(1, 1), (3, 1), (63, 1), (64, 2), (320, 10)])
def test_the_logits_of_few_classes_are_all_kept(classes, step):
    """And those of about 32 of many: the mean size of each."""
    output = torch.arange(float(classes))[:, None] * torch.tensor([1.0, -3.0])
    said = answers(output, torch.zeros(2, dtype=torch.int64))
    assert said["logits"] == [2.0 * each for each in range(0, classes, step)]
    assert "logits" not in answers(torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
