"""Draws: the label maps of a model under noise, each addressed by its phase and index.

Draw j's noise depends on (seed, input id, j) alone: not on batch size, order or
what ran before. The "candidate" and the "agree" draws share nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, require_integer
from segcertify.noise import Noise, require_noise
from segcertify.sampling.batch_size import as_many_as_fit, fitting_batch_size, forget_peak, out_of_memory
from segcertify.sampling.segmenter import Segmenter, answer, as_weights, is_random, require_ready, to_labels
from segcertify.sampling.streams import DrawStream, Phase
from segcertify.votes import Votes

Input = torch.Tensor | Array


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
        self.x = _as_input(x, working_device(device, model, x))
        require_ready(model, self.x.device)
        noise.check(self.input_shape)
        small = 2 if batch_size is None else min(2, require_integer("batch_size", batch_size))
        output, batch = self._probe(small)
        self.components = tuple(to_labels(output, batch).shape[1:])
        if 0 in self.components:
            raise InputError(f"the model gave shape {tuple(output.shape)}: no components to certify")
        self.fingerprint = _fingerprint(output)
        self.batch_size = batch_size or fitting_batch_size(self.x, output)
        self._verified = is_random(model)

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

        def ask(size: int) -> torch.Tensor:
            return self._labels(phase, range(start, start + size))

        while start < stop:
            limit = min(end for end in (*ends, stop) if end > start)
            wanted = min(self.batch_size, limit - start)
            size, labels = as_many_as_fit(ask, wanted)
            if size < wanted:
                self.batch_size = size
            if labels.shape[1:] != self.components:
                raise InputError(f"the model's components changed from {self.components} to {tuple(labels.shape[1:])}")
            start += size
            self._verify(phase, start - 1, labels)
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
            input_digest=input_digest(self.x),
            fingerprint=self.fingerprint,
        )

    def describe(self) -> dict[str, Any]:
        """The draws in plain values: a checkpoint of other draws differs in some."""
        return {
            "noise": repr(self.noise),
            "seed": self.seed,
            "input_id": self.input_id,
            "input": input_digest(self.x),
            "device": self.x.device.type,
        }

    def _labels(self, phase: Phase, indices: Sequence[int]) -> torch.Tensor:
        """f(x + noise) for the given draws, as labels."""
        return to_labels(*self._answers(phase, indices))

    def _answers(self, phase: Phase, indices: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """What the model says to the given draws, and the batch it was given."""
        streams = [DrawStream(self.seed, self.input_id, phase, j) for j in indices]
        batch = self.noise.draw(self.x, streams)
        batch = as_weights(self.model, batch)
        seeds = [stream.model_seed for stream in streams] if is_random(self.model) else None
        return answer(self.model, batch, seeds), batch

    def _probe(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A first look, before the long work: one draw three times, at both places of a batch, beside others."""
        try:
            output, batch = self._answers("probe", [0, 1][:size])
            output = output.clone()  # a model may use its memory again
            moved = self._answers("probe", [2, 0][-size:])[0][-1].clone()
            forget_peak(self.x.device)
            beside = self._answers("probe", [0, 3][:size])[0][0]
        except InputError:
            raise
        except Exception as error:
            if not out_of_memory(error):
                how = ", seeds=[...]) since it says it is random" if is_random(self.model) else ")"
                raise InputError(
                    f"the model failed when called as model(batch{how} with a batch of shape "
                    f"{(size, *self.input_shape)} = (B, *x.shape), {type(error).__name__}: {error}. "
                    "Is x one input without a batch axis?"
                ) from error
            if size == 1:
                raise
            output = None
        if output is None:
            return self._probe(1)
        to_labels(output, batch)  # refuses bad shapes and logits
        changed = max(_changed(output[0], moved), _changed(output[0], beside))
        if changed and not is_random(self.model):
            raise InputError(_CHANGED.format(changed=f"{changed} of {output[0].numel()} numbers"))
        return output, batch

    def _verify(self, phase: Phase, index: int, labels: torch.Tensor) -> None:
        """Once, at the real batch size: the last draw of a batch gets the same labels in a small batch.

        Rounding in a batch of another size may move a few near ties, but less than the noise of another draw does.
        """
        if self._verified or len(labels) <= 2:
            return
        self._verified = True
        again, other = self._labels(phase, [index, index - 1])
        changed, noisy = int((again != labels[-1]).sum()), int((again != other).sum())
        if changed > 0.5 * noisy + 0.001 * again.numel():
            raise InputError(_CHANGED.format(changed=f"{changed} of {again.numel()} labels"))


_CHANGED = (
    "the model gave different answers to the same noisy input ({changed} changed). If entries of a batch influence "
    "each other, draws are not independent and nothing can be certified; if the model is random, let it declare "
    "random = True and take seeds=."
)


def _changed(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many of a model's answers differ: labels at all, logits by more than rounding."""
    if a.shape != b.shape:
        return a.numel()
    if not a.is_floating_point():
        return int((a != b).sum())
    return int((~torch.isclose(a, b, rtol=1e-2, atol=1e-3 * float(a.abs().max()))).sum())


def _fingerprint(output: torch.Tensor) -> tuple[float, ...]:
    """A few of the model's answers to the probes, spread over all of them."""
    numbers = output.flatten()
    chosen = numbers[:: max(1, len(numbers) // 512)].double().cpu()
    return tuple(float(number) for number in chosen.float())


def working_device(device: str | torch.device | None, model: Segmenter, x: Input | None = None) -> torch.device:
    """The device asked for, else the model's, else the input's."""
    if device is not None:
        return require_device(device)
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return x.device if isinstance(x, torch.Tensor) else torch.device("cpu")


def require_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be such as 'cpu' or 'cuda', but got {device!r} ({error})") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={str(device)!r}: this machine has no CUDA device that torch can use")
    return chosen


def _as_input(x: Input, device: torch.device) -> torch.Tensor:
    """One finite float input on the device."""
    if isinstance(x, np.ndarray):
        plain = x.dtype.newbyteorder("=") if x.dtype != np.longdouble else np.dtype(np.float64)
        x = np.ascontiguousarray(x, plain) if x.dtype.kind in "fiub" else x
    try:
        tensor = torch.as_tensor(x).detach().to(device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"x must be a tensor or an array of floats, but got {type(x).__name__} ({error})") from None
    if not tensor.is_floating_point():
        raise InputError(f"x must hold floats, but got {tensor.dtype}: for 8-bit images divide by 255")
    if tensor.layout != torch.strided:
        raise InputError(f"x must be dense, but its layout is {tensor.layout}: use x.to_dense()")
    tensor = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    if tensor.numel() == 0:
        raise InputError(f"x is empty: its shape is {tuple(tensor.shape)}")
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise InputError(f"x has {bad} entries that are NaN or infinite: clean it before certifying")
    return tensor


def input_digest(x: torch.Tensor) -> str:
    """A digest of an input, as votes keep it."""
    return hashlib.sha256(x.cpu().contiguous().numpy().tobytes()).hexdigest()
