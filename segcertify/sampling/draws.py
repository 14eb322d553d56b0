"""Draws: the label maps of a model at noisy copies of one input, each addressed by its phase and index.

Draw j's noise depends on (seed, input id, j) alone: not on batch size, order or
what ran before. The "candidate" and the "agree" draws share nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, ModelError
from segcertify.noise import Gaussian, Laplace, Noise, Uniform, described
from segcertify.progress import Advance
from segcertify.sampling.at_input import InputAnswers, may_be_labels
from segcertify.sampling.batch_size import BUSY, halve_until_it_fits, out_of_memory
from segcertify.sampling.identity import identity, is_copy
from segcertify.sampling.inputs import digested_beside, input_digest
from segcertify.sampling.kernels.fused import fused, like_cuda
from segcertify.sampling.kernels.philox import Law, is_fused
from segcertify.sampling.kernels.scores import Scores
from segcertify.sampling.outputs import Outputs, require_finite
from segcertify.sampling.partition import Partition, Places
from segcertify.sampling.probe import Probe, noisy_outputs
from segcertify.sampling.segmenter import Resizing, Segmenter, asked, is_random, model_dtype
from segcertify.sampling.stages import stage
from segcertify.sampling.streams import Address, DrawStream, Phase, Wanted
from segcertify.sampling.verification import Experience, Verification
from segcertify.votes import Votes

LAWS: Mapping[type[Any], Law] = {Gaussian: "normal", Laplace: "laplace", Uniform: "uniform"}
"""The noises that can be drawn where a model looks alone, and their laws."""
Watch = Callable[[Phase, int, torch.Tensor], None]
"""What is called with the phase, the first index and the label maps of each batch, before they are counted."""
Counts = Iterator[tuple[int, torch.Tensor]]
"""After each batch the index of the next draw, and the counts so far."""


class Draws:
    """The draws of a model at one input. `segcertify.Smooth.draws` makes them, after its checks."""

    def __init__(
        self, model: Segmenter, noise: Noise, x: torch.Tensor, probe: Probe, *, seed: int, input_id: str,
        seed_given: bool = True, given: torch.Tensor | None = None, experience: Experience | None = None,
    ) -> None:  # fmt: skip
        """``given`` is the input as it was given, perhaps on the host; ``experience`` is what is known of the model."""
        self.model, self.noise, self.x, self.seed, self.input_id = model, noise, x, seed, input_id
        self.seed_given = seed_given
        self.components, self.batch_size, self.probe = probe.components, probe.batch_size, probe
        self.watch: Watch | None = None
        self.even = False
        """Whether batches on CUDA are about equally large, rather than as large as allowed and a small last one."""
        self._bad = torch.zeros(1, dtype=torch.int32, device=x.device)
        """The flag that kernels raise at scores that are not finite."""
        self._given = x if given is None else given
        self._digest: Callable[[], str] | None = None
        self._verified_sizes = {1}
        """The sizes of batches of which entries were asked again; a single entry has no others beside it."""
        self._open: Verification | None = None
        """What is known of the second answers to a batch, before anybody looked at it."""
        self.experience = Experience() if experience is None else experience
        again = probe.classes is not None and not self.experience.by_place
        self._partition = Partition(again=again, or_one=self.experience.doubt is False)
        self.ahead = range(0)
        """The draws for agreement that come next after the candidates, and may join their last batch."""
        self._made: tuple[int, Outputs] | None = None
        """The first of those that did, and what the model said to them."""
        self._begun: tuple[object, tuple[int, Outputs]] | None = None
        """The first batch of a run, if it was begun before the run."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input, without a batch axis."""
        return tuple(self.x.shape)

    def batches(
        self, phase: Phase, start: int, stop: int, *, ends: Sequence[int] = (), advance: Advance = lambda step: None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Label maps (B, *components) of draws start .. stop - 1, and the index after each batch."""
        for end, drawn in self.outputs(phase, start, stop, ends=ends, advance=advance):
            self.settle(phase, end)
            yield end, drawn.labels

    def outputs(
        self, phase: Phase, start: int, stop: int, *, ends: Sequence[int] = (), advance: Advance = lambda step: None
    ) -> Iterator[tuple[int, Outputs]]:
        """What the model says to draws start .. stop - 1, in batches, and the index after each.

        Each is to be counted before the next: a model may use the memory again. Batches end at each of ``ends``. Out of
        memory halves the batch and goes on. Whoever uses what was counted before the end calls `settle`.
        """
        while start < stop:
            limit = min(end for end in (*ends, stop) if end > start)
            size, drawn = (
                self._taken((phase, start, limit, stop))
                or self._made_before(phase, start, limit)
                or self._made_now(phase, start, limit, stop)
            )
            if self.watch is not None:
                self.settle(phase, start)
                self.watch(phase, start, drawn.labels)
            start += size
            advance(size)  # before the yield: a run may end after this batch
            yield start, drawn
        if phase != "candidate" or not self.ahead:  # else draws for agreement follow
            self.settle(phase, start)

    def class_counts(
        self, phase: Phase, start: int, stop: int, counts: torch.Tensor, classes: int | None = None, *,
        ends: Sequence[int] = (), advance: Advance = lambda step: None,
    ) -> Counts:  # fmt: skip
        """How often each class came up, (classes, *components), in draws start .. stop - 1; goes on from ``counts``.

        A label that is not below ``classes`` is refused; where the number is not known, counts of more are added.
        """
        for end, drawn in self.outputs(phase, start, stop, ends=ends, advance=advance):
            with stage("counting"):
                counts = drawn.with_class_counts(counts, classes)
            yield end, counts

    def agreement(
        self, phase: Phase, start: int, stop: int, labels: torch.Tensor, agree: torch.Tensor, *,
        ends: Sequence[int] = (), advance: Advance = lambda step: None,
    ) -> Counts:  # fmt: skip
        """How many draws gave each component its label in ``labels``, (*components); goes on from ``agree``."""
        for end, drawn in self.outputs(phase, start, stop, ends=ends, advance=advance):
            with stage("counting"):
                drawn.add_agreement(labels, agree)
            yield end, agree

    def watched(
        self, phase: Phase, start: int, stop: int, *, advance: Advance = lambda step: None
    ) -> Iterator[int]:  # fmt: skip
        """Make draws for `watch` alone; gives the index after each batch."""
        for end, _ in self.outputs(phase, start, stop, advance=advance):
            yield end

    def begin(self, *, n: int, n0: int, first: int = 0, prefixes: Sequence[int] = ()) -> None:
        """Have the first batch of a run made, as `segcertify.sampling.counting.sampled` asks for it."""
        if n0:
            self.ahead = range(first, first + min((*prefixes, n)))
            place: tuple[Phase, int, int, int] = "candidate", 0, n0, n0
        else:
            place = "agree", first, first + min((*prefixes, n)), first + n
        self._begun = place, self._made_now(*place)

    def _taken(self, place: object) -> tuple[int, Outputs] | None:
        """What was begun, if it is the batch that comes now."""
        begun, self._begun = self._begun, None
        return begun[1] if begun is not None and begun[0] == place else None

    def _made_now(self, phase: Phase, start: int, limit: int, stop: int) -> tuple[int, Outputs]:
        """How many draws the next batch from ``start`` has, up to ``limit``, and what the model says to them."""
        ahead = self.ahead if self._evenly and phase == "candidate" and limit == stop else range(0)
        places = self._places(limit - start + len(ahead), phase, start)
        wanted = range(start, limit)[: places.new]
        joined = ahead[: places.new - len(wanted)]
        batch: list[Address] = [(phase, index) for index in wanted] + [("agree", index) for index in joined]
        if places.again and self._open is not None:
            batch += self._open.again
        batch += [("neighbour", start)] * places.spare
        try:
            size, drawn = halve_until_it_fits(partial(self._verified, batch, places), len(batch))
        except (InputError, RuntimeError) as error:
            raise self._failed(error, phase, start) from error
        if self._digest is None and self.x.is_cuda:  # the GPU is busy by now
            self._digest = digested_beside(self._given)
        if size < len(batch):
            self.batch_size = size
        own, made = min(size, len(wanted)), min(size, places.new)
        if made > own:
            joined_made = drawn.part(slice(own, made))  # others may be asked before they are counted
            self._made = ahead.start, joined_made if is_copy(self.model) else joined_made.kept()
        return own, drawn if own == size else drawn.part(slice(own))

    def _places(self, left: int, phase: Phase, start: int) -> Places:
        """The places of the next batch. What is known of second answers is looked at, if none are to come in it."""
        if not self._evenly:
            return Places(min(self.most, left))
        found = self._open
        wanted = found is not None and not found.asked_among_others and found.size == self._partition.size
        owed = len(found.again) if wanted and found is not None else 0
        places = self._partition.next(left, self.most, owed)
        if found is not None and not places.again:
            self.settle(phase, start)
        return places

    def _verified(self, batch: Sequence[Address], places: Places, size: int) -> Outputs:
        """What the model says to the first draws of a batch; the first of each size is verified."""
        whole, batch = size == len(batch), batch[:size]
        new = size not in self._verified_sizes
        verification = Verification(self, batch, later=whole and places.others_follow) if new else None
        drawn = self.made(batch)
        if drawn.components != self.components:  # makes label maps, unless kernels do: memory may run out here
            raise InputError(f"the model's components changed from {self.components} to {drawn.components}")
        if verification is not None:
            drawn = verification.first(drawn)
            if whole and self._evenly and drawn.output.is_floating_point():
                self._open = verification
            else:
                drawn = verification.compare(drawn)
            self._verified_sizes.add(size)
        elif whole and places.again and self._open is not None:
            self._open.among_others(drawn.at(range(places.new, places.new + places.again)))
        return drawn

    def _made_before(self, phase: Phase, start: int, limit: int) -> tuple[int, Outputs] | None:
        """Draws that were made in the batch of the candidates, if these are the next ones."""
        made, self._made = self._made, None
        if made is None or phase != "agree" or made[0] != start or start + len(made[1].batch) > limit:
            return None
        return len(made[1].batch), made[1]

    @property
    def _evenly(self) -> bool:
        return self.even and like_cuda(self.x)

    @property
    def most(self) -> int:
        """How many draws a batch has at most."""
        if not self._evenly:
            return self.batch_size
        read = self.x.shape if self._read_size is None else (len(self.x), *self._read_size)
        return min(self.batch_size, max(1, BUSY // math.prod(read)))

    def settle(self, phase: Phase, done: int) -> None:
        """Refuse the draws so far if entries of their batches influence each other, or if scores were not finite.

        On CUDA nobody looked before: that waits for the device.
        """
        self.require_finite(phase, done)
        if (found := self._open) is None:
            return
        try:
            halve_until_it_fits(lambda attempt: found.settle(), 2)  # once more, if memory ran out
        except (InputError, RuntimeError) as error:
            raise self._failed(error, phase, done) from error
        self._open = None
        self.require_finite(phase, done)

    def require_finite(self, phase: Phase, start: int) -> None:
        """Refuse the draws so far if the model gave scores that are not finite: the kernels only raise a flag."""
        try:
            require_finite(self._bad)
        except InputError as error:
            raise self._failed(error, phase, start) from error

    def _failed(self, error: InputError | RuntimeError, phase: Phase, start: int) -> Exception:
        """What the model did wrong in the middle, with the draw and the input."""
        if not isinstance(error, InputError) and not out_of_memory(error):
            return error
        said = error if isinstance(error, InputError) else ModelError.of(error)
        which = "candidates" if phase == "candidate" else "agreement"
        return ModelError(f"{said} (after {start} draws for {which}, of the input {self.input_id!r})")

    @property
    def seconds(self) -> float:
        """What a draw takes, as its model's probe measured it; 0 where that is not known."""
        return self.probe.seconds

    @property
    def classes(self) -> int | None:
        """How many classes the model's logits have; None for a model that gives labels."""
        return self.probe.classes

    def zeros(self, n: int, *classes: int) -> torch.Tensor:
        """Counts of n draws to begin with: (*components), or (classes, *components)."""
        return torch.zeros((*classes, *self.components), dtype=count_type(n), device=self.x.device)

    @property
    def fingerprint(self) -> tuple[float, ...]:
        """A few of the model's answers to its probe."""
        return self.probe.fingerprint

    @property
    def answers(self) -> Mapping[str, Any]:
        """All of the model's answers to its probe, in plain values."""
        return self.probe.answers

    def record(
        self, candidate: Array, agree: Array, *, n: int, n0: int, others: Mapping[str, Any] = MappingProxyType({})
    ) -> Votes:
        """Votes that say which input, noise and seed they come from; ``others`` are more of their fields."""
        self.settle("agree", n)
        return Votes(
            candidate, agree, n=n, n0=n0, noise=self.noise, seed=self.seed, input_id=self.input_id,
            input_shape=self.input_shape, input_digest=self.input_digest, fingerprint=self.fingerprint,
            seed_given=self.seed_given, **others,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """The draws in plain values: a checkpoint of other draws differs in some."""
        return {
            "noise": described(self.noise), "seed": self.seed, "input_id": self.input_id, "input": self.input_digest,
            "device": self.x.device.type,
        }  # fmt: skip

    @property
    def input_digest(self) -> str:
        """The input's digest, of which a GPU's work does not wait: a thread computes it meanwhile."""
        return input_digest(self._given) if self._digest is None else self._digest()

    def outputs_at_input(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's output for noisy copies of the input itself, and these copies: models may differ there alone."""
        try:
            streams = [DrawStream(self.seed, self.input_id, "probe", index) for index in range(self.probe.entries)]
            return noisy_outputs(self.model, self.noise, self.x, streams)
        except RuntimeError as error:
            raise (ModelError.of(error) if out_of_memory(error) else error) from error

    @property
    def identity(self) -> dict[str, Any]:
        """The model that draws, in plain values, as it is now."""
        return identity(self.model)

    def answers_at_input(self) -> InputAnswers:
        """What tells this model from others at this input."""
        return InputAnswers.of(*self.outputs_at_input())

    def may_give(self, labels: Array) -> bool:
        """Whether the labels of `answers_at_input` that a file holds may be this model's, up to rounding."""
        return may_be_labels(labels, *self.outputs_at_input())

    def made(self, batch: Sequence[Address]) -> Outputs:
        """f(x + noise) for draws as the model gives it, and x + noise, at the size that the model reads."""
        streams = [DrawStream(self.seed, self.input_id, phase, index) for phase, index in batch]
        if self._read_size is None or not isinstance(self.model, Resizing):
            output, noisy = noisy_outputs(self.model, self.noise, self.x, streams)
            return Outputs(noisy, output, self._bad)
        with stage("noise"):
            noisy = self.noise.draw(self.x, Wanted(streams, self._read_size, model_dtype(self.model)))
        seeds = [stream.model_seed for stream in streams] if is_random(self.model) else None
        with stage("model"):
            logs = asked(self.model.log_scores, noisy, seeds)
        return Outputs(noisy, logs, self._bad, logs_at=(self.x.shape[1], self.x.shape[2]))

    @cached_property
    def _read_size(self) -> tuple[int, int] | None:
        """The smaller size at which a model that resizes its images is asked: where noise and counts are fused."""
        law = LAWS.get(type(self.noise))
        plain = law is not None and getattr(self.noise, "channels", None) is None
        if not (plain and self.x.ndim == 3 and fused(self.x) and isinstance(self.model, Resizing)):
            return None
        whole = self.x.shape[1], self.x.shape[2]
        size, dtype = self.model.resized_to(whole), model_dtype(self.model) or self.x.dtype
        if size is None or law is None or not is_fused(self.x, law, resized=True, dtype=dtype):
            return None
        return size if Scores(self.x.new_empty((1, 2, *size)), whole, logs=True).fused else None

    @cached_property
    def read_input(self) -> torch.Tensor:
        """The input at the size that the model is asked at."""
        if self._read_size is None:
            return self.x
        return nn.functional.interpolate(self.x[None], size=self._read_size, mode="bilinear", align_corners=False)[0]


def count_type(n: int) -> torch.dtype:
    """The smallest type that holds counts up to n, of those in which torch adds."""
    return next(t for t in (torch.uint8, torch.int16, torch.int32) if n <= torch.iinfo(t).max or t == torch.int32)
