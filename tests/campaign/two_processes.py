"""Two commands at once in one folder: one is refused with the other's pid, or they come one after the other."""

import random
import shutil
import time

from tests.campaign.findings import Tally
from tests.campaign.runs import Bench, bench

WEIGHTS = {
    "certify": 2, "evaluate": 2, "train": 3, "certify-metric": 1, "certify-sets": 1, "evaluate-metric": 2, "report": 1,
    "join": 0.3,
}  # fmt: skip


def run(tally: Tally, *, count: int = 150, seed: int = 0) -> None:
    """So many pairs, the second a random moment after the first."""
    rng = random.Random(seed)
    with bench() as made:
        for _ in range(count):
            name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            tally.add(*_pair(made, name, rng))


def _pair(made: Bench, name: str, rng: random.Random) -> tuple[str | None, str]:
    """The kind of defect, if there is one, and what happened."""
    made.reference(name)
    out = made.folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    delay = rng.random() ** 2 * 1.2 * made.seconds[name]
    first = made.start(name, out)
    time.sleep(delay)
    second = made.start(name, out)
    ends = {first.pid: first.wait(), second.pid: second.wait()}
    story = f"two of {name}, the second {delay:.3f} s later"
    for pid, other in ((first.pid, second.pid), (second.pid, first.pid)):
        ended = ends[pid]
        if ended.raw:
            return "raw", f"{story}: {ended.text[-300:]}"
        if ended.code and not (ended.code == 2 and f"is in use by process {other} " in " ".join(ended.text.split())):
            return "lost", f"{story}: exit {ended.code}: {ended.text[-300:]}"
    if all(ended.code for ended in ends.values()):
        return "lost", f"{story}: both were refused"
    return made.difference(name, out) or (None, story)
