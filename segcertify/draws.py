"""Draws: the label maps of a model under noise, each addressed by its phase and index.

Draw j's noise depends on (seed, input id, j) alone: not on batch size, order or
what ran before. The "candidate" and the "agree" draws share nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, require_integer
from segcertify.noise import Noise, require_noise, to_plain
from segcertify.segmenter import Segmenter, is_random, predict, require_ready
from segcertify.streams import DrawStream, Phase
from segcertify.votes import Votes

Input = torch.Tensor | Array

LARGEST_BATCH = 1024


class Draws:
    """A model, an input and a noise. Making one checks the input and probes the model."""

    def __init__(
        self,
        model: Segmenter,
        x: Input,
        *,
        noise: Noise,
        seed: int = 0,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        input_id: str = "",
    ) -> None:
        self.model, self.noise = model, require_noise(noise)
        self.seed = require_integer("seed", seed, at_least=0)
        self.input_id = str(input_id)
        self.x = _as_input(x, _device(device, model, x))
        require_ready(model, self.x.device)
        noise.check(self.input_shape)
        self._dtype = _model_dtype(model)
        small = 2 if batch_size is None else min(2, require_integer("batch_size", batch_size))
        self._probed, fitting = self._probe(small)
        self.components = tuple(self._probed.shape[1:])
        self.batch_size = batch_size or fitting

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input, without a batch axis."""
        return tuple(self.x.shape)

    def batches(
        self, phase: Phase, start: int, stop: int, ends: Sequence[int] = ()
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Label maps (B, *components) of draws start .. stop - 1, and the index after each batch.

        Batches end at each of ``ends``. Out of memory halves the batch and goes on.
        """
        while start < stop:
            limit = min(end for end in (*ends, stop) if end > start)
            size = min(self.batch_size, limit - start)
            try:
                labels = self._labels(phase, range(start, start + size))
            except RuntimeError as error:
                if size == 1 or not _out_of_memory(error):
                    raise
                labels = None
            if labels is None:  # here the failed attempt's tensors are free again
                self.batch_size = size // 2
                continue
            if labels.shape[1:] != self.components:
                raise InputError(f"the model's components changed from {self.components} to {tuple(labels.shape[1:])}")
            start += size
            yield start, labels

    def record(self, candidate: Array, agree: Array, *, n: int, n0: int) -> Votes:
        """Votes that say which input, noise and seed they come from."""
        return Votes(
            candidate,
            agree,
            n=n,
            n0=n0,
            noise=self.noise,
            seed=self.seed,
            input_id=self.input_id,
            input_shape=self.input_shape,
            input_digest=_digest(self.x),
        )

    def describe(self) -> dict[str, Any]:
        """The draws in plain values: a checkpoint of other draws differs in some."""
        return {
            "noise": json.loads(json.dumps(to_plain(self.noise))),
            "seed": self.seed,
            "input_id": self.input_id,
            "input": _digest(self.x),
            "device": self.x.device.type,
            "model (its labels at the probe draws)": _digest(self._probed),
        }

    def _labels(self, phase: Phase, indices: Sequence[int]) -> torch.Tensor:
        """f(x + noise) for the given draws, as labels."""
        streams = [DrawStream(self.seed, self.input_id, phase, j) for j in indices]
        batch = self.noise.draw(self.x, streams)
        seeds = [stream.model_seed for stream in streams] if is_random(self.model) else None
        return predict(self.model, batch if self._dtype is None else batch.to(self._dtype), seeds)

    def _probe(self, size: int) -> tuple[torch.Tensor, int]:
        """A first look: shapes, finite logits, determinism, independent entries. Labels, and a batch size that fits."""
        try:
            labels = self._labels("probe", range(size))
            _forget_peak_memory(self.x.device)
            again = self._labels("probe", [0, 2][:size])[0]
        except InputError:
            raise
        except Exception as error:
            if not (isinstance(error, RuntimeError) and _out_of_memory(error)):
                raise InputError(
                    f"the model failed on a batch of shape {(size, *self.input_shape)} = (B, *x.shape), "
                    f"{type(error).__name__}: {error}. Is x one input without a batch axis?"
                ) from error
            if size == 1:
                raise
            labels = None
        if labels is None:
            return self._probe(1)
        if labels[0].numel() == 0:
            raise InputError(f"the model gave labels of shape {tuple(labels.shape)}: no components to certify")
        changed = int((labels[0] != again).sum())
        if changed and not is_random(self.model):
            raise InputError(
                f"the model gave two different answers to the same noisy input ({changed} of {again.numel()} "
                "components changed). If entries of a batch influence each other, draws are not independent and "
                "nothing can be certified; if the model is random, let it declare random = True and take seeds=."
            )
        return labels, _fitting_batch_size(self.x, labels)


def _fitting_batch_size(x: torch.Tensor, labels: torch.Tensor) -> int:
    """A batch size that should fit in memory: from the probe's peak on CUDA, from sizes elsewhere."""
    if x.is_cuda:
        each = (torch.cuda.max_memory_allocated(x.device) - torch.cuda.memory_allocated(x.device)) / len(labels)
        budget = torch.cuda.mem_get_info(x.device)[0] / 2
    else:
        each = 256 * max(x.numel(), labels[0].numel())  # a model's activations: some 64 floats an entry
        budget = 2**28
    return int(min(max(budget / max(each, 1), 1), LARGEST_BATCH))


def _forget_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _device(device: str | torch.device | None, model: Segmenter, x: Input) -> torch.device:
    """The device asked for, else the model's, else the input's."""
    if device is not None:
        return torch.device(device)
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return x.device if isinstance(x, torch.Tensor) else torch.device("cpu")


def _as_input(x: Input, device: torch.device) -> torch.Tensor:
    """One finite float input on the device."""
    tensor = torch.as_tensor(x).detach().to(device)
    if not tensor.is_floating_point():
        raise InputError(f"x must hold floats, but got {tensor.dtype}: for 8-bit images divide by 255")
    if tensor.numel() == 0:
        raise InputError(f"x is empty: its shape is {tuple(tensor.shape)}")
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise InputError(f"x has {bad} entries that are NaN or infinite: clean it before certifying")
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _model_dtype(model: Segmenter) -> torch.dtype | None:
    """The type of the model's weights: noise is drawn in single or double precision and cast to it."""
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
    return None


def _digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.cpu().contiguous().numpy().tobytes()).hexdigest()


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error)
