"""Batch sizes: as large as a device's memory allows, and smaller when it runs out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

Result = TypeVar("Result")

LARGEST_BATCH = 1024
BUSY = 2**26
"""On CUDA: how many numbers of a model's input keep a large GPU busy. Larger batches are no faster (HRNetV2-W48 on an
H200: within 1 % from 2**25 on), and cost more to be asked again."""
ACTIVATIONS, HOST_BUDGET = 256, 2**28
"""On the CPU: bytes of a model's activations for each number of its input, some 64 floats, and for a whole batch.

Larger batches are no faster there: their activations leave the cache.
"""

_measured: ContextVar[bool] = ContextVar("measured", default=False)


@contextmanager
def measured_takes() -> Iterator[None]:
    """Within, what a model takes of a device's memory is measured: it must not work in memory that it set aside."""
    token = _measured.set(True)
    try:
        yield
    finally:
        _measured.reset(token)


def takes_are_measured() -> bool:
    """Whether what a model takes of a device's memory is being measured."""
    return _measured.get()


def halve_until_it_fits(work: Callable[[int], Result], size: int) -> tuple[int, Result]:
    """The first size of size, size / 2, size / 4, ... for which memory suffices, and ``work`` of that size."""
    while True:
        try:
            return size, work(size)
        except RuntimeError as error:
            if size == 1 or not out_of_memory(error):
                raise
        size //= 2  # here the failed attempt's tensors are free again


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that the memory of a GPU or of the host ran out."""
    words = ("not enough memory", "can't allocate memory")  # torch's, of the host
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in words)
    )


def fitting_batch_size(x: torch.Tensor, output: torch.Tensor, threads: int = 1) -> int:
    """A batch size that should fit: from the peak since `forget_peak` on CUDA, from sizes elsewhere.

    On the CPU so many threads draw noise, an entry each at a time: all have as many of a larger batch.
    """
    if x.is_cuda:
        each = (torch.cuda.max_memory_allocated(x.device) - torch.cuda.memory_allocated(x.device)) / len(output)
        cached = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        budget = (torch.cuda.mem_get_info(x.device)[0] + cached) / 2  # torch can use again what it has cached
    else:
        each, budget = ACTIVATIONS * max(x.numel(), output[0].numel()), HOST_BUDGET
    size = int(min(max(budget / max(each, 1), 1), LARGEST_BATCH))
    return size if x.is_cuda or size < threads else size - size % threads


def probe_size(x: torch.Tensor) -> int:
    """How many copies of an input a probe takes: 2, to look for cross-talk, or 1 if no batch will have more.

    The memory of the CPU does not say that it runs out before the process is killed.
    """
    return 2 if x.is_cuda or 2 * ACTIVATIONS * x.numel() <= HOST_BUDGET else 1


def forget_peak(device: torch.device) -> None:
    """Measure the peak from here on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
