"""Draws: the label maps of a model at noisy copies of one input, each addressed by its phase and index.

Draw j's noise depends on (seed, input id, j) alone: not on batch size, order or
what ran before. The "candidate" and the "agree" draws share nothing.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, ModelError
from segcertify.noise import Noise, described
from segcertify.progress import Advance
from segcertify.sampling.batch_size import halve_until_it_fits, out_of_memory
from segcertify.sampling.cross_talk import MORE, Answers, changes, chosen_entries, many_changes
from segcertify.sampling.probe import Probe, dependent_answers, dependent_noise, noisy_outputs
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.streams import DrawStream, Phase
from segcertify.votes import Votes

Input = torch.Tensor | Array
Watch = Callable[[Phase, int, torch.Tensor], None]
"""What is called with the phase, the first index and the label maps of each batch, before they are counted."""


class Draws:
    """The draws of a model at one input. `segcertify.Smooth.draws` makes them, after its checks."""

    def __init__(
        self, model: Segmenter, noise: Noise, x: torch.Tensor, probe: Probe, *, seed: int, input_id: str,
        seed_given: bool = True,
    ) -> None:  # fmt: skip
        self.model, self.noise, self.x, self.seed, self.input_id = model, noise, x, seed, input_id
        self.seed_given = seed_given
        self.components, self.batch_size, self._probe = probe.components, probe.batch_size, probe
        self.watch: Watch | None = None
        self._verified = 1
        """The largest batch of which entries were asked again; a single entry has no others beside it."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input, without a batch axis."""
        return tuple(self.x.shape)

    def batches(
        self, phase: Phase, start: int, stop: int, *, ends: Sequence[int] = (), advance: Advance = lambda step: None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Label maps (B, *components) of draws start .. stop - 1, and the index after each batch.

        Batches end at each of ``ends``. Out of memory halves the batch and goes on.
        """

        def next_answers(size: int) -> tuple[torch.Tensor, list[int], Answers | None]:
            answers = Answers.of(*self._outputs(*((phase, index) for index in range(start, start + size))))
            if size <= self._verified:
                return answers.labels, [], None
            entries = chosen_entries(size, DrawStream(self.seed, self.input_id, "verify", size))
            return answers.labels, entries, answers.at(entries)

        while start < stop:
            limit = min(end for end in (*ends, stop) if end > start)
            wanted = min(self.batch_size, limit - start)
            try:
                size, (labels, entries, chosen) = halve_until_it_fits(next_answers, wanted)
            except (InputError, RuntimeError) as error:
                raise self._failed(error, phase, start) from error
            if size < wanted:
                self.batch_size = size
            if labels.shape[1:] != self.components:
                raise InputError(f"the model's components changed from {self.components} to {tuple(labels.shape[1:])}")
            if chosen is not None:
                try:
                    self._verify(phase, start, labels, entries, chosen)
                except RuntimeError as error:  # memory that ran out: all else is an InputError
                    raise self._failed(error, phase, start) from error
                self._verified, chosen = size, None
            if self.watch is not None:
                self.watch(phase, start, labels)
            start += size
            advance(size)  # before the yield: a run may end after this batch
            yield start, labels

    def _failed(self, error: InputError | RuntimeError, phase: Phase, start: int) -> Exception:
        """What the model did wrong in the middle, with the draw and the input."""
        if not isinstance(error, InputError) and not out_of_memory(error):
            return error
        said = error if isinstance(error, InputError) else ModelError.of(error)
        which = "candidates" if phase == "candidate" else "agreement"
        return ModelError(f"{said} (after {start} draws for {which}, of the input {self.input_id!r})")

    @property
    def classes(self) -> int | None:
        """How many classes the model's logits have; None for a model that gives labels."""
        return self._probe.classes

    def zeros(self, n: int, *classes: int) -> torch.Tensor:
        """Counts of n draws to begin with: (*components), or (classes, *components)."""
        return torch.zeros((*classes, *self.components), dtype=count_type(n), device=self.x.device)

    @property
    def fingerprint(self) -> tuple[float, ...]:
        """A few of the model's answers to its probe."""
        return self._probe.fingerprint

    @property
    def answers(self) -> Mapping[str, Any]:
        """All of the model's answers to its probe, in plain values."""
        return self._probe.answers

    def record(self, candidate: Array, agree: Array, *, n: int, n0: int) -> Votes:
        """Votes that say which input, noise and seed they come from."""
        return Votes(
            candidate, agree, n=n, n0=n0, noise=self.noise, seed=self.seed, input_id=self.input_id,
            input_shape=self.input_shape, input_digest=input_digest(self.x), fingerprint=self.fingerprint,
            seed_given=self.seed_given,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """The draws in plain values: a checkpoint of other draws differs in some."""
        return {
            "noise": described(self.noise), "seed": self.seed, "input_id": self.input_id, "input": input_digest(self.x),
            "device": self.x.device.type,
        }  # fmt: skip

    def outputs_at_input(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's output for noisy copies of the input itself, and these copies: models may differ there alone."""
        try:
            return self._outputs(*(("probe", index) for index in range(self._probe.entries)))
        except RuntimeError as error:
            raise (ModelError.of(error) if out_of_memory(error) else error) from error

    def _outputs(self, *draws: tuple[Phase, int]) -> tuple[torch.Tensor, torch.Tensor]:
        """f(x + noise) for draws as the model gives it, and the batch of x + noise."""
        streams = [DrawStream(self.seed, self.input_id, phase, index) for phase, index in draws]
        return noisy_outputs(self.model, self.noise, self.x, streams)

    def _verify(
        self, phase: Phase, start: int, labels: torch.Tensor, entries: Sequence[int], first: Answers
    ) -> None:  # fmt: skip
        """Ask again for some draws of a batch that is larger than all before, in pairs: nothing may have changed.

        Where these leave it open, ask for more of them.
        """

        def ask(positions: list[int]) -> Answers:
            return Answers.of(*self._outputs(*((phase, start + entries[position]) for position in positions)))

        def ask_more(positions: list[int]) -> Answers:
            return Answers.of(*self._outputs(*((phase, start + more[position]) for position in positions)))

        size = len(labels)
        more = chosen_entries(size, DrawStream(self.seed, self.input_id, "verify", size), MORE)
        kept = first.labels if first.output.is_floating_point() else labels[more]
        changed = changes(first, self.x, ask)
        if changed.noise:
            raise dependent_noise(self.noise)
        found = changed.found or (many_changes(kept, ask_more) if changed.open and size > len(entries) else "")
        if found:
            raise dependent_answers(self.model, found)


def count_type(n: int) -> torch.dtype:
    """The smallest type that holds counts up to n, of those in which torch adds."""
    return next(t for t in (torch.uint8, torch.int16, torch.int32) if n <= torch.iinfo(t).max or t == torch.int32)


def working_device(device: str | torch.device | None, model: Segmenter, x: Input | None = None) -> torch.device:
    """The device that was named, else the model's, else the input's."""
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
    try:
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device={str(device)!r} cannot be used here ({reason}): use cpu, or cuda where it is"
        ) from None
    return chosen


def require_input(x: Input, device: torch.device) -> torch.Tensor:
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
    """A digest of an input's bytes, as votes keep it beside the shape, without which it says too little."""
    return hashlib.sha256(x.cpu().contiguous().numpy().tobytes()).hexdigest()
