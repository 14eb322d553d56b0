"""Ranks: the processes of one training run, as torchrun starts them; one process alone is rank 0 of 1."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import distributed, nn

from segcertify.errors import InputError
from segcertify.sampling.draws import require_device


@dataclass(frozen=True)
class Ranks:
    """This process's number among how many, and its device."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files and shows the progress."""
        return self.rank == 0

    def share(self, batch_size: int) -> int:
        """This process's part of a batch."""
        if batch_size % self.count:
            raise InputError(f"batch_size {batch_size} must be a multiple of the number of processes, {self.count}")
        return batch_size // self.count

    def join(self, model: nn.Module) -> nn.Module:
        """The model with the first process's weights (and batch statistics over all processes, on CUDA)."""
        if self.count > 1:
            if self.device.type == "cuda":
                model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
            for tensor in model.state_dict().values():
                first = tensor.contiguous()
                distributed.broadcast(first, 0)
                tensor.copy_(first)
        return model

    def share_gradients(self, model: nn.Module) -> None:
        """Each process's gradients become their mean over the processes, in one message."""
        if self.count > 1:
            gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
            mean = self.mean(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, part in zip(gradients, torch.split(mean, [g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean over the processes."""
        if self.count > 1:
            distributed.all_reduce(value)
            value = value / self.count
        return value

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def ranks(device: str | torch.device | None = None) -> Iterator[Ranks]:
    """The processes that torchrun (or the caller) started, joined; else this one alone, on the device asked for.

    torch.distributed.nn, which optimisers import, keeps as default arguments the
    group that it finds: imported with one there, it holds Gloo's threads until the
    interpreter's end, which they may abort. So it is imported before.
    """
    place = require_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda, local = place.type == "cuda", os.environ.get("LOCAL_RANK")
    if cuda and local is not None:
        place = torch.device("cuda", int(local))
    elif cuda and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    joined = distributed.is_available() and distributed.is_initialized()
    with torch.cuda.device(place) if cuda else nullcontext():  # graphs and seeds are of the current device
        if not joined and local is None:
            yield Ranks(0, 1, place)
            return
        if not joined:
            importlib.import_module("torch.distributed.nn.functional")  # see `ranks`
            distributed.init_process_group("nccl" if cuda else "gloo")
        try:
            yield Ranks(distributed.get_rank(), distributed.get_world_size(), place)
        finally:
            if not joined:
                distributed.destroy_process_group()
