"""Distributed training: the processes of one run, as torchrun starts them. One process alone is rank 0 of 1."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import distributed, nn

from segcertify.errors import InputError
from segcertify.sampling.inputs import require_device


@dataclass(frozen=True)
class Processes:
    """The processes of a run, seen from this one: its rank, the world size and its device."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files and shows the progress."""
        return self.rank == 0

    def local_batch_size(self, batch_size: int) -> int:
        """This process's part of a batch."""
        if batch_size % self.world_size:
            raise InputError(
                f"batch_size {batch_size} must be a multiple of the number of processes, {self.world_size}"
            )
        return batch_size // self.world_size

    def broadcast(self, model: nn.Module) -> nn.Module:
        """The model with the first process's weights (on CUDA, with batch statistics over all processes)."""
        if self.world_size > 1:
            if self.device.type == "cuda":
                model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
            for tensor in model.state_dict().values():
                first = tensor.contiguous()
                distributed.broadcast(first, 0)
                tensor.copy_(first)
        return model

    def average_gradients(self, model: nn.Module) -> None:
        """Replace each gradient by its mean over the processes, in one message."""
        if self.world_size > 1:
            gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
            mean = self.mean(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, part in zip(gradients, torch.split(mean, [g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean over the processes."""
        if self.world_size > 1:
            distributed.all_reduce(value)
            value = value / self.world_size
        return value

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.world_size > 1:
            distributed.barrier()


@contextmanager
def join_processes(device: str | torch.device | None = None) -> Iterator[Processes]:
    """The processes that torchrun (or the caller) started; without them this process alone, on ``device``.

    Optimisers import torch.distributed.nn, which keeps the current process group in default arguments. Imported
    while there is one, it keeps Gloo's threads alive until the interpreter ends, and they may abort it then. So it
    is imported before the group is made.
    """
    own = require_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda, local = own.type == "cuda", os.environ.get("LOCAL_RANK")
    if cuda and local is not None:
        own = torch.device("cuda", int(local))
    elif cuda and own.index is None:
        own = torch.device("cuda", torch.cuda.current_device())
    joined = distributed.is_available() and distributed.is_initialized()
    with torch.cuda.device(own) if cuda else nullcontext():  # graphs and seeds are of the current device
        if not joined and local is None:
            yield Processes(0, 1, own)
            return
        if not joined:
            importlib.import_module("torch.distributed.nn.functional")
            distributed.init_process_group("nccl" if cuda else "gloo")
        try:
            yield Processes(distributed.get_rank(), distributed.get_world_size(), own)
        finally:
            if not joined:
                distributed.destroy_process_group()
