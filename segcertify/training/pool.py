"""Pool: scenes as tensors on a device, from which batches are taken and augmented."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch

from segcertify.data.augmentation import UNLABELLED, Augmentation
from segcertify.data.clouds.augmentation import augment_clouds
from segcertify.data.images.augmentation import augment_images
from segcertify.training.recipe import Recipe

Held = TypeVar("Held", bound="ImagePool | CloudPool")


@dataclass(frozen=True, eq=False)
class ImagePool:
    """Images (M, 3, H, W) and targets (M, H, W) as bytes, each in the upper left corner of a common canvas.

    ``sizes`` (M, 2) holds every image's own height and width; the rest of its canvas is grey and unlabelled.
    """

    images: torch.Tensor
    targets: torch.Tensor
    sizes: torch.Tensor
    classes: int
    noised: ClassVar[None] = None
    """Noise goes on all of an image."""

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, order: Iterable[torch.Tensor]) -> "Generator[ImagePool, None, None]":
        """The scenes of each batch, by their numbers."""
        return (take(self, indices) for indices in order)

    def augmented(self, augmentation: Augmentation) -> tuple[torch.Tensor, torch.Tensor]:
        """Crops (M, 3, *crop) in [0, 1] of all the images, and their targets (M, *crop)."""
        x, target = augment_images(self.images, self.targets, sizes=self.sizes, augmentation=augmentation)
        return x.contiguous(memory_format=torch.channels_last), target

    def scenes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every image (1, 3, height, width) in [0, 1] and its target, at their own size."""
        for image, target, (height, width) in zip(self.images, self.targets, self.sizes.tolist(), strict=True):
            yield image[None, :, :height, :width].float() / 255, target[:height, :width]


@dataclass(frozen=True, eq=False)
class CloudPool:
    """Clouds (M, points, columns) and targets (M, points); where shapes have categories, the last column is theirs."""

    clouds: torch.Tensor
    targets: torch.Tensor
    classes: int
    vectors: int
    """How many leading triples of columns rotate with the cloud: coordinates, and normals."""
    noised: ClassVar[int] = 3
    """Noise goes on the coordinates, the leading columns."""

    def __len__(self) -> int:
        return len(self.clouds)

    def batches(self, order: Iterable[torch.Tensor]) -> "Generator[CloudPool, None, None]":
        """The scenes of each batch, by their numbers."""
        return (take(self, indices) for indices in order)

    def augmented(self, augmentation: Augmentation) -> tuple[torch.Tensor, torch.Tensor]:
        """All the clouds (M, points, columns), augmented, and their targets (M, points)."""
        return augment_clouds(self.clouds, augmentation, vectors=self.vectors), self.targets.long()

    def scenes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every cloud (1, points, columns) and its target."""
        return zip(self.clouds[:, None], self.targets, strict=True)


Batch = ImagePool | CloudPool


class Pool(Protocol):
    """The scenes of a run: an `ImagePool` or a `CloudPool`, or a `StreamedPool` that reads them from disk."""

    @property
    def classes(self) -> int:
        """How many classes the targets have."""

    @property
    def noised(self) -> int | None:
        """How many leading columns of a cloud noise goes on; None for images, where it goes on all."""

    def __len__(self) -> int: ...

    def batches(self, order: Iterable[torch.Tensor]) -> Generator[Batch, None, None]:
        """The scenes of each batch, by their numbers."""

    def scenes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every scene as a batch of one, and its target, at their own size."""


def mapped(pool: Held, change: Callable[[torch.Tensor], torch.Tensor]) -> Held:
    """A pool with each of its tensors changed alike."""
    changed: dict[str, Any] = {}
    for field in fields(pool):
        value = getattr(pool, field.name)
        if isinstance(value, torch.Tensor):
            changed[field.name] = change(value)
    return replace(pool, **changed)


def take(pool: Held, indices: torch.Tensor) -> Held:
    """These scenes of a pool."""
    return mapped(pool, lambda part: part[indices.to(part.device, non_blocking=True)])


def frequencies(pool: Pool) -> torch.Tensor:
    """The share of each class among the labelled components."""
    counts = torch.zeros(UNLABELLED + 1, dtype=torch.float64)
    for _, target in pool.scenes():  # one by one: a count of all at once takes eight bytes a component
        counts += torch.bincount(target.flatten().int(), minlength=UNLABELLED + 1).cpu()
    counts = counts[: pool.classes]
    return counts / counts.sum()


def class_weights(pool: Pool, recipe: Recipe, device: torch.device | str) -> torch.Tensor | None:
    """The recipe's weight of each class in the loss, of mean 1; None if all count alike."""
    if recipe.class_weights == "none":
        return None
    if recipe.class_weights == "log":
        weights = 1 / torch.log(recipe.log_offset + frequencies(pool))
    else:
        weights = torch.tensor(recipe.class_weights, dtype=torch.float64)
    return (weights / weights.mean()).float().to(device)


def batch_order(
    scenes: int, batch_size: int, *, seed: int, start: int = 0, rank: int = 0, world_size: int = 1
) -> Iterator[torch.Tensor]:
    """Indices of batch ``start``, ``start + 1``, ...: epochs in random orders that depend on the seed alone.

    Each of ``world_size`` processes takes its own part of one order; a batch may cross from one epoch into the next.
    """
    first = (start * world_size + rank) * batch_size
    while True:
        parts, position = [], first
        while position < first + batch_size:  # the part of the batch that lies in one epoch
            epoch, low = divmod(position, scenes)
            order = np.random.default_rng([seed, epoch]).permutation(scenes)
            parts.append(order[low : low + first + batch_size - position])
            position += len(parts[-1])
        yield torch.from_numpy(np.concatenate(parts))
        first += world_size * batch_size
