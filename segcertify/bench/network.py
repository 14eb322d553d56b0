"""The bare network: the same network in the same precision on the same batches, and nothing but its forward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from segcertify.models.wrappers.wrapper import unwrapped
from segcertify.sampling.segmenter import Segmenter, is_random
from segcertify.sampling.stages import Stopwatch


@dataclass(frozen=True)
class Call:
    """One call of the network, as the wrappers around it make it: it can be made again without them."""

    network: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    autocast: torch.dtype | None

    def again(self, device: torch.device) -> None:
        """Make the call again, and drop what it gives."""
        on = self.autocast is not None
        with torch.no_grad(), torch.autocast(device.type, dtype=self.autocast or torch.bfloat16, enabled=on):
            self.network(*self.arguments, **self.named)


def calls(model: Segmenter, batch: torch.Tensor) -> list[Call]:
    """The calls of the network inside ``model`` for a batch, which the model is called on.

    A model without wrappers is the network itself, and so is one whose inner network is not called as a module, such
    as a compiled graph.
    """
    seeds = {"seeds": [*range(len(batch))]} if is_random(model) else {}
    found: list[Call] = []

    def keep(network: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        kind = batch.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        found.append(Call(network, arguments, named, dtype))

    inner = unwrapped(model) if isinstance(model, nn.Module) else None
    hook = None if inner is None else inner.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad():
            model(batch, **seeds)
    finally:
        if hook is not None:
            hook.remove()
    return found or [Call(model, (batch,), seeds, None)]


def run(found: Sequence[Sequence[Call]], device: torch.device) -> None:
    """Make the calls of each batch again."""
    for batch in found:
        for call in batch:
            call.again(device)


@contextmanager
def marked(model: Segmenter, watch: Stopwatch) -> Iterator[None]:
    """While this holds, the network's passes inside ``model`` are a stage of their own: ``network``."""
    if not isinstance(model, nn.Module):
        yield
        return
    inner = unwrapped(model)
    hooks = [
        inner.register_forward_pre_hook(lambda *_: watch.begin("network")),
        inner.register_forward_hook(lambda *_: watch.end(), always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def flops(model: Segmenter, x: torch.Tensor) -> int:
    """Floating-point operations of one draw's forward pass: two for each multiplication and addition.

    Those of matrix products, convolutions and attention; 0 if the model makes none that torch can count.
    """
    seeds = {"seeds": [0]} if is_random(model) else {}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(x[None], **seeds)
    return int(counter.get_total_flops())
