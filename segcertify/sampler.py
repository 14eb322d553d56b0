"""Sample: votes of a model under noise [Fischer2021, Sample], and certificates in one call.

Two passes, streaming: n0 draws give the candidate per component, n fresh draws
its agreement count. Draw j's noise depends on (seed, input id, j) alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from segcertify.arrays import Array, BoolArray
from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.checkpoint import Checkpoint, State
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Gaussian, Noise, to_plain
from segcertify.progress import progress_bar
from segcertify.segmenter import Segmenter, is_random, predict, require_ready
from segcertify.stats.correction import Correction, procedure
from segcertify.stats.planning import require_certifiable
from segcertify.streams import DrawStream, Phase
from segcertify.votes import Votes, require_mask

Input = torch.Tensor | Array
Path = str | os.PathLike[str]


def sample(
    model: Segmenter,
    x: Input,
    *,
    noise: Noise,
    n: int = 100,
    n0: int = 10,
    seed: int = 0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    input_id: str = "",
    mask: BoolArray | None = None,
    first: int = 0,
    prefixes: Sequence[int] = (),
    checkpoint: Path | None = None,
    checkpoint_every: float = 10.0,
    progress: bool | None = None,
) -> Votes:
    """The candidate per component from n0 draws, and its agreement count among n fresh draws.

    Parameters
    ----------
    model : callable
        From a float batch (B, *x.shape) to logits (B, classes, *components) or labels (B, *components).
    x : tensor or array
        One input, without a batch axis. Noise is in its units and is never clipped.
    seed, input_id
        Together with a draw's index they fix its noise. Give each input of a data set its own id.
    batch_size : int, optional
        Found automatically; halved when memory runs out.
    mask : bool array, optional
        The components to test, chosen before sampling. All are tested by default.
    first : int
        Index of the first of the n draws: runs with different ranges of draws can be merged.
    prefixes : sequence of int
        Also record the counts after that many draws (`Votes.at`).
    checkpoint : path, optional
        A file to resume from and to save to, every ``checkpoint_every`` seconds. It stays when the run
        is done (calling again then returns at once): delete it once the votes are saved.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal only.
    """
    sampler = Sampler(
        model, x, noise=noise, seed=seed, batch_size=batch_size, device=device, input_id=input_id, mask=mask
    )
    return sampler.votes(
        n=n,
        n0=n0,
        first=first,
        prefixes=prefixes,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        progress=progress,
    )


def certify(
    model: Segmenter,
    x: Input,
    *,
    sigma: float | None = None,
    noise: Noise | None = None,
    tau: float = 0.75,
    n: int = 100,
    n0: int = 10,
    alpha: float = 0.001,
    seed: int = 0,
    correction: str | Correction = "holm",
    k: int | None = None,
    b: int | None = None,
    norm: str | None = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    input_id: str = "",
    mask: BoolArray | None = None,
    checkpoint: Path | None = None,
    save_votes: Path | None = None,
    progress: bool | None = None,
) -> Certificate:
    """SegCertify in one call: `sample`, then `certify_votes` [Fischer2021, Alg. 2].

    With probability at least 1 - alpha over the draws, for every component that
    is not ABSTAIN and every perturbation within ``radius``, the smoothed arg-max
    keeps the label: its probability stays above 1/2.

    ``sigma`` stands for ``noise=Gaussian(sigma)``. An n that could certify
    nothing is refused before sampling. ``save_votes`` also writes the votes to
    a file; the other arguments are those of `sample` and `certify_votes`.
    """
    if (sigma is None) == (noise is None):
        raise InputError("certify needs sigma, or a noise, and not both")
    noise = noise or Gaussian(sigma)  # type: ignore[arg-type]
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    chosen = procedure(correction, k=k, b=b)
    sampler = Sampler(
        model, x, noise=noise, seed=seed, batch_size=batch_size, device=device, input_id=input_id, mask=mask
    )
    noise.radius(tau, norm, sampler.input_shape)
    require_certifiable(sampler.N, tau, alpha, chosen, require_integer("n", n))
    votes = sampler.votes(n=n, n0=n0, checkpoint=checkpoint, progress=progress)
    if save_votes is not None:
        votes.save(save_votes)
    return certify_votes(votes, tau=tau, alpha=alpha, correction=correction, k=k, b=b, norm=norm)


class Sampler:
    """A model, an input and a noise: gives label maps of addressed draws, and votes.

    Making one checks the input and probes the model, before any long work.
    """

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
        mask: BoolArray | None = None,
    ) -> None:
        if not isinstance(noise, Noise):
            raise InputError(f"noise must be a noise such as Gaussian(0.25), but got {noise!r}")
        self.model, self.noise = model, noise
        self.seed = require_integer("seed", seed, at_least=0)
        self.input_id = str(input_id)
        self.x = _as_input(x, _device(device, model, x))
        require_ready(model, self.x.device)
        noise.check(self.input_shape)
        self._dtype = _model_dtype(model)
        first_look = 2 if batch_size is None else min(2, require_integer("batch_size", batch_size))
        probe = self._probe(first_look)
        self.components = tuple(probe.shape[1:])
        self._probe_digest = _digest(probe)
        self.mask = None if mask is None else require_mask(mask, self.components)
        self.batch_size = batch_size or self._fitting_batch_size(probe)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def N(self) -> int:
        """How many components are tested."""
        return int(np.prod(self.components)) if self.mask is None else int(self.mask.sum())

    def votes(
        self,
        *,
        n: int,
        n0: int,
        first: int = 0,
        prefixes: Sequence[int] = (),
        checkpoint: Path | None = None,
        checkpoint_every: float = 10.0,
        progress: bool | None = None,
    ) -> Votes:
        """Candidates from n0 draws and their agreement counts in n fresh draws: see `sample`."""
        n, n0 = require_integer("n", n), require_integer("n0", n0)
        first = require_integer("first", first, at_least=0)
        prefixes = sorted({require_integer("a prefix", m) for m in prefixes} - {n})
        if prefixes and prefixes[-1] > n:
            raise InputError(f"prefixes must not exceed n={n}, but got {prefixes[-1]}")
        run = {**self._description(), "n": n, "n0": n0, "first": first, "prefixes": prefixes}
        saved = Checkpoint(checkpoint, run, every=checkpoint_every)
        header, arrays = saved.load() or ({"phase": "candidate", "done": 0, "batch_size": self.batch_size}, {})
        self.batch_size = header["batch_size"]  # resuming keeps the batch partition
        done = header["done"] + (n0 if header["phase"] == "agree" else 0)
        with progress_bar(n0 + n, "sampling", show=progress) as advance:
            advance(done)
            if header["phase"] == "candidate":
                counts = self.class_counts("candidate", n0, resume=(header, arrays), saved=saved, advance=advance)
                candidate = counts.argmax(0)  # top index; the lowest label among equals
                header, arrays = {"done": 0}, {"agree": np.zeros(self.components, np.int32)}
            else:
                candidate = self._tensor(arrays["candidate"])
            agree = self._tensor(arrays["agree"])
            earlier = {m: arrays[f"agree_{m}"] for m in prefixes if f"agree_{m}" in arrays}
            for stop, labels in self.batches("agree", first + header["done"], first + n, [first + m for m in prefixes]):
                agree += (labels == candidate).sum(0)
                if stop - first in prefixes:
                    earlier[stop - first] = agree.cpu().numpy().copy()
                advance(len(labels))
                saved.save(lambda: self._agreement(candidate, agree, earlier, done=stop - first), now=stop == first + n)  # noqa: B023
        return self.record(
            candidate.cpu().numpy(), agree.cpu().numpy(), n=n, n0=n0, draws=((first, first + n),), earlier=earlier
        )

    def record(self, candidate: Array, agree: Array, *, n: int, n0: int, **more: Any) -> Votes:
        """Votes with what is known of this input and noise."""
        more = {"mask": self.mask, **more}
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
            **more,
        )

    def class_counts(
        self,
        phase: Phase,
        n: int,
        *,
        resume: State = ({"done": 0}, {}),
        saved: Checkpoint | None = None,
        advance: Callable[[int], None] = lambda step: None,
    ) -> torch.Tensor:
        """How often each class was drawn, (classes, *components): O(N x classes) memory, whatever n is."""
        header, arrays = resume
        counts = self._tensor(arrays.get("counts", np.zeros((1, *self.components), np.int32)))
        for stop, labels in self.batches(phase, header["done"], n):
            missing = int(labels.max()) + 1 - len(counts)
            if missing > 0:
                counts = torch.cat([counts, counts.new_zeros((missing, *self.components))])
            counts.scatter_add_(0, labels, torch.ones_like(labels, dtype=counts.dtype))
            advance(len(labels))
            if saved is not None:
                state = {"phase": phase, "done": stop, "batch_size": self.batch_size}
                saved.save(lambda: (state, {"counts": counts.cpu().numpy()}))  # noqa: B023
        return counts

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
            start += size
            yield start, labels

    def tested(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels of the tested components alone: (B, N)."""
        rows = labels.flatten(1)
        return rows if self.mask is None else rows[:, torch.from_numpy(self.mask.ravel()).to(rows.device)]

    def _labels(self, phase: Phase, draws: Sequence[int]) -> torch.Tensor:
        """f(x + noise) for the given draws, as labels."""
        streams = [DrawStream(self.seed, self.input_id, phase, j) for j in draws]
        batch = self.noise.draw(self.x, streams)
        seeds = [stream.model_seed for stream in streams] if is_random(self.model) else None
        labels = predict(self.model, batch if self._dtype is None else batch.to(self._dtype), seeds)
        if phase != "probe" and labels.shape[1:] != self.components:
            raise InputError(f"the model's components changed from {self.components} to {tuple(labels.shape[1:])}")
        return labels

    def _probe(self, size: int) -> torch.Tensor:
        """One small batch before the long work: shapes, finite logits, determinism, independent entries."""
        try:
            labels = self._labels("probe", range(size))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"the model failed on a batch of shape {(size, *self.input_shape)} = (B, *x.shape), "
                f"{type(error).__name__}: {error}. Is x one input without a batch axis?"
            ) from error
        if labels[0].numel() == 0:
            raise InputError(f"the model gave labels of shape {tuple(labels.shape)}: no components to certify")
        again = self._labels("probe", [0, 2][:size])[0]
        changed = int((labels[0] != again).sum())
        if changed and not is_random(self.model):
            raise InputError(
                f"the model gave two different answers to the same noisy input ({changed} of {again.numel()} "
                "components changed). If entries of a batch influence each other, draws are not independent and "
                "nothing can be certified; if the model is random, let it declare random = True and take seeds=."
            )
        return labels

    def _fitting_batch_size(self, probe: torch.Tensor) -> int:
        """A batch size that should fit in memory: from a measured step on CUDA, from sizes elsewhere."""
        if self.x.is_cuda:
            torch.cuda.synchronize(self.x.device)
            before = torch.cuda.memory_allocated(self.x.device)
            torch.cuda.reset_peak_memory_stats(self.x.device)
            self._labels("probe", range(2))
            each = (torch.cuda.max_memory_allocated(self.x.device) - before) / 2
            free = torch.cuda.mem_get_info(self.x.device)[0]
            return int(min(max(0.5 * free / max(each, 1), 1), 256))
        entries = max(self.x.numel(), probe[0].numel())
        return int(min(max(2**28 / (256 * entries), 1), 1024))  # a model's activations: some 64 floats an entry

    def _description(self) -> dict[str, Any]:
        """This run in plain values: a checkpoint of another run differs in some."""
        return {
            "noise": json.loads(json.dumps(to_plain(self.noise))),
            "seed": self.seed,
            "input_id": self.input_id,
            "input": _digest(self.x),
            "mask": None if self.mask is None else hashlib.sha256(self.mask.tobytes()).hexdigest(),
            "device": self.x.device.type,
            "model (its labels at the probe draws)": self._probe_digest,
        }

    def _agreement(self, candidate: torch.Tensor, agree: torch.Tensor, earlier: dict[int, Array], done: int) -> State:
        """The state of the second pass, for the checkpoint."""
        arrays = {"candidate": candidate.cpu().numpy(), "agree": agree.cpu().numpy()}
        arrays |= {f"agree_{m}": counts for m, counts in earlier.items()}
        return {"phase": "agree", "done": done, "batch_size": self.batch_size}, arrays

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self.x.device)


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
