"""Malformed files of every kind that is read: each is refused with `InputError`, or read as it is."""

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.campaign.findings import Tally
from tests.campaign.given_files import GIVEN
from tests.campaign.guard import SilentError, guarded
from tests.campaign.kinds import WRITTEN
from tests.campaign.subjects import Subject

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"


def run(tally: Tally, *, count: int = 100_000, seed: int = 0, subjects: Sequence[Subject] = (*WRITTEN, *GIVEN)) -> None:
    """Damage a good file of each kind in ``count`` ways, shared among the kinds, and read it."""
    whole = sum(subject.share for subject in subjects)
    for subject in subjects:
        fuzz(tally, subject, max(1, round(count * subject.share / whole)), seed=seed)


def fuzz(tally: Tally, subject: Subject, count: int, *, seed: int) -> None:
    """Damage a good file of one kind in ``count`` ways, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = subject.make(Path(folder))
        content = path.read_bytes()
        good = subject.read(path)

        def attempt(number: int) -> Callable[[], object]:
            rng = random.Random(f"{seed} {subject.name} {number}")
            change = rng.choice((*subject.changes, *subject.forgeries))
            changed = change(content, rng)
            path.unlink(missing_ok=True)
            path.write_bytes(changed)

            def tried() -> None:
                found = subject.read(path)
                signed = subject.digest and change in subject.changes and not subject.unsigned(changed)
                if signed and not subject.same(found, good):
                    raise SilentError(f"{change.__name__} was believed")

            return tried

        guarded(tally, attempt, count, lambda number: f"{subject.name}, attempt {number} of seed {seed}")
