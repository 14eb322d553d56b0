"""Models that another process can import: of images and of clouds, and some that do harm to their worker."""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from segcertify.metrics.shapenet import CATEGORIES


def brightness(batch):
    grey = batch.mean(1)
    return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)


def small_network():
    """A network with convolutions, whose sums depend on how they are cut."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1)
    return nn.Sequential(*layers).eval()


@dataclass(frozen=True)
class Parts:
    """A category's first part where x is above a bound, else its second; the bound is random."""

    category: str = ""
    random = True

    def for_category(self, category):
        return replace(self, category=category)

    def __call__(self, batch, seeds=None):
        first = CATEGORIES[self.category][0]
        bound = torch.tensor([0.02 * (seed % 5 - 2) for seed in seeds or [0] * len(batch)])
        return first + (batch[..., 0] < bound[:, None]).long()


@dataclass(frozen=True)
class Harmful:
    """`brightness`, but a call in another process than the driver's does harm, ``times`` in all.

    Calls are counted by files in a folder. ``harm`` is "kill", "sleep" or "memory".
    """

    folder: str
    harm: str
    after: int = 40
    times: int = 1

    def __call__(self, batch):
        folder = Path(self.folder)
        calls = len(list(folder.glob("call-*")))
        (folder / f"call-{os.getpid()}-{time.monotonic_ns()}").touch()
        harmed = len(list(folder.glob("harm-*")))
        if calls >= self.after and harmed < self.times:
            (folder / f"harm-{harmed}").touch()
            if self.harm == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.harm == "sleep":
                time.sleep(600)
            raise torch.OutOfMemoryError("out of memory, for a test")
        return brightness(batch)


@dataclass(frozen=True)
class Slow:
    """`brightness`, some time after."""

    seconds: float

    def __call__(self, batch):
        time.sleep(self.seconds * len(batch))
        return brightness(batch)


@dataclass(frozen=True)
class Neighbourly:
    """Entries influence each other."""

    def __call__(self, batch):
        return brightness(batch + 0.3 * batch.mean(0, keepdim=True))
