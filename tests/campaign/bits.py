"""Every bit of one file of each kind that has a digest, flipped: the file is refused, or says what it said."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.campaign.findings import Tally
from tests.campaign.guard import SilentError, guarded
from tests.campaign.kinds import WRITTEN
from tests.campaign.subjects import Subject

WITH_DIGEST = tuple(subject for subject in WRITTEN if subject.digest)


def run(tally: Tally, *, count: int = 0, seed: int = 0) -> None:
    """Flip each bit, or about ``count`` of all bits if that is not 0; ``seed`` says which."""
    for subject in WITH_DIGEST:
        flip(tally, subject, most=count // len(WITH_DIGEST), seed=seed)


def flip(tally: Tally, subject: Subject, *, most: int = 0, seed: int = 0) -> None:
    """Flip the bits of one file, one at a time: all of them, or about ``most``, evenly spread."""
    with tempfile.TemporaryDirectory() as folder:
        path = subject.make(Path(folder))
        content = path.read_bytes()
        good = subject.read(path)
        step = max(1, 8 * len(content) // most) | 1 if most else 1  # odd, so that all bits of a byte have their turn
        bits = range(seed % step, 8 * len(content), step)

        def attempt(number: int) -> Callable[[], object]:
            flipped, bit = bytearray(content), bits[number]
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)

            def tried() -> None:
                if not subject.same(subject.read(path), good):
                    raise SilentError("believed")

            return tried

        guarded(tally, attempt, len(bits), lambda number: f"{subject.name}, bit {bits[number]}")
