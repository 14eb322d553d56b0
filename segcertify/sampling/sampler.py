"""Sample: votes of a model under noise [Fischer2021, Sample], and certificates in one call.

Two passes, streaming: n0 draws give the candidate per component, n fresh draws
its agreement count. Draw j's noise depends on (seed, input id, j) alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from segcertify.arrays import Array, BoolArray
from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Gaussian, Noise
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import Checkpoint, State
from segcertify.sampling.draws import Draws, Input
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.streams import Phase
from segcertify.stats.correction import Correction, procedure
from segcertify.stats.planning import require_certifiable
from segcertify.storage.atomic import require_writable
from segcertify.votes import Votes, require_mask

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
    progress: bool | Advance | None = None,
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
    progress : bool or function, optional
        Whether to show a progress bar (by default on a terminal only), or what to call with each number of draws done.
    """
    draws = Draws(model, x, noise=noise, seed=seed, batch_size=batch_size, device=device, input_id=input_id)
    sampler = Sampler(draws, mask)
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
    draws = Draws(model, x, noise=noise, seed=seed, batch_size=batch_size, device=device, input_id=input_id)
    sampler = Sampler(draws, mask)
    noise.radius(tau, norm, draws.input_shape)  # refuse a norm that this noise cannot prove
    require_certifiable(sampler.N, tau, alpha, chosen, require_integer("n", n))
    if save_votes is not None:
        require_writable(save_votes)
    votes = sampler.votes(n=n, n0=n0, checkpoint=checkpoint, progress=progress)
    if save_votes is not None:
        votes.save(save_votes)
    return certify_votes(votes, tau=tau, alpha=alpha, correction=correction, k=k, b=b, norm=norm)


class Sampler:
    """Counts the labels that a model gives to draws: candidates and their agreement.

    Making one checks the input and probes the model, before any long work.
    """

    def __init__(self, draws: Draws, mask: BoolArray | None = None) -> None:
        self.draws = draws
        self.mask = None if mask is None else require_mask(mask, draws.components)

    @property
    def N(self) -> int:
        """How many components are tested."""
        return math.prod(self.draws.components) if self.mask is None else int(self.mask.sum())

    def votes(
        self,
        *,
        n: int,
        n0: int,
        first: int = 0,
        prefixes: Sequence[int] = (),
        checkpoint: Path | None = None,
        checkpoint_every: float = 10.0,
        progress: bool | Advance | None = None,
    ) -> Votes:
        """Candidates from n0 draws and their agreement counts in n fresh draws: see `sample`."""
        n, n0 = require_integer("n", n), require_integer("n0", n0)
        first = require_integer("first", first, at_least=0)
        if not isinstance(prefixes, Iterable):
            raise InputError(f"prefixes must be a sequence of numbers such as (100, 300), but got {prefixes!r}")
        prefixes = sorted({require_integer("a prefix", m) for m in prefixes} - {n})
        if prefixes and prefixes[-1] > n:
            raise InputError(f"prefixes must not exceed n={n}, but got {prefixes[-1]}")
        mask = None if self.mask is None else hashlib.sha256(self.mask.tobytes()).hexdigest()
        run = {**self.draws.describe(), "mask": mask, "n": n, "n0": n0, "first": first, "prefixes": prefixes}
        saved = Checkpoint(checkpoint, run, fingerprint=self.draws.fingerprint, every=checkpoint_every)
        state = saved.load() or State("candidate", 0, self.draws.batch_size, {})
        self.draws.batch_size = state.batch_size  # resuming keeps the batch partition
        with saved.watching(), progress_bar(n0 + n, "sampling", show=progress) as advance:
            advance(state.done + (n0 if state.phase == "agree" else 0))
            if state.phase == "candidate":
                counts = self.class_counts("candidate", n0, state=state, saved=saved, advance=advance)
                candidate = counts.argmax(0)  # top index; the lowest label among equals
                state = State("agree", 0, self.draws.batch_size, {"agree": np.zeros(self.draws.components, np.int32)})
            else:
                candidate = self._tensor(state.arrays["candidate"])
            agree = self._tensor(state.arrays["agree"])
            earlier = {m: state.arrays[f"agree_{m}"] for m in prefixes if m <= state.done}
            ends = [first + m for m in prefixes]
            for stop, labels in self.draws.batches("agree", first + state.done, first + n, ends):
                agree += (labels == candidate).sum(0)
                if stop in ends:
                    earlier[stop - first] = agree.cpu().numpy().copy()
                advance(len(labels))
                if saved.due(last=stop == first + n):
                    arrays = {f"agree_{m}": counts for m, counts in earlier.items()}
                    arrays |= {"candidate": candidate.cpu().numpy(), "agree": agree.cpu().numpy()}
                    saved.save(State("agree", stop - first, self.draws.batch_size, arrays))
        votes = self.draws.record(candidate.cpu().numpy(), agree.cpu().numpy(), n=n, n0=n0)
        return replace(votes, mask=self.mask, draws=((first, first + n),), earlier=earlier)

    def class_counts(
        self,
        phase: Phase,
        n: int,
        *,
        state: State | None = None,
        saved: Checkpoint | None = None,
        advance: Advance = lambda step: None,
    ) -> torch.Tensor:
        """How often each class was drawn, (classes, *components): O(N x classes) memory, whatever n is."""
        start = state.done if state else 0
        nothing = np.zeros((1, *self.draws.components), np.int32)
        counts = self._tensor(state.arrays["counts"] if state and start else nothing)
        for stop, labels in self.draws.batches(phase, start, n):
            missing = int(labels.max()) + 1 - len(counts)
            if missing > 0:
                counts = torch.cat([counts, counts.new_zeros((missing, *self.draws.components))])
            counts.scatter_add_(0, labels, torch.ones_like(labels, dtype=counts.dtype))
            advance(len(labels))
            if saved and saved.due():
                saved.save(State(phase, stop, self.draws.batch_size, {"counts": counts.cpu().numpy()}))
        return counts

    def tested(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels of the tested components alone: (B, N)."""
        rows = labels.flatten(1)
        return rows if self.mask is None else rows[:, torch.tensor(self.mask.ravel(), device=rows.device)]

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self.draws.x.device)
