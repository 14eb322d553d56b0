"""A tiny data set, tiny networks and quick recipes that the tests of training share."""

import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import segcertify as sc
from segcertify.models.card import read_model
from segcertify.models.wrappers.normalisation import Normalise
from segcertify.training import Intervals, Recipe, pool, train

SIZES = ((24, 32), (20, 28), (24, 30), (18, 32), (22, 26), (24, 32))
PALETTE = np.array([[220, 40, 40], [40, 220, 40], [40, 40, 220]])
TOML = """
name = "toys"
images = "{split}/images"
labels = "{split}/labels"
classes = ["red", "green", "blue"]
ignore = 255
"""
SPEC = f"python:{__name__}:small"
QUICK = {
    "iterations": 11, "batch_size": 4, "crop": (16, 16), "precision": "fp32", "lr": 0.01, "rescale": (0.8, 1.25),
    "colour": 0.2,
}  # fmt: skip
AS_IT_IS = {"rescale": (1.0, 1.0), "flip": False, "colour": 0.0, "crop": (24, 32)}
"""No augmentation of pictures of this size."""


def tree(root, *, sizes=SIZES, split="train"):
    """A folder of pictures in which a class is a colour, with noise; the corner has no ground truth."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.toml").write_text(TOML)
    for i, size in enumerate(sizes):
        rng = np.random.default_rng([i, split == "train"])
        label = np.kron(rng.integers(0, 3, (3, 4)), np.ones((12, 12), int))[: size[0], : size[1]]
        pixels = np.clip(PALETTE[label] + rng.normal(0, 20, (*size, 3)), 0, 255)
        label[:3, :3] = 255
        for kind, array in (("images", pixels), ("labels", label)):
            (root / split / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(array.astype(np.uint8)).save(root / split / kind / f"{i}.png")
    return f"folder:{root}?split={split}"


def load(root, **options):
    return sc.data.load(tree(root, **options))


def small(classes=3, dropout=0.2, seed=0, norm=True):
    """Two layers with half the resolution, and a normalisation."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layers = [
            Normalise((0.4, 0.5, 0.6), (0.3, 0.25, 0.2)),
            nn.Conv2d(3, 6, 3, stride=2, padding=1),
            nn.BatchNorm2d(6) if norm else nn.Identity(),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Conv2d(6, classes, 1),
        ]
    return nn.Sequential(*layers)


def mortal(classes=3):
    """A network whose process is killed as its call number KILL_AT begins, if there is such a variable."""
    model, calls = small(classes), []

    def count(*_):
        calls.append(1)
        if len(calls) == int(os.environ.get("KILL_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)

    model.register_forward_pre_hook(count)
    return model


class Recorder(nn.Module):
    """A network, what it was given, and whether it was training."""

    def __init__(self, model):
        super().__init__()
        self.model, self.seen, self.modes = model, [], []
        self.train(model.training)

    def forward(self, batch, *sigma):
        self.seen.append(batch.detach().clone())
        self.modes.append(self.model.training)
        return self.model(batch, *sigma)  # a denoiser is given sigma too


def quick(**changes):
    return Recipe(**QUICK | changes)


def batch(seed=0, count=4, size=(16, 20), classes=3):
    """Images of noise, and targets of which some say nothing."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, *size, generator=generator)
    target = torch.randint(classes, (count, *size), generator=generator)
    target[torch.rand(target.shape, generator=generator) < 0.1] = 255
    return x, target


def trained(data, out, recipe=None, model=None, **settings):
    """The file of a quick run's model."""
    usual = {"spec": SPEC, "intervals": Intervals(log=2, save=4, validate=4), "device": "cpu", "progress": False}
    return train(small() if model is None else model, data, recipe or quick(), out=out, **usual | settings)


def weights(path):
    """The tensors of a model file."""
    return read_model(path)[1].tensors


def same(a, b):
    """Whether two sets of tensors are equal, bit by bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Killed(Exception):  # noqa: N818
    """What ends a run in the middle."""


def killed(data, out, recipe, monkeypatch, *, after, **settings):
    """A run that ends within step ``after``."""
    real, calls = pool.augment_images, []

    def mortal(*arguments, **options):
        calls.append(1)
        if len(calls) > after:
            raise Killed
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pool, "augment_images", mortal)
        with pytest.raises(Killed):
            trained(data, out, recipe, **settings)
