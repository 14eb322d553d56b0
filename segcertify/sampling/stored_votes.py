"""Votes that lie where a run would write its own: taken again if they are what it would draw now, else refused.

Asking again is then no other roll of the dice, costs no new draws for the test, and overwrites nothing.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from segcertify.arrays import BoolArray
from segcertify.errors import InputError
from segcertify.preprocessing import Preprocessing, require_plain
from segcertify.sampling.counting import last, most_frequent
from segcertify.sampling.draws import Draws
from segcertify.sampling.identity import EXECUTION, without_execution
from segcertify.sampling.seeds import Seed
from segcertify.storage.atomic import require_writable
from segcertify.votes import Votes, seed_text

TIES = 1e-3
"""The share of candidates that may differ in a second pilot: rounding, of another batch size, may decide a tie."""


class StoredVotes:
    """The votes at a path, if there are any. Raises `InputError` where nothing can be written, and for a damaged file.

    A network is known by a digest of its weights: its votes are taken as they are, after a second pilot. A function
    without weights is known by a few answers alone. Another one must not inherit votes, nor a seed that it may have
    been made for: its draws are made again, its seed counts as given, and all counts must be the stored ones.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else require_writable(path)
        self.votes: Votes | None = None
        if self._path is not None and self._path.exists():
            try:
                self.votes = Votes.load(self._path)
            except InputError as error:
                raise InputError(f"{error}: or delete it, or write to another path") from None

    @property
    def seed(self) -> Seed | None:
        """The seed of the votes, as they recorded it."""
        return None if self.votes is None or self.votes.seed is None else Seed(self.votes.seed, self.votes.seed_given)

    def require_same_run(
        self, draws: Draws, *, n: int, n0: int, mask: BoolArray | None, model: Mapping[str, Any],
        preprocessing: Preprocessing | None, looks: tuple[int, ...] = (), counts: bool = False,
    ) -> None:  # fmt: skip
        """Raise `InputError` if there are votes, but not those that these draws would give."""
        if self.votes is None:
            return
        stored, plain = self.votes, None if preprocessing is None else require_plain("preprocessing", preprocessing)
        if not stored.model:
            raise _others(self._path, "they do not say of which model")
        self._require("seed", seed_text(stored.seed), seed_text(draws.seed))
        self._require("n", stored.planned, n)
        self._require("looks", stored.looks, looks)
        self._require("range of draws", stored.draws, ((0, stored.n),))
        try:
            if model.get("weights"):  # they are taken as they are: no two executions mix
                model = {
                    **without_execution(model),
                    **{key: stored.model[key] for key in stored.model if key == EXECUTION},
                }
            now = draws.record(stored.candidate, stored.agree, n=stored.n, n0=n0)
            stored.require_same_run(replace(now, mask=mask, model=model, earlier=stored.earlier, looks=looks))
        except InputError as error:
            raise _others(self._path, str(error).replace(" do not merge", "")) from None
        self._require("pre-processing", stored.preprocessing, plain)
        if counts and stored.counts is None:
            raise InputError(
                f"{self._path} holds votes without the counts of all classes, which sets need: write to another path "
                "(--out), or delete them"
            )

    def ending(self, until: Callable[[Votes], bool]) -> Callable[[Votes], bool]:
        """The rule that ends draws where those of the votes ended. Raises `InputError` if ``until`` asks for more."""
        stored = self.votes
        if stored is not None and stored.n < stored.planned and not until(stored):
            raise InputError(
                f"{self._path} holds votes that a look ended after {stored.n} of {stored.planned} draws, too early for "
                "what is asked now: ask for a smaller share (until), or write to another path (--out)"
            )
        return lambda votes: stored is not None and votes.n >= stored.n

    def reused(self, draws: Draws) -> Votes | None:
        """The votes themselves, if their model is known by its weights: a pilot's draws must give the candidates."""
        if self.votes is None or not self.votes.model.get("weights"):
            return None
        if n0 := self.votes.n0:
            counted = draws.class_counts("candidate", 0, n0, draws.zeros(n0, draws.classes or 1))
            candidate = most_frequent(last(counted))
            self._require_few(candidate.cpu().numpy() != self.votes.candidate, "candidates", allowed=TIES)
        return self.votes

    def save(self, votes: Votes) -> None:
        """Write the votes, unless the same are there. Raises `InputError` if there are others."""
        if self.votes is not None:
            self._require_few(votes.candidate != self.votes.candidate, "candidates")
            self._require_few(votes.agree != self.votes.agree, "counts")
            for ours, theirs in ((votes.counts, self.votes.counts), (votes.pilot_counts, self.votes.pilot_counts)):
                if ours is not None and theirs is not None and not np.array_equal(ours, theirs):
                    raise _others(self._path, "the same draws give other counts of the other classes now")
        elif self._path is not None:
            votes.save(self._path)

    def _require(self, name: str, old: object, new: object) -> None:
        if old != new:
            raise _others(self._path, f"their {name} was {old}, now it is {new}")

    def _require_few(self, differ: BoolArray, what: str, *, allowed: float = 0.0) -> None:
        if (count := int(np.count_nonzero(differ))) > allowed * differ.size:
            raise _others(self._path, f"the same draws give other {what} now, at {count:,} of {differ.size:,}")


def _others(path: Path | None, what: str) -> InputError:
    return InputError(
        f"{path} holds votes of another run: {what}. They are not overwritten: write to another path (--out), or "
        "delete them"
    )
