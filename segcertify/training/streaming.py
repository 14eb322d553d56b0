"""Streaming: scenes read ahead of their use by threads, and data sets that stay on disk if they do not fit memory."""

import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from segcertify.arrays import Array
from segcertify.data import DataSet, Scene
from segcertify.data.augmentation import UNLABELLED
from segcertify.data.domain import CLOUD
from segcertify.data.images.augmentation import GREY
from segcertify.errors import InputError, require_finite
from segcertify.progress import progress_bar
from segcertify.training.pool import Batch, CloudPool, ImagePool, Pool, mapped

AHEAD = 2
"""How many batches are read while another is used."""
CHUNK = 16
"""How many scenes are read at once into a pool."""
GIGABYTE = 1e9


class Layout(Protocol):
    """How the scenes of a data set lie in tensors of one shape."""

    @property
    def scene_bytes(self) -> int:
        """The size of a scene."""

    def empty(self, count: int, *, pinned: bool = False, device: torch.device | str = "cpu") -> Batch:
        """Tensors without scenes, in any state."""

    def fill(self, batch: Batch, slot: int, scene: Scene) -> None:
        """Write a scene into its slot."""


@dataclass(frozen=True)
class ImageLayout:
    """Images and targets as bytes, on canvases of the largest height and width."""

    height: int
    width: int
    classes: int

    @property
    def scene_bytes(self) -> int:
        """Three colours and a class a pixel."""
        return 4 * self.height * self.width

    def empty(self, count: int, *, pinned: bool = False, device: torch.device | str = "cpu") -> ImagePool:
        """Canvases in any state."""
        sides, byte = (self.height, self.width), torch.uint8
        images = torch.empty(count, 3, *sides, dtype=byte, pin_memory=pinned, device=device)
        targets = torch.empty(count, *sides, dtype=byte, pin_memory=pinned, device=device)
        sizes = torch.empty(count, 2, dtype=torch.long, pin_memory=pinned, device=device)
        return ImagePool(images, targets, sizes, self.classes)

    def fill(self, batch: Batch, slot: int, scene: Scene) -> None:
        """Write an image into the upper left corner of its canvas; the rest becomes grey and unlabelled."""
        assert isinstance(batch, ImagePool)
        height, width = scene.target.shape
        if (height, width) != (self.height, self.width):
            batch.images[slot] = GREY
            batch.targets[slot] = UNLABELLED
        batch.images[slot, :, :height, :width] = torch.from_numpy(np.rint(scene.x * 255).astype(np.uint8))
        batch.targets[slot, :height, :width] = _byte_labels(scene)
        batch.sizes[slot] = torch.tensor([height, width])


@dataclass(frozen=True, eq=False)
class CloudLayout:
    """Clouds of one shape, with their category as a last column if they have one."""

    data: DataSet
    shape: tuple[int, ...]
    vectors: int

    @property
    def scene_bytes(self) -> int:
        """Single precision, and a class a point."""
        return 4 * math.prod(self.shape) + self.shape[0]

    def empty(self, count: int, *, pinned: bool = False, device: torch.device | str = "cpu") -> CloudPool:
        """Clouds in any state."""
        clouds = torch.empty(count, *self.shape, pin_memory=pinned, device=device)
        targets = torch.empty(count, self.shape[0], dtype=torch.uint8, pin_memory=pinned, device=device)
        return CloudPool(clouds, targets, len(self.data.classes), self.vectors)

    def fill(self, batch: Batch, slot: int, scene: Scene) -> None:
        """Write a cloud."""
        assert isinstance(batch, CloudPool)
        x = with_category(scene, self.data)
        if x.shape != self.shape:
            raise InputError(
                f"{self.data.name} has clouds of {self.shape} and of other shapes, such as {scene.id!r} of {x.shape}: "
                "give all the same number of points"
            )
        batch.clouds[slot] = torch.from_numpy(x)
        batch.targets[slot] = _byte_labels(scene)


@dataclass(frozen=True, eq=False)
class StreamedPool:
    """Scenes that stay on disk; threads read each batch before it is used, and it is augmented on the device."""

    data: DataSet
    layout: Layout
    device: torch.device | str
    classes: int
    noised: int | None

    def __len__(self) -> int:
        return len(self.data)

    def batches(self, order: Iterable[torch.Tensor]) -> Generator[Batch, None, None]:
        """The scenes of each batch on the device, by their numbers. Close the iterator to end its threads."""
        return read_ahead(self.data, self.layout, order, device=self.device)

    def scenes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every scene as a batch of one, and its target, at their own size."""
        for batch in self.batches(_in_order(len(self), 1)):
            yield from batch.scenes()


def read_ahead(
    data: DataSet, layout: Layout, order: Iterable[torch.Tensor], *, device: torch.device | str
) -> Generator[Batch, None, None]:
    """The batches of an order on a device, each read by threads while the ones before it are used.

    Threads only fill memory that this thread allocated: CUDA graphs allow no other thread to allocate pinned memory.
    """
    pinned = torch.device(device).type == "cuda"
    reading: deque[tuple[Batch, list[Future[None]]]] = deque()

    def read(batch: Batch, slot: int, number: int) -> None:
        layout.fill(batch, slot, data[number])

    def first() -> Batch:
        batch, futures = reading.popleft()
        for future in futures:
            future.result()  # raises what the reading raised
        return mapped(batch, lambda part: part.to(device, non_blocking=True))

    threads = ThreadPoolExecutor()
    try:
        for indices in order:
            batch = layout.empty(len(indices), pinned=pinned)
            jobs = [threads.submit(read, batch, slot, number) for slot, number in enumerate(indices.tolist())]
            reading.append((batch, jobs))
            if len(reading) > AHEAD:
                yield first()
        while reading:
            yield first()
    finally:
        threads.shutdown(cancel_futures=True)


def read_pool(
    data: DataSet, device: torch.device | str, *, memory: float | None = None, progress: bool | None = None
) -> Pool:
    """A data set in the device's memory, or streamed from disk if it needs more than ``memory`` GB.

    By default half of the memory that is free may be taken. The sizes come from the headers of the image files, all of
    which are checked here; what is held is read and checked whole.
    """
    if len(data.classes) > UNLABELLED:
        raise InputError(
            f"{data.name} has {len(data.classes)} classes, but training keeps targets as bytes: at most {UNLABELLED}"
        )
    layout = layout_of(data)
    limit = free_memory(device) / 2 if memory is None else require_memory(memory) * GIGABYTE
    if len(data) * layout.scene_bytes > limit:
        noised = CloudPool.noised if data.domain is CLOUD else None
        return StreamedPool(data, layout, device, len(data.classes), noised)
    pool, begin = layout.empty(len(data), device=device), 0
    with progress_bar(len(data), f"reading {data.name}", show=progress) as advance:
        for part in read_ahead(data, layout, _in_order(len(data), CHUNK), device=device):
            for name, tensor in vars(pool).items():
                if isinstance(tensor, torch.Tensor):
                    tensor[begin : begin + len(part)] = getattr(part, name)
            begin += len(part)
            advance(len(part))
    return pool


def layout_of(data: DataSet) -> Layout:
    """How a data set's scenes lie in tensors; the headers of all image files are read for it."""
    if data.domain is CLOUD:
        first = data[0]
        return CloudLayout(data, with_category(first, data).shape, vectors=2 if first.x.shape[1] == 6 else 1)
    with ThreadPoolExecutor() as threads:
        height, width = np.max([*threads.map(data.shape, range(len(data)))], axis=0)
    return ImageLayout(int(height), int(width), len(data.classes))


def free_memory(device: torch.device | str) -> float:
    """The bytes that are free on a device; where the system does not say it, infinitely many."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    table = Path("/proc/meminfo")
    if table.exists():
        for line in table.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return math.inf


def require_memory(memory: float) -> float:
    """The GB that data may take: 0 or more."""
    if require_finite("memory", memory) < 0:
        raise InputError(f"memory must be at least 0 GB, but got {memory!r}: 0 streams all data from disk")
    return memory


def with_category(scene: Scene, data: DataSet) -> Array:
    """A cloud with the number of its category as a last column, if it has one, as networks for parts take it."""
    if not scene.category:
        return scene.x
    number = np.full((len(scene.x), 1), list(data.categories).index(scene.category), np.float32)
    return np.concatenate([scene.x, number], 1)


def _in_order(scenes: int, batch_size: int) -> Iterator[torch.Tensor]:
    """The numbers of all scenes, batch by batch."""
    return (torch.arange(low, min(low + batch_size, scenes)) for low in range(0, scenes, batch_size))


def _byte_labels(scene: Scene) -> torch.Tensor:
    """The target as bytes, UNLABELLED where the ground truth says nothing."""
    return torch.from_numpy(np.where(scene.valid, scene.target, UNLABELLED).astype(np.uint8))
