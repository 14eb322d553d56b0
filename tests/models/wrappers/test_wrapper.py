"""A wrapper has the mode, the randomness and the categories of the model inside."""

import importlib
import pkgutil

import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import models
from segcertify.models.formats.exported import Script
from segcertify.models.wrappers.mask_queries import MaskQueries
from segcertify.models.wrappers.reversed import Reversed
from segcertify.models.wrappers.wrapper import Wrapper


class ForCategory(nn.Module):
    random = True

    def __init__(self, category=""):
        super().__init__()
        self.category = category

    def for_category(self, category):
        return ForCategory(category)


@pytest.mark.parametrize(
    "wrap",
    [
        Wrapper,
        lambda model: models.adapt(model, mean=[0.5], std=[0.25]),
        lambda model: models.MultiScale(model, (0.5,)),
        lambda model: models.with_precision(model, "bf16"),
    ],
)
def test_a_wrapper_is_as_its_model(wrap):
    model = ForCategory().eval()
    wrapped = wrap(model)
    assert wrapped.random
    assert not wrapped.training
    chair = wrapped.for_category("Chair")
    assert type(chair) is type(wrapped)
    assert [each.category for each in chair.modules() if isinstance(each, ForCategory)] == ["Chair"]
    assert [each for each in wrapped.modules() if isinstance(each, ForCategory)] == [model]  # it is left alone
    assert {name for name, _ in chair.named_buffers()} == {name for name, _ in wrapped.named_buffers()}
    plain = wrap(nn.Identity())
    assert plain.training
    assert not plain.random
    assert plain.for_category("Chair") is plain


class Seeded(nn.Module):
    """Logits that its seeds decide; it keeps the seeds of every call."""

    def __init__(self, random=True):
        super().__init__()
        self.random, self.seen = random, []

    def forward(self, batch, **given):
        self.seen.append(given.get("seeds"))
        shifts = [torch.rand(3, 1, 1, generator=torch.Generator().manual_seed(seed)) for seed in given.get("seeds", [])]
        return batch + torch.stack(shifts) if self.random else batch


VIEWS = models.View(), models.View(0.5, mirrored=True)
WRAPPERS = {
    "adapted": models.adapt,
    "normalised": lambda model: models.adapt(model, mean=[0.5] * 3, std=[0.25] * 3),
    "one scale": lambda model: models.MultiScale(model, (0.5,)),
    "scales, flips and tiles": lambda model: models.MultiScale(model, (0.5, 1.0), flip=True, tile=(8, 8)),
    "no change of scale": lambda model: models.MultiScale(model, (1.0,)),
    "bf16": lambda model: models.with_precision(model, "bf16"),
    "fp16": lambda model: models.with_precision(model, "fp16"),
    "reversed": Reversed,
    "denoised": lambda model: models.Denoised(model, lambda noisy, sigma: noisy, 0.25),
    "torchscript": lambda model: Script(model, output=None, file=""),
    "decisions": lambda model: models.Decisions(model, above=1.0),
    "ensemble": lambda model: models.Ensemble([nn.Conv2d(3, 3, 1), model], views=VIEWS),
    "all": lambda model: models.with_precision(models.MultiScale(models.adapt(Reversed(model)), (0.5,)), "bf16"),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper_carries_seeds(name):
    """Each call of the model inside gets the seeds as they were given, and the sampler knows that it is random."""
    inside, x = Seeded(), torch.rand(3, 12, 16)
    wrapped = WRAPPERS[name](inside).eval()
    assert wrapped.random is True
    with torch.no_grad():
        first, again, other = (wrapped(x[None].repeat(2, 1, 1, 1), seeds=seeds) for seeds in ([5, 6], [5, 6], [7, 6]))
    assert inside.seen
    assert all(seeds in ([5, 6], [7, 6]) for seeds in inside.seen)
    assert torch.equal(first, again)
    assert not torch.equal(first[0], other[0])
    assert torch.equal(first[1], other[1])
    assert sc.sample(wrapped, x, noise=sc.Gaussian(0.1), n=4, n0=3, seed=0).n == 4
    certain = WRAPPERS[name](Seeded(random=False)).eval()
    assert not certain.random
    assert sc.sample(certain, x, noise=sc.Gaussian(0.1), n=4, n0=3, seed=0).n == 4


def test_no_wrapper_is_missing_above():
    for module in pkgutil.walk_packages(models.__path__, f"{models.__name__}."):
        if not module.name.rpartition(".")[2].startswith("triton_"):  # kernels need Triton
            importlib.import_module(module.name)
    kinds, found = [Wrapper], set()
    while kinds:
        subclasses = kinds.pop().__subclasses__()
        found.update(subclasses)
        kinds += subclasses
    tested = {type(module) for wrap in WRAPPERS.values() for module in wrap(Seeded()).modules()}
    of_transformers = {MaskQueries}  # around models that give no tensors: see test_mask_queries
    assert {each for each in found if each.__module__.startswith("segcertify.")} <= tested | of_transformers
