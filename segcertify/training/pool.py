"""Pool: all scenes of a data set in the device's memory, so that a batch is one indexing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from segcertify.arrays import Array
from segcertify.data import DataSet, Scene
from segcertify.data.augmentation import UNLABELLED, Augmentation
from segcertify.data.clouds.augmentation import augment_clouds
from segcertify.data.domain import CLOUD
from segcertify.data.images.augmentation import GREY, augment_images
from segcertify.errors import InputError
from segcertify.progress import progress_bar
from segcertify.training.recipe import Recipe


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

    def batch(self, indices: torch.Tensor, augmentation: Augmentation) -> tuple[torch.Tensor, torch.Tensor]:
        """Crops (B, 3, *crop) in [0, 1] of these images, and their targets (B, *crop)."""
        images, targets, sizes = (part[indices] for part in (self.images, self.targets, self.sizes))
        x, target = augment_images(images, targets, sizes=sizes, augmentation=augmentation)
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

    def batch(self, indices: torch.Tensor, augmentation: Augmentation) -> tuple[torch.Tensor, torch.Tensor]:
        """These clouds (B, points, columns), augmented, and their targets (B, points)."""
        x = augment_clouds(self.clouds[indices], augmentation, vectors=self.vectors)
        return x, self.targets[indices].long()

    def scenes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every cloud (1, points, columns) and its target."""
        return zip(self.clouds[:, None], self.targets, strict=True)


Pool = ImagePool | CloudPool


def frequencies(pool: Pool) -> torch.Tensor:
    """The share of each class among the labelled components."""
    counts = torch.zeros(UNLABELLED + 1, dtype=torch.float64)
    for target in pool.targets:  # one by one: a count of all at once takes eight bytes a component
        counts += torch.bincount(target.flatten().int(), minlength=UNLABELLED + 1).cpu()
    counts = counts[: pool.classes]
    return counts / counts.sum()


def class_weights(pool: Pool, recipe: Recipe) -> torch.Tensor | None:
    """The recipe's weight of each class in the loss, of mean 1; None if all count alike."""
    if recipe.class_weights == "none":
        return None
    weights = 1 / torch.log(recipe.log_offset + frequencies(pool))
    return (weights / weights.mean()).float().to(pool.targets.device)


def read_pool(data: DataSet, device: torch.device | str, *, progress: bool | None = None) -> Pool:
    """Read a data set into memory; every scene is checked on the way."""
    if len(data.classes) > UNLABELLED:
        raise InputError(
            f"{data.name} has {len(data.classes)} classes, but training keeps targets as bytes: at most {UNLABELLED}"
        )
    inputs, targets, clouds = [], [], data.domain is CLOUD
    with ThreadPoolExecutor() as pool, progress_bar(len(data), f"reading {data.name}", show=progress) as advance:
        for scene in pool.map(data.__getitem__, range(len(data))):
            inputs.append(with_category(scene, data) if clouds else np.rint(scene.x * 255).astype(np.uint8))
            targets.append(np.where(scene.valid, scene.target, UNLABELLED).astype(np.uint8))
            advance(1)
    return (_clouds if clouds else _images)(inputs, targets, data, device)


def with_category(scene: Scene, data: DataSet) -> Array:
    """A cloud with the number of its category as a last column, if it has one, as networks for parts take it."""
    if not scene.category:
        return scene.x
    number = np.full((len(scene.x), 1), list(data.categories).index(scene.category), np.float32)
    return np.concatenate([scene.x, number], 1)


def _clouds(inputs: list[Array], targets: list[Array], data: DataSet, device: torch.device | str) -> Pool:
    """Clouds of one size."""
    if len({x.shape for x in inputs}) > 1:
        raise InputError(
            f"{data.name} has clouds of {inputs[0].shape} and of other shapes: give all the same number of points"
        )
    clouds, labels = (torch.from_numpy(np.stack(arrays)).to(device) for arrays in (inputs, targets))
    return CloudPool(clouds, labels, len(data.classes), vectors=2 if data[0].x.shape[1] == 6 else 1)


def _images(images: list[Array], targets: list[Array], data: DataSet, device: torch.device | str) -> Pool:
    """Images in a common canvas."""
    sizes = torch.tensor([target.shape for target in targets])
    height, width = (int(side) for side in sizes.amax(0))
    canvas = torch.full((len(data), 3, height, width), GREY, dtype=torch.uint8)
    blank = torch.full((len(data), height, width), UNLABELLED, dtype=torch.uint8)
    for i, (image, target) in enumerate(zip(images, targets, strict=True)):
        canvas[i, :, : image.shape[1], : image.shape[2]] = torch.from_numpy(image)
        blank[i, : target.shape[0], : target.shape[1]] = torch.from_numpy(target)
    return ImagePool(canvas.to(device), blank.to(device), sizes.to(device), len(data.classes))


def batches(
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
