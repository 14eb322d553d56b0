"""Audits of a sampler: are its draws independent and of the stated law, and does the model answer each by itself?

Draws become normal scores, standard normal and independent if the sampler is as
stated, so that every statistic below has an exact law.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import special, stats

from segcertify.arrays import FloatArray
from segcertify.audit.scores import FEWEST_ENTRIES, Scored, scores_of
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise
from segcertify.numerals import exact
from segcertify.sampling.batch_size import halve_until_it_fits
from segcertify.sampling.cross_talk import FINE, Answers, changes, chosen_entries, halves, pairs, tolerance_of
from segcertify.sampling.inputs import require_device, working_device
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, for_sampling, is_random, raw_output, to_model_dtype
from segcertify.sampling.streams import DrawStream, Phase

Draw = Callable[[torch.Tensor, Phase, Sequence[int]], torch.Tensor]
"""From an input, "candidate" (n0) or "agree" (n), and the draws' indices to noisy copies (B, *x.shape)."""

RESOLUTION = 2.0**-25
"""Scores keep this distance from 0 and 1: single precision is no finer."""
BLOCK = 1024


@dataclass(frozen=True)
class Check:
    """One check, its p-value (0 or 1 where chance has no part), and the level at or below which it fails."""

    name: str
    p_value: float
    level: float
    detail: str

    @property
    def passed(self) -> bool:
        """Whether the p-value is above the level."""
        return self.p_value > self.level


@dataclass(frozen=True)
class SamplerFinding:
    """The checks of a sampler. A right one fails any with probability at most ``level``."""

    noise: Noise
    checks: tuple[Check, ...]
    level: float

    @property
    def failed(self) -> tuple[Check, ...]:
        """Those that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def verdict(self) -> str:
        """In a sentence."""
        sure = f"A right sampler fails any check with probability at most {exact(self.level)}."
        if not self.failed:
            return f"{self.noise}: {len(self.checks)} checks passed. {sure}"
        failed = "; ".join(f"{check.name} ({check.detail}, p = {check.p_value:.2g})" for check in self.failed)
        return f"{self.noise}: FAILED {failed}. {sure}"


def own_draws(noise: Noise, *, seed: int = 0, input_id: str = "") -> Draw:
    """This package's own draws of a noise, as `segcertify.sample` makes them."""

    def draw(x: torch.Tensor, phase: Phase, indices: Sequence[int]) -> torch.Tensor:
        drawn: torch.Tensor = noise.draw(x, [DrawStream(seed, input_id, phase, j) for j in indices])
        return drawn

    return draw


def audit_sampler(
    draw: Draw | None, noise: Noise, *, x: torch.Tensor | None = None, model: Segmenter | None = None,
    n: int | None = None, n0: int = 200, batch_size: int = 50, level: float = 1e-6, seed: int | None = None,
    device: str | torch.device | None = None,
) -> SamplerFinding:  # fmt: skip
    """Whether a sampler's draws are independent, of the noise's law, and the n0 and n draws different.

    Parameters
    ----------
    draw : function or None
        From (x, phase, indices) to noisy copies of x, `batch_size` indices at a time; None for our own.
    x : tensor, optional
        An input; by default a grey image, or a random cloud for rotations, which are audited in double precision.
    model : callable, optional
        Also check whether it answers each noisy input by itself: with the same seed, if it is random, the same at
        other places of a batch and beside other inputs.
    n, n0 : int
        How many draws to check, n in whole batches. By default n is 1,000, or 20,000
        for rotations, of which a draw shows only one or three numbers.
    level : float
        The chance that a right sampler fails any check: each check has its share.
    device : str or torch.device, optional
        Where to draw; x's by default. Our numbers on CUDA come from another generator than elsewhere.
    """
    rotates = not noise.additive
    if x is None:
        rng = np.random.default_rng(0)
        x = torch.from_numpy(rng.standard_normal((32, 3))) if rotates else torch.full((3, 16, 16), 0.5)
    x = x if device is None else x.to(require_device(device))
    x = x.double() if rotates else x
    noise.check(tuple(x.shape))
    batch_size, n0 = require_integer("batch_size", batch_size, at_least=2), require_integer("n0", n0)
    n = require_integer("n", (20_000 if rotates else 1000) if n is None else n)
    if n % batch_size or n < max(n0, 2 * batch_size):
        raise InputError(
            f"n must be a multiple of batch_size={batch_size}, at least two of it and at least n0={n0}, but got {n}: "
            f"use {batch_size * max(2, -(-max(n, n0) // batch_size))}"
        )
    level = require_probability("level", level)
    seed = seed_of_run(seed).value
    draw = draw or own_draws(noise, seed=seed)
    candidate = _collect(draw, noise, x, phase="candidate", count=n0, batch_size=batch_size)
    agree = _collect(draw, noise, x, phase="agree", count=n, batch_size=batch_size)
    results = _results(candidate, agree, batch_size)
    if model is not None:
        results.append(_own_answers(for_sampling(model), x, draw(x, "candidate", range(min(batch_size, n0))), seed))
    share = level / len(results)
    return SamplerFinding(noise, tuple(Check(name, p, share, detail) for name, p, detail in results), level)


Result = tuple[str, float, str]
"""A check's name, its p-value, and a number that says why."""


def _collect(draw: Draw, noise: Noise, x: torch.Tensor, *, phase: Phase, count: int, batch_size: int) -> Scored:
    """The scores of all draws of a phase, a batch at a time."""
    scores, found = scores_of(noise, x), []
    for start in range(0, count, batch_size):
        indices = range(start, min(start + batch_size, count))
        batch = draw(x, phase, indices)
        if batch.shape != (len(indices), *x.shape):
            raise InputError(
                f"the sampler gave shape {tuple(batch.shape)} for {len(indices)} draws: expected (B, *x.shape) = "
                f"{(len(indices), *x.shape)}"
            )
        found.append(scores(batch))
    return Scored(np.concatenate([each.uniform for each in found]), np.concatenate([each.kept for each in found]))


def _results(candidate: Scored, agree: Scored, batch_size: int) -> list[Result]:
    """Every check."""
    uniform, n0 = np.concatenate([candidate.uniform, agree.uniform]), len(candidate.uniform)
    both = special.ndtri(np.clip(uniform, RESOLUTION, 1 - RESOLUTION))
    z, pairs = both[n0:], np.stack([both[:n0], both[n0 : 2 * n0]], 1)
    grid = z.reshape(-1, batch_size, z.shape[1])  # batches, draws, entries
    strayed = int((~candidate.kept).sum() + (~agree.kept).sum())
    results = [
        ("only what the noise changes is changed", float(not strayed), f"{strayed} draws strayed"),
        _duplicates(uniform, n0),
        _common("draws of a batch are independent", grid),
        _common("batches are independent", grid.transpose(1, 0, 2)),
        _common("the n0 and the n draws are independent", pairs),
        _common("entries of a draw are independent", z.T[None]),
        _law(agree.uniform),
        _variance(z),
    ]
    return [*results, _nearest(both)] if z.shape[1] >= FEWEST_ENTRIES else results


def _duplicates(u: FloatArray, n0: int) -> Result:
    """Equal draws: continuous noise repeats none. (Normal scores are cut off, and could be equal far out.)"""
    _, groups = np.unique(u, axis=0, return_inverse=True)
    shared = len(np.intersect1d(groups[:n0], groups[n0:]))
    repeated = len(u) - len(np.unique(groups))
    return "no draw comes twice", float(not repeated), f"{repeated} repeated, {shared} among both the n0 and the n"


def _common(name: str, z: FloatArray) -> Result:
    """Members (groups, B, m) of a group share nothing: their sums over sqrt(B) are standard normal again."""
    sums = z.sum(1) / np.sqrt(z.shape[1])
    p, ratio = _chi_square(float((sums**2).sum()), sums.size)
    correlation = (ratio - 1) / (z.shape[1] - 1) if z.shape[1] > 1 else 0.0
    return name, p, f"mean correlation {correlation:+.4f}"


def _law(u: FloatArray) -> Result:
    """Kolmogorov and Smirnov's distance between the scores and the stated law."""
    test = stats.kstest(u.ravel(), "uniform")
    return "draws have the stated law", float(test.pvalue), f"distance {test.statistic:.4f}"


def _variance(z: FloatArray) -> Result:
    """Sums of squares of all entries together and of each alone, one half of the level each."""
    p, ratio = _chi_square(float((z**2).sum()), z.size)
    each = min(_chi_square(float(total), len(z))[0] for total in (z**2).sum(0))
    return "every entry has the stated variance", min(1.0, 2 * p, 2 * z.shape[1] * each), f"{ratio:.4f} of it"


def _nearest(z: FloatArray) -> Result:
    """The largest correlation of any two draws: of directions in m dimensions, its law is known exactly."""
    unit, m = z / np.linalg.norm(z, axis=1, keepdims=True), z.shape[1]
    largest = 0.0
    for start in range(0, len(z), BLOCK):
        cosines = np.abs(unit[start : start + BLOCK] @ unit.T)
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = 0
        largest = max(largest, float(cosines.max()))
    tail = 2 * stats.beta.sf((1 + largest) / 2, (m - 1) / 2, (m - 1) / 2)
    p = float(min(1.0, len(z) * (len(z) - 1) / 2 * tail))
    return "no two draws resemble each other", p, f"correlation {largest:.3f}"


def _chi_square(total: float, degrees: int) -> tuple[float, float]:
    """The two-sided p-value of a sum of squares of standard normals, and the sum over its mean."""
    p = 2 * min(stats.chi2.sf(total, degrees), stats.chi2.cdf(total, degrees))
    return min(1.0, float(p)), total / degrees


def _own_answers(model: Segmenter, x: torch.Tensor, batch: torch.Tensor, seed: int) -> Result:
    """The same answers to some entries of a batch in pairs; a model that says it is random gets the same seeds."""
    device = working_device(None, model, batch)
    batch, x = to_model_dtype(model, batch.to(device)), x.to(device)
    streams = [DrawStream(seed, "", "candidate", j) for j in range(len(batch))]

    def ask(entries: Sequence[int]) -> Answers:
        some = batch[list(entries)]
        seeds = [streams[j].model_seed for j in entries] if is_random(model) else None
        return Answers.of(raw_output(model, some, seeds), some)

    def chosen_of(size: int) -> tuple[list[int], Answers]:
        entries = chosen_entries(size, DrawStream(seed, "", "verify", size))
        return entries, ask(range(size)).at(entries)

    size, (entries, first) = halve_until_it_fits(chosen_of, len(batch))

    def in_pairs(positions: list[int]) -> Answers:
        return ask([entries[position] for position in positions])

    def among_others(positions: list[int]) -> Answers:
        places = [entries[position] for position in positions]
        other = next(place for place in range(size) if place not in places)
        return ask([place if place in places else other for place in range(size)]).at(places)

    allowed = tolerance_of(model, first.output)
    changed = changes(first, x, in_pairs, pairs(len(entries)), allowed)
    if changed.doubtful:
        changed = changes(first, x, among_others, halves(len(entries)), FINE)
    found = changed.found
    return "the model answers each draw by itself", float(not found), found or f"{len(entries)} entries asked again"
