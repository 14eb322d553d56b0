"""Captured: a network's pass over a batch as a CUDA graph, recorded once for each kind of input and replayed.

A GPU finishes a small batch sooner than Python asks for its hundreds of kernels one by one, and while it computes a
larger one, Python has other things to do. A graph asks once for all of them: the same kernels in the same order, so the
same numbers. A recording is used only after it gave, bit for bit, what the network gave for the same input.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from segcertify.sampling.batch_size import out_of_memory, takes_are_measured

Forward = Callable[[Tensor], Tensor]

LARGEST = 2**26
"""Numbers in an input. With more, a GPU is busy for much longer than Python asks."""
RECORDED = 4
"""Which input of a kind is recorded, which takes as long as some passes: many kinds never have so many."""
MOST = 16
"""How many kinds of input of one network are recorded; others run as ever."""
HELD = 1 / 16
"""The share of a device's memory that the recordings of a stream may keep to themselves."""


def capture(network: nn.Module) -> None:
    """Let a network that is not changed any more replay its passes over small batches."""
    network.forward = Captured(network.forward)


class Captured:
    """A forward pass of one tensor that depends on nothing else: no randomness, no state but weights at their places.

    The fourth input of a kind (its shape, strides, precision and place, without gradients) is recorded. What cannot be
    recorded runs as ever.
    """

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self._seen = Counter[Hashable]()
        self._graphs = dict[Hashable, _Graph | None]()
        self._pools = dict[int, Any]()
        """Memory for each stream: what is recorded on two may be replayed at the same time."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Captured], tuple[Forward]]:
        """Copies record anew."""
        return type(self), (self.forward,)

    def __call__(self, batch: Tensor) -> Tensor:
        """What the forward pass gives, in memory of its own."""
        if not _is_captured(batch):
            return self.forward(batch)
        with self._lock, torch.cuda.device(batch.device):
            graph = self._graph(batch)
            return self.forward(batch) if graph is None else graph.replayed(batch)

    def _graph(self, batch: Tensor) -> _Graph | None:
        """The graph for inputs like this one, recorded if it is time."""
        kind = _kind(batch)
        if kind not in self._graphs:
            self._seen[kind] += 1
            if self._seen[kind] < RECORDED or len(self._graphs) >= MOST:
                return None
            stream = torch.cuda.current_stream(batch.device).cuda_stream
            pool = self._pools.setdefault(stream, torch.cuda.graph_pool_handle())
            self._graphs[kind] = _recorded(self.forward, batch, pool)
        return self._graphs[kind]


class _Graph:
    """A recorded pass, the memory that it reads from and the memory that it writes to."""

    def __init__(self, graph: Any, given: Tensor, output: Tensor) -> None:
        self._graph, self._given, self._output = graph, given, output

    def replayed(self, batch: Tensor) -> Tensor:
        """The output for another input of the same kind."""
        self._given.copy_(batch)
        self._graph.replay()
        return self._output.clone()


def _is_captured(batch: Tensor) -> bool:
    """Whether a pass over this input is one to be replayed."""
    if not batch.is_cuda or batch.numel() > LARGEST or torch.is_grad_enabled():
        return False
    return not (torch.cuda.is_current_stream_capturing() or torch.compiler.is_compiling() or takes_are_measured())


def _kind(batch: Tensor) -> Hashable:
    """All that a recorded pass depends on beside its input's numbers."""
    autocast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    stream = torch.cuda.current_stream(batch.device).cuda_stream
    flags = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
    return batch.shape, batch.stride(), batch.dtype, batch.device, autocast, stream, flags


def _recorded(forward: Forward, batch: Tensor, pool: Any) -> _Graph | None:
    """The pass over inputs like this one; None where it cannot be recorded, or gives other numbers than the network."""
    given = batch.clone()
    dtype, cast = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
    uncached = torch.autocast("cuda", dtype, cache_enabled=False) if cast else nullcontext()
    priority = torch.cuda.current_stream(batch.device).priority  # which a recorded kernel keeps
    graph: Any = torch.cuda.CUDAGraph()
    aside: Any = torch.cuda.Stream(batch.device, priority=priority)  # type: ignore[no-untyped-call]
    try:
        with uncached:
            aside.wait_stream(torch.cuda.current_stream(batch.device))
            with torch.cuda.stream(aside):
                forward(given)  # libraries get their memory before the recording
            torch.cuda.current_stream(batch.device).wait_stream(aside)
            with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"):
                output = forward(given)
        if _held(pool) > HELD * torch.cuda.get_device_properties(batch.device).total_memory:
            del graph, output, given
            torch.cuda.empty_cache()
            return None
        recorded = _Graph(graph, given, output)
        return recorded if torch.equal(recorded.replayed(batch), forward(batch)) else None
    except RuntimeError as error:
        if out_of_memory(error):
            torch.cuda.empty_cache()
        return None


def _held(pool: Any) -> int:
    """The bytes that recordings keep in a pool."""
    segments: Any = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return sum(each["total_size"] for each in segments if each["segment_pool_id"] == tuple(pool))
