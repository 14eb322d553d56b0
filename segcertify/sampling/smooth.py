"""The smoothed model [Cohen2019]: its votes, certificates and labels at an input. Torch ends at the votes."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from segcertify.arrays import BoolArray, IntArray
from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.looks import Enough, look_times, require_family_wise, require_looks
from segcertify.noise import Gaussian, Noise, require_noise
from segcertify.preprocessing import Preprocessing, require_plain
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import Checkpoint, recorded_seed
from segcertify.sampling.counting import Kept, last, require_prefixes, sampled
from segcertify.sampling.draws import Draws, Watch
from segcertify.sampling.identity import identity_with_answers
from segcertify.sampling.inputs import Input, as_floats, require_device, working_device
from segcertify.sampling.running import Begin, Running
from segcertify.sampling.seeds import Seed, as_seed, seed_of_run
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.stored_votes import StoredVotes
from segcertify.stats.correction import Correction, procedure
from segcertify.stats.planning import require_certifiable, smallest_n
from segcertify.votes import Votes, require_mask, seed_text

Path = str | os.PathLike[str]


class Smooth:
    """A model smoothed by noise: each component gets the label that the model gives it most often under noise.

    What `certify` claims: with probability at least 1 - alpha over the draws, for
    every component that is not ABSTAIN and every perturbation within ``radius``,
    the smoothed arg-max keeps the label: its probability stays above 1/2.

    The model is probed once for each shape, precision and device of its inputs, and again after a change of its
    weights (of ``weight.data`` torch counts none: make a new `Smooth` then). Of a model that `segcertify.models.load`
    gave, a faster copy draws (`segcertify.models.optimised`).

    Parameters
    ----------
    model : callable
        From a float batch (B, *x.shape) to logits (B, classes, *components) or labels (B, *components).
    noise, sigma
        A noise such as ``Rotation(0.1)``; ``sigma=0.25`` stands for ``Gaussian(0.25)``. Noise is in the units
        of the inputs and is never clipped.
    seed : int, optional
        Together with an input's id and a draw's index it fixes the draw's noise, to reproduce a result. By default the
        operating system draws a new one at every call, and votes and certificates record it: a claim is about an input
        and a model that were fixed before its seed.
    batch_size : int, optional
        Found automatically; halved when memory runs out.
    device : str or torch.device, optional
        The model's by default.

    >>> smooth = Smooth(lambda batch: (batch > 0.5).long(), sigma=0.25, seed=0)
    >>> certificate = smooth.certify(np.array([0.0, 0.5, 1.2]), tau=0.75)
    >>> certificate.labels, round(certificate.radius, 4)
    (array([ 0, -1,  1], dtype=int32), 0.1686)
    """

    def __init__(
        self,
        model: Segmenter,
        noise: Noise | None = None,
        *,
        sigma: float | None = None,
        seed: int | Seed | None = None,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if (sigma is None) == (noise is None):
            raise InputError("smoothing needs sigma, or a noise, and not both")
        self.model = model
        self.noise = require_noise(Gaussian(sigma) if noise is None else noise)  # type: ignore[arg-type]
        self._seed = as_seed(seed)
        self.batch_size = None if batch_size is None else require_integer("batch_size", batch_size)
        self.device = None if device is None else require_device(device)
        self._running = Running(model, self.noise, self.batch_size)

    def __repr__(self) -> str:
        name = getattr(self.model, "__name__", type(self.model).__name__)
        return f"Smooth({name}, {self.noise}, seed={seed_text(self.seed)})"

    @property
    def seed(self) -> int | None:
        """The seed of all calls; None if each call draws a new one."""
        return None if self._seed is None else self._seed.value

    def draws(
        self, x: Input, input_id: str = "", *, recorded: Seed | None = None, begin: Begin | None = None
    ) -> Draws:  # fmt: skip
        """The addressed draws at one input, after the checks of the input and the model.

        ``recorded`` is the seed of a run that these draws continue, if there is one. A GPU that knows such inputs does
        what ``begin`` asks of it while the model is looked at.
        """
        given, seed = as_floats(x), partial(seed_of_run, self._seed, recorded)
        device = working_device(self.device, self.model, given)
        return self._running.draws(given, device, seed, str(input_id), begin=begin)

    def identity(self, draws: Draws) -> dict[str, Any]:
        """The model in plain values, as votes keep it (`segcertify.sampling.identity`); ``draws`` are any of its."""
        return identity_with_answers(self._running.described, self.model, draws.answers)

    def votes(
        self,
        x: Input,
        *,
        n: int = 100,
        n0: int = 10,
        input_id: str = "",
        mask: BoolArray | None = None,
        first: int = 0,
        prefixes: Sequence[int] = (),
        looks: int | Sequence[int] = (),
        until: Callable[[Votes], bool] | None = None,
        checkpoint: Path | None = None,
        checkpoint_every: float = 10.0,
        preprocessing: Preprocessing | None = None,
        counts: bool = False,
        classes: int | None = None,
        progress: bool | Advance | None = None,
        watch: Watch | None = None,
    ) -> Votes:
        """The candidate per component from n0 draws, and its agreement count among n fresh draws.

        With n0 = 0 there is no pilot: all n draws choose the candidates and count.

        Parameters
        ----------
        x : tensor or array
            One input, without a batch axis.
        input_id : str
            Give each input of a data set an id of its own: draws depend on (seed, input id, index) alone.
        mask : bool array, optional
            The components to test, chosen before sampling. All are tested by default.
        first : int
            Index of the first of the n draws: runs with different ranges of draws can be merged.
        prefixes : sequence of int
            Also record the counts after that many draws (`Votes.at`).
        looks : int or sequence of int
            Times of tests within the n draws, or how many at equal distances (`segcertify.looks`). Certificates then
            test at alpha / L at each of L looks. Votes with looks need a pilot.
        until : function, optional
            Asked with the votes so far at each look, whether to stop there: any rule may decide it, such as
            `segcertify.Enough`. By default all n draws are made.
        checkpoint : path, optional
            A file to resume from and to save to, every ``checkpoint_every`` seconds, or less often where saving
            takes long: at most 3 % of the time (0 saves after every batch). It stays when the run
            is done (calling again then returns at once): delete it once the votes are saved. A run that resumes
            takes the seed of the file; another seed, input or model is refused.
        preprocessing : mapping, optional
            What was done to the input's file before the noise, in plain values (`segcertify.preprocessing`): the
            claim then says what its radius is about.
        counts : bool
            Keep the counts of all classes in the n draws, for sets (`segcertify.certify_sets`) and to merge votes
            without a pilot.
        classes : int, optional
            How many classes a model that gives labels has. Logits say it themselves.
        progress : bool or function, optional
            Whether to show a progress bar; by default on a terminal only. A function is called with each number
            of draws done, and no bar is shown.
        watch : function, optional
            Called with the phase, the first index and the label maps of each batch (`segcertify.sampling.draws`).
        """
        n, n0 = require_integer("n", n), require_integer("n0", n0, at_least=0)
        times = require_looks(n, looks, until, n0=n0, counts=counts)
        if times and watch is not None:
            raise InputError("metrics need all n draws, but looks may stop earlier: use metrics or looks")
        first = require_integer("first", first, at_least=0)
        prefixes = require_prefixes(prefixes, times, n=n, n0=n0)
        begin = None if checkpoint else partial(Draws.begin, n=n, n0=n0, first=first, prefixes=prefixes)
        return self._votes(
            self.draws(x, input_id, recorded=recorded_seed(checkpoint), begin=begin), n=n, n0=n0, mask=mask,
            first=first, prefixes=prefixes, looks=times, until=until, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, preprocessing=preprocessing, counts=counts, classes=classes,
            progress=progress, watch=watch,
        )  # fmt: skip

    def _votes(
        self, draws: Draws, *, n: int, n0: int, mask: BoolArray | None, first: int = 0, prefixes: Sequence[int],
        looks: tuple[int, ...], until: Callable[[Votes], bool] | None, checkpoint: Path | None,
        checkpoint_every: float = 10.0, preprocessing: Preprocessing | None, counts: bool, classes: int | None = None,
        progress: bool | Advance | None, watch: Watch | None = None,
    ) -> Votes:  # fmt: skip
        """`votes` of draws that this model just made, once n, prefixes and looks are checked."""
        draws.watch = watch
        mask = None if mask is None else require_mask(mask, draws.components)
        kept = Kept.of(draws, bool(counts), classes)
        tested = None if mask is None else hashlib.sha256(mask.tobytes()).hexdigest()
        run = {
            "mask": tested, "n": n, "n0": n0, "first": first, "prefixes": prefixes, "looks": looks or None,
            "counts": kept.counts or None, "classes": kept.classes if counts else None,
        }  # fmt: skip
        about = {"mask": mask, "model": require_plain("model", self.identity(draws)), "looks": looks}
        about["preprocessing"] = None if preprocessing is None else require_plain("preprocessing", preprocessing)
        saved = Checkpoint(checkpoint, draws, run, every=checkpoint_every)

        def stops(done: int, candidate: torch.Tensor, agreed: Mapping[int, torch.Tensor]) -> bool:
            if until is None or done not in looks:
                return False
            found = {m: agree.cpu().numpy() for m, agree in agreed.items()}
            so_far = draws.record(candidate.cpu().numpy(), found.pop(done), n=done, n0=n0)
            return until(replace(so_far, mask=mask, earlier=found, looks=looks))

        return sampled(
            draws, saved, n=n, n0=n0, first=first, prefixes=prefixes, kept=kept,
            stops=stops, about=about, progress=progress,
        )  # fmt: skip

    def certify(
        self,
        x: Input,
        *,
        tau: float = 0.75,
        n: int = 100,
        n0: int = 10,
        alpha: float = 0.001,
        correction: str | Correction = "holm",
        k: int | None = None,
        b: int | None = None,
        norm: str | None = None,
        input_id: str = "",
        mask: BoolArray | None = None,
        looks: int | Sequence[int] = (),
        until: float | Callable[[Votes], bool] | None = None,
        checkpoint: Path | None = None,
        save_votes: Path | None = None,
        preprocessing: Preprocessing | None = None,
        counts: bool = False,
        progress: bool | Advance | None = None,
    ) -> Certificate:
        """SegCertify: `votes`, then `segcertify.certify_votes` [Fischer2021, Alg. 2].

        An n that could certify nothing is refused before sampling. ``save_votes``
        also writes the votes to a file. If it holds votes of the same input, model,
        noise, n, n0, mask, pre-processing and seed, these are taken again: asking again
        gives the same certificate. Others are refused, and so are votes that looks ended too early for this claim.

        ``looks`` are tests within the n draws, each at alpha / L: a number of them begins where all draws that agree
        can certify. Sampling stops at a look at which nothing more can be gained, or earlier: ``until`` is a share of
        components that is enough, or a function of the votes. Other arguments are those of the two.
        """
        tau = require_probability("tau", tau, low=0.5, closed=True)
        alpha = require_probability("alpha", alpha)
        chosen = procedure(correction, k=k, b=b)
        stored = StoredVotes(save_votes)
        n, n0 = require_integer("n", n), require_integer("n0", n0, at_least=0)
        begin = None if checkpoint or save_votes or looks else partial(Draws.begin, n=n, n0=n0)
        draws = self.draws(x, input_id, recorded=recorded_seed(checkpoint) or stored.seed, begin=begin)
        self.noise.radius(tau, norm, draws.input_shape)  # refuse a norm that this noise cannot prove
        tested = np.ones(draws.components, bool) if mask is None else require_mask(mask, draws.components)
        count = looks if isinstance(looks, int) else len(looks)
        N, level = int(tested.sum()), alpha / max(1, count)
        require_certifiable(N, tau, level, chosen, n, pilot=n0 > 0)
        times, rule = tuple[int, ...](), until if callable(until) else None
        if count:
            require_family_wise(chosen)
            same = stored.votes is not None and len(stored.votes.looks) == looks  # of another claim about these votes
            least = smallest_n(N, tau, level, chosen)
            times = stored.votes.looks if stored.votes and same else look_times(n, looks, least=least)
            rule = rule or Enough(tau, alpha, 1.0 if until is None else until, correction)  # type: ignore[arg-type]
        elif until is not None:
            raise InputError(f"until={until!r} is asked at looks: give looks too, such as looks=4")
        model = self.identity(draws)
        stored.require_same_run(
            draws, n=n, n0=n0, mask=mask, looks=times, model=model, preprocessing=preprocessing, counts=counts
        )  # fmt: skip
        rule = stored.ending(rule) if rule is not None and stored.votes is not None else rule
        if (votes := stored.reused(draws)) is not None:
            return certify_votes(votes, tau=tau, alpha=alpha, correction=correction, k=k, b=b, norm=norm)
        require_looks(n, times, rule, n0=n0, counts=counts)
        draws.seed_given |= stored.votes is not None
        votes = self._votes(
            draws, n=n, n0=n0, mask=mask, prefixes=times[:-1], looks=times, until=rule, checkpoint=checkpoint,
            preprocessing=preprocessing, counts=counts, progress=progress,
        )  # fmt: skip
        stored.save(votes)
        return certify_votes(votes, tau=tau, alpha=alpha, correction=correction, k=k, b=b, norm=norm)

    def predict(
        self,
        x: Input,
        *,
        n: int = 100,
        n0: int = 10,
        alpha: float = 0.001,
        input_id: str = "",
        mask: BoolArray | None = None,
        progress: bool | Advance | None = None,
    ) -> IntArray:
        """The smoothed model's labels at x itself, ABSTAIN where the draws do not decide.

        With probability at least 1 - alpha over the draws, every label that is not
        ABSTAIN is the smoothed arg-max: its probability exceeds 1/2 (Holm's test of
        all components at tau = 1/2).
        """
        return self.certify(x, tau=0.5, n=n, n0=n0, alpha=alpha, input_id=input_id, mask=mask, progress=progress).labels

    def counts(self, x: Input, *, n: int = 100, input_id: str = "", progress: bool | Advance | None = None) -> IntArray:
        """How often each class came up in n draws at x: (classes, *components)."""
        draws = self.draws(x, input_id)
        with progress_bar(require_integer("n", n), "drawing", show=progress) as advance:
            counted = draws.class_counts("agree", 0, n, draws.zeros(n, draws.classes or 1), advance=advance)
            return last(counted).cpu().numpy().astype(np.int32)

    def agreement(
        self, x: Input, labels: IntArray, *, n: int = 100, input_id: str = "", progress: bool | Advance | None = None
    ) -> IntArray:
        """How many of n draws at x gave each component its label in ``labels``: (*components)."""
        draws = self.draws(x, input_id)
        if draws.components != np.shape(labels):
            raise InputError(
                f"the labels are of components {np.shape(labels)}, but the model has {draws.components}: "
                "give the model and the input that they belong to"
            )
        wanted = torch.as_tensor(np.array(labels), device=draws.x.device)
        with progress_bar(require_integer("n", n), "drawing", show=progress) as advance:
            counted = draws.agreement("agree", 0, n, wanted, draws.zeros(n), advance=advance)
            return last(counted).cpu().numpy().astype(np.int32)


def sample(
    model: Segmenter, x: Input, *, noise: Noise, n: int = 100, n0: int = 10, seed: int | None = None,
    batch_size: int | None = None, device: str | torch.device | None = None, input_id: str = "",
    mask: BoolArray | None = None, first: int = 0, prefixes: Sequence[int] = (), looks: int | Sequence[int] = (),
    until: Callable[[Votes], bool] | None = None, checkpoint: Path | None = None, checkpoint_every: float = 10.0,
    preprocessing: Preprocessing | None = None, counts: bool = False, classes: int | None = None,
    progress: bool | Advance | None = None,
) -> Votes:  # fmt: skip
    """`Smooth.votes` in one call, where its arguments are explained."""
    return Smooth(model, noise, seed=seed, batch_size=batch_size, device=device).votes(
        x, n=n, n0=n0, input_id=input_id, mask=mask, first=first, prefixes=prefixes, looks=looks, until=until,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every, preprocessing=preprocessing, counts=counts,
        classes=classes, progress=progress,
    )  # fmt: skip


def certify(
    model: Segmenter, x: Input, *, sigma: float | None = None, noise: Noise | None = None, tau: float = 0.75,
    n: int = 100, n0: int = 10, alpha: float = 0.001, seed: int | None = None, correction: str | Correction = "holm",
    k: int | None = None, b: int | None = None, norm: str | None = None, batch_size: int | None = None,
    device: str | torch.device | None = None, input_id: str = "", mask: BoolArray | None = None,
    looks: int | Sequence[int] = (), until: float | Callable[[Votes], bool] | None = None,
    checkpoint: Path | None = None, save_votes: Path | None = None, preprocessing: Preprocessing | None = None,
    counts: bool = False, progress: bool | Advance | None = None,
) -> Certificate:  # fmt: skip
    """SegCertify in one call, `Smooth.certify`: `sample`, then `certify_votes` [Fischer2021, Alg. 2].

    With probability at least 1 - alpha over the draws, for every component that
    is not ABSTAIN and every perturbation within ``radius``, the smoothed arg-max
    keeps the label: its probability stays above 1/2.

    ``model``, ``sigma``, ``noise``, ``seed``, ``batch_size`` and ``device`` are as of `Smooth`, all others as of its
    method `Smooth.certify`.

    Examples
    --------
    >>> brightness = lambda batch: torch.stack([0.5 - batch.mean(1), batch.mean(1) - 0.5], 1)  # dark or bright
    >>> found = certify(brightness, torch.full((3, 2, 4), 0.9), sigma=0.25, seed=0)
    >>> found.labels.tolist(), round(found.radius, 4)
    ([[1, 1, 1, 1], [1, 1, 1, 1]], 0.1686)
    """
    return Smooth(model, noise, sigma=sigma, seed=seed, batch_size=batch_size, device=device).certify(
        x, tau=tau, n=n, n0=n0, alpha=alpha, correction=correction, k=k, b=b, norm=norm, input_id=input_id, mask=mask,
        looks=looks, until=until, checkpoint=checkpoint, save_votes=save_votes, preprocessing=preprocessing,
        progress=progress, counts=counts,
    )  # fmt: skip
