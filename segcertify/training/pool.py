"""Pool: all scenes of a data set as bytes in the device's memory, so that a batch costs one look-up."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.progress import progress_bar

IGNORE = 255
"""The target where the ground truth says nothing, and beside the image."""

GREY = 127
"""What is beside the image."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Images (M, 3, H, W) and targets (M, H, W) as bytes, each in the upper left corner of a common canvas.

    ``sizes`` (M, 2) holds every image's own height and width; the rest of its
    canvas is grey, with the target IGNORE.
    """

    images: torch.Tensor
    targets: torch.Tensor
    sizes: torch.Tensor
    classes: int

    def __len__(self) -> int:
        return len(self.images)

    @property
    def frequencies(self) -> torch.Tensor:
        """The share of each class among the valid pixels."""
        counts = torch.zeros(IGNORE + 1, dtype=torch.float64)
        for target in self.targets:  # one by one: a count of all at once takes eight bytes a pixel
            counts += torch.bincount(target.flatten().int(), minlength=IGNORE + 1).cpu()
        counts = counts[: self.classes]
        return counts / counts.sum()


def read_pool(data: DataSet, device: torch.device | str, *, progress: bool | None = None) -> Pool:
    """Read a data set into memory; every image and label is checked on the way."""
    if len(data.classes) > IGNORE:
        raise InputError(
            f"{data.name} has {len(data.classes)} classes, but training keeps targets as bytes: at most 255"
        )
    images, targets = [], []
    with ThreadPoolExecutor() as pool, progress_bar(len(data), f"reading {data.name}", show=progress) as advance:
        for scene in pool.map(data.__getitem__, range(len(data))):
            images.append(np.rint(scene.x * 255).astype(np.uint8))
            targets.append(np.where(scene.valid, scene.target, IGNORE).astype(np.uint8))
            advance(1)
    sizes = torch.tensor([target.shape for target in targets])
    height, width = (int(side) for side in sizes.amax(0))
    canvas = torch.full((len(data), 3, height, width), GREY, dtype=torch.uint8)
    blank = torch.full((len(data), height, width), IGNORE, dtype=torch.uint8)
    for i, (image, target) in enumerate(zip(images, targets, strict=True)):
        canvas[i, :, : image.shape[1], : image.shape[2]] = torch.from_numpy(image)
        blank[i, : target.shape[0], : target.shape[1]] = torch.from_numpy(target)
    return Pool(canvas.to(device), blank.to(device), sizes.to(device), len(data.classes))


def batches(
    scenes: int, batch_size: int, *, seed: int, start: int = 0, rank: int = 0, ranks: int = 1
) -> Iterator[torch.Tensor]:
    """Indices of batch ``start``, ``start + 1``, ...: epochs in random orders that depend on the seed alone.

    Of ``ranks`` processes each takes its own part of one order; a batch may
    cross from one epoch into the next.
    """
    step = start
    while True:
        first = (step * ranks + rank) * batch_size
        positions = range(first, first + batch_size)
        yield torch.cat([_order(scenes, seed, epoch)[low:high] for epoch, low, high in _epochs(positions, scenes)])
        step += 1


def _epochs(positions: range, scenes: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a run of positions that fall into one epoch each: epoch, first, end."""
    at = positions.start
    while at < positions.stop:
        epoch, low = divmod(at, scenes)
        high = min(scenes, low + positions.stop - at)
        yield epoch, low, high
        at += high - low


def _order(scenes: int, seed: int, epoch: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(scenes))
