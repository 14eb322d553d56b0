"""The baseline: the steps of the pipeline that was released with the paper [Fischer2021], in our own words.

For each batch of draws, in this order: NumPy adds noise to the full-size image in double precision and normalises it.
The processor resizes the noisy images. They go to the device in single precision, and the network runs on them as it
is, not compiled. Its scores are upsampled to its input, exponentiated, upsampled to the full size and summed over the
scales, of which there is one here. The arg-max goes to the host, which keeps the labels of all draws. Then a pool of
processes counts and tests each pixel by itself, and Holm's correction follows.

One step differs: here each draw has noise of its own. The released code draws it too, but then resizes one noisy image
of a batch again and again, so that its draws are not independent. Both take the same time.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import interpolate

from segcertify.arrays import FloatArray, IntArray
from segcertify.bench.binomial_tests import PixelPool, holm, spread, test_together
from segcertify.bench.machine import wait
from segcertify.chunks import cores
from segcertify.errors import InputError, require_integer
from segcertify.models.wrappers.multiscale import MultiScale
from segcertify.models.wrappers.normalisation import Normalise
from segcertify.models.wrappers.wrapper import unwrapped
from segcertify.sampling.segmenter import Segmenter, is_random

BATCH_SIZES = {0.25: 24, 0.5: 12, 1.0: 4}
"""Draws in one pass at each scale, from the paper's table of batch sizes for Cityscapes."""
ABSTAIN = -1
SAMPLING = ("noise", "resize", "copy to the device", "network", "upsampling", "arg-max and copy to the host")
TESTS = ("counting and tests, pixel by pixel", "Holm")


@dataclass(frozen=True, eq=False)
class Released:
    """What the released pipeline took, and its labels (ABSTAIN where it does not certify).

    If only ``draws_made`` draws were made, or only ``pixels_tested`` pixels tested one by one, ``stages`` hold times
    that are extrapolated to all, linearly, and after fewer draws there are no labels. ``vectorised`` is the time of
    counting and tests with vectorised SciPy instead, and of the same Holm.
    """

    stages: dict[str, float]
    vectorised: float
    labels: IntArray | None
    draws: int
    draws_made: int
    pixels: int
    pixels_tested: int
    processes: int
    batch_size: int
    resized_by: str
    holm_by: str
    stored_gib: float
    """The labels of all draws."""

    @property
    def extrapolated(self) -> bool:
        """Whether times are extrapolated from some of the draws, or from some of the pixels."""
        return self.draws_made < self.draws or self.pixels_tested < self.pixels

    @property
    def total(self) -> float:
        """All stages."""
        return sum(self.stages.values())

    @property
    def total_vectorised(self) -> float:
        """All stages, with vectorised tests instead of those pixel by pixel."""
        return sum(self.stages[name] for name in SAMPLING) + self.vectorised


def measure(
    model: Segmenter, x: torch.Tensor, sigma: float, *, n: int = 100, n0: int = 10, tau: float = 0.75,
    alpha: float = 0.001, seed: int = 0, draws: int | None = None, pixels: int | None = None,
    processes: int | None = None,
) -> Released:  # fmt: skip
    """Certify the image x (3, H, W) on its device as the released pipeline does, and time each step.

    ``draws`` limits how many are made: the time of the others is then extrapolated, the tests see the same labels again
    and again, and nothing is certified. ``pixels`` limits how many are tested one by one: the time of the others is
    extrapolated, and their p-values come from the vectorised tests, which are the same.
    """
    network = Network.of(model, x)
    clock, n0 = _Clock(x.device), require_integer("n0", n0)
    made = min(n0 + n, n0 + n if draws is None else require_integer("draws", draws))
    stored, batch_size = network.labels(x, sigma, made, seed, clock)
    for name in SAMPLING:
        clock.stages[name] *= (n0 + n) / made
    labels = stored.reshape(made, -1)
    labels = labels if made == n0 + n else np.resize(labels, (n0 + n, labels.shape[1]))  # the same again and again
    classes, size = int(labels.max()) + 1, labels.shape[1]
    chosen = spread(size, size if pixels is None else require_integer("pixels", pixels))
    with PixelPool(processes or cores()) as pool:
        some = labels if len(chosen) == size else np.ascontiguousarray(labels[:, chosen])
        with clock.stage(TESTS[0]):
            tested = pool.test(some, n0=n0, classes=classes, tau=tau)
        clock.stages[TESTS[0]] *= size / len(chosen)
        count = pool.processes
    start = time.perf_counter()
    together = test_together(labels, n0=n0, classes=classes, tau=tau)
    at_once = time.perf_counter() - start
    if not np.array_equal(tested.labels, together.labels[chosen]):
        raise AssertionError("tests pixel by pixel and together chose different labels")
    together.p_values[chosen] = tested.p_values
    procedure, holm_by = holm()  # imported before the clock starts
    with clock.stage(TESTS[1]):
        rejected = procedure(together.p_values, alpha)
    certified = np.where(rejected, together.labels, ABSTAIN).reshape(stored.shape[1:])
    return Released(
        clock.stages, at_once + clock.stages[TESTS[1]], certified if made == n0 + n else None, n0 + n, made, size,
        len(chosen), count, batch_size, network.resized_by, holm_by, labels.nbytes / 2**30,
    )  # fmt: skip


@dataclass(frozen=True)
class Network:
    """A network without its wrappers, the scale that it sees images at, and the normalisation that is done before."""

    module: Callable[..., torch.Tensor]
    scale: float
    mean: FloatArray
    std: FloatArray
    resized_by: str

    @classmethod
    def of(cls, model: Segmenter, x: torch.Tensor) -> Network:
        """The network inside a model of images, at one scale of at most 1: the settings that have a baseline."""
        if x.ndim != 3 or is_random(model):
            raise InputError(f"the released pipeline is for images (3, H, W), but the input has shape {tuple(x.shape)}")
        scales = [each for each in _modules(model) if isinstance(each, MultiScale)]
        for each in scales:
            if len(each.scales) != 1 or each.scales[0] > 1 or each.flip or each.tile or each.base_size:
                raise InputError(
                    "the baseline has one scale of at most 1, no flips and no tiles: use such as ?scale=0.5"
                )
        module = unwrapped(model) if isinstance(model, nn.Module) else model
        module, mean, std = _without_normalisation(module, channels=len(x))
        return cls(
            module, scales[0].scales[0] if scales else 1.0, mean, std, "OpenCV" if _opencv() else "torch, on the CPU"
        )

    def labels(
        self, x: torch.Tensor, sigma: float, draws: int, seed: int, clock: _Clock
    ) -> tuple[IntArray, int]:  # fmt: skip
        """The labels of all draws, (draws, H, W), as 64-bit integers on the host, and the batch size."""
        image = x.cpu().numpy().transpose(1, 2, 0)
        rng = np.random.RandomState(seed)  # the generator of numpy.random.randn
        batch_size = min(BATCH_SIZES.get(self.scale, 4), draws)
        self._warm(x, batch_size)
        kept = []
        for start in range(0, draws, batch_size):
            count = min(batch_size, draws - start)
            with clock.stage("noise"):
                noisy = [
                    (image + sigma * rng.standard_normal(image.shape) - self.mean) / self.std for _ in range(count)
                ]
            with clock.stage("resize"):
                small = [_resized(each, self.scale).astype(np.float32) for each in noisy]
                stacked = np.stack(small).transpose(0, 3, 1, 2)
            kept.append(self._predicted(stacked, x, clock))
        with clock.stage(SAMPLING[-1]):
            return np.concatenate(kept), batch_size

    def _predicted(self, batch: NDArray[np.float32], x: torch.Tensor, clock: _Clock) -> IntArray:
        """The labels of a batch of noisy images at the network's size."""
        with torch.no_grad():
            with clock.stage("copy to the device"):
                images = torch.from_numpy(batch).to(x.device)
            with clock.stage("network"):
                scores = self.module(images)
            with clock.stage("upsampling"):
                scores = interpolate(scores, size=images.shape[2:], mode="bilinear", align_corners=False).exp()
                total = torch.zeros(len(scores), scores.shape[1], *x.shape[1:], device=x.device)
                total += interpolate(scores, size=tuple(x.shape[1:]), mode="bilinear", align_corners=False)
            with clock.stage("arg-max and copy to the host"):
                return total.argmax(1).cpu().numpy()

    def _warm(self, x: torch.Tensor, batch_size: int) -> None:
        """One pass that is not timed: the first one of a process sets the device up."""
        size = [max(1, math.floor(side * self.scale + 0.5)) for side in x.shape[1:]]
        with torch.no_grad():
            self.module(torch.zeros(batch_size, len(x), *size, device=x.device))


class _Clock:
    """Adds up the time of named stages. When a stage ends, the device has done its work."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.stages = device, dict.fromkeys((*SAMPLING, *TESTS), 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Work of a stage."""
        start = time.perf_counter()
        yield
        wait(self.device)
        self.stages[name] += time.perf_counter() - start


def _modules(model: Any) -> Iterator[nn.Module]:
    """A model and the modules inside it."""
    return model.modules() if isinstance(model, nn.Module) else iter(())


def _without_normalisation(module: Any, channels: int) -> tuple[Any, FloatArray, FloatArray]:
    """A network whose own normalisation is left out, if it has one, and the mean and std of it."""
    found = [(name, each) for name, each in module.named_children() if isinstance(each, Normalise)] if isinstance(
        module, nn.Module
    ) else []  # fmt: skip
    if not found:
        return module, np.zeros(channels), np.ones(channels)
    (name, normalise), *_ = found
    bare = copy.deepcopy(module)
    setattr(bare, name, nn.Identity())
    numbers = normalise.description()
    return bare, np.array(numbers["mean"]), np.array(numbers["std"])


def _resized(image: FloatArray, scale: float) -> FloatArray:
    """An image (H, W, 3) at a scale, bilinear and without antialiasing."""
    height, width = (max(1, math.floor(side * scale + 0.5)) for side in image.shape[:2])
    if (cv2 := _opencv()) is not None:
        return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR))
    if (height, width) == image.shape[:2]:
        return image.copy()
    planes = torch.from_numpy(image).permute(2, 0, 1)[None]
    small = interpolate(planes, size=(height, width), mode="bilinear", align_corners=False)
    return np.asarray(small[0].permute(1, 2, 0).numpy())


def _opencv() -> Any:
    """OpenCV, if it is installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2
