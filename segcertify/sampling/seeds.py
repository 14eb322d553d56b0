"""Seeds: given by the caller, or 128 bits from the operating system. No torch.

A claim holds for inputs and models that were fixed before the seed: whoever knows
the seed first can build an input or a model on which all its draws agree. So the
default is a seed that nobody knows, and votes record whether theirs was given.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from segcertify.errors import LARGEST_SEED, require_integer


@dataclass(frozen=True)
class Seed:
    """A seed, and whether the caller chose it. A run that resumes passes on both as they were recorded."""

    value: int
    given: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", require_integer("seed", self.value, at_least=0, at_most=LARGEST_SEED))


def as_seed(seed: int | Seed | None) -> Seed | None:
    """A seed as users give it: a number is a given seed, None stands for a fresh one at every call."""
    return seed if seed is None or isinstance(seed, Seed) else Seed(seed)


def fresh_seed() -> Seed:
    """128 bits from the operating system. All seeds that nobody gave come from here."""
    return Seed(secrets.randbits(128), given=False)


def seed_of_run(seed: int | Seed | None, recorded: Seed | None = None) -> Seed:
    """The seed of a run: the recorded one if the caller gave none, or the same; else the given one; else a fresh one.

    Whoever resumes a run compares the seed with the recorded one, and refuses another.
    """
    chosen = as_seed(seed)
    if recorded is not None and (chosen is None or chosen.value == recorded.value):
        return recorded
    return chosen or fresh_seed()
