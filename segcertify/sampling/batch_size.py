"""Memory: as much at once as a device has room for, and less when it runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Answer = TypeVar("Answer")

LARGEST_BATCH = 1024


def as_many_as_fit(ask: Callable[[int], Answer], size: int) -> tuple[int, Answer]:
    """``ask(size)``, with half the size each time that memory runs out; with the size that fitted."""
    while True:
        try:
            return size, ask(size)
        except RuntimeError as error:
            if size == 1 or not out_of_memory(error):
                raise
        size //= 2  # here the failed attempt's tensors are free again


def out_of_memory(error: Exception) -> bool:
    """Whether this is what an error says, of a GPU or of the host."""
    words = ("not enough memory", "can't allocate memory")  # torch's, of the host
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in words)
    )


def fitting_batch_size(x: torch.Tensor, output: torch.Tensor) -> int:
    """A batch size that should fit: from the peak since `forget_peak` on CUDA, from sizes elsewhere."""
    if x.is_cuda:
        each = (torch.cuda.max_memory_allocated(x.device) - torch.cuda.memory_allocated(x.device)) / len(output)
        cached = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        budget = (torch.cuda.mem_get_info(x.device)[0] + cached) / 2  # what torch keeps of earlier work is free too
    else:
        each = 256 * max(x.numel(), output[0].numel())  # a model's activations: some 64 floats an entry
        budget = 2**28
    return int(min(max(budget / max(each, 1), 1), LARGEST_BATCH))


def forget_peak(device: torch.device) -> None:
    """Measure the peak from here on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
