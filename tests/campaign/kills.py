"""Kill -9 and signals at random moments and at chosen points, then the same command again.

The end must be what an undisturbed run leaves, and no draw may be made much more often than once. Chosen points are the
moments before and after each call that makes content last (fsync), gives it its name (replace) or takes a name away
(unlink), and a write that the disk kept only a part of.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.campaign.findings import Tally
from tests.campaign.runs import BATCH, N0, Bench, N, bench, program

WEIGHTS = {
    "certify": 4, "evaluate": 4, "train": 4, "report": 3, "join": 0.3, "certify-metric": 2, "certify-sets": 2,
    "certify-looks": 1, "evaluate-metric": 2, "evaluate-looks": 1,
}  # fmt: skip
POINTS = ("fsync", "replace", "unlink")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OVERHEAD = 60
"""Entries that one start of a command may ask for beside the draws: probes, checks of batches, the pilot again."""


def run(tally: Tally, *, count: int = 500, seed: int = 0) -> None:
    """So many kills; each run is killed one to three times, and then left alone."""
    rng = random.Random(seed)
    with bench() as made:
        while tally.tried < count:
            name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            _attempt(tally, made, name, rng)


def _attempt(tally: Tally, made: Bench, name: str, rng: random.Random) -> None:
    made.reference(name)
    out, kills, texts = made.folder / "out", 0, []
    shutil.rmtree(out, ignore_errors=True)
    made.asked = 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        how, text = _disturbed(made, name, rng)
        kills += 1
        texts.append(how)
        if text:
            tally.add("raw", f"{name}, {how}: {text}")
    last = made.start(name, out).wait()
    story = f"{name}, {', then '.join(texts)}"
    for _ in range(kills - 1):
        tally.add(None)
    if last.code:
        tally.add("raw" if last.raw else "lost", f"{story}: then exit {last.code}: {last.text[-300:]}")
    elif (found := made.difference(name, out)) is not None:
        tally.add(found[0], f"{story}: {found[1]}")
    elif made.asked > most(name, kills):
        tally.add("lost", f"{story}: {made.asked} entries were asked for instead of {most(name, 0)}")
    else:
        tally.add(None)


def most(name: str, kills: int) -> float:
    """How many entries a run may ask for that was killed so often."""
    scenes = {"certify": 1, "evaluate": 3}.get(program(name), 0)
    return (scenes * (N0 + N + OVERHEAD) + kills * (OVERHEAD + N0 + BATCH)) if scenes else float("inf")


def _disturbed(made: Bench, name: str, rng: random.Random) -> tuple[str, str]:
    """Start the command and kill it: how it was done, and what was wrong with what it said."""
    out = made.folder / "out"
    if rng.random() < 0.6:
        calls = {"certify": 20, "evaluate": 60, "train": 16}.get(program(name), 8)
        call, number = rng.choice(POINTS), rng.randint(1, calls)
        moment = rng.choice(("before", "after", "torn")) if call == "fsync" else rng.choice(("before", "after"))
        ended = made.start(name, out, inside=partial(_plant, call, number, moment)).wait()
        return f"killed {moment} {call} {number}", "did not end" if ended.hung else ""
    child = made.start(name, out)
    delay = rng.random() * made.seconds[name]
    time.sleep(delay)
    number = signal.SIGKILL if rng.random() < 0.6 else rng.choice(SIGNALS)
    os.kill(child.pid, number)
    ended = child.wait()
    how = f"{signal.Signals(number).name} after {delay:.3f} s"
    return how, "did not end" if ended.hung else ended.text[-300:] if ended.raw else ""


def _plant(call: str, number: int, moment: str) -> None:
    """Kill this process at the given call of ``os``."""
    real: Callable[..., Any] = getattr(os, call)
    calls = 0

    def deadly(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and moment != "after":
            if moment == "torn":
                size = os.fstat(arguments[0]).st_size
                os.ftruncate(arguments[0], max(0, size - 1 - size % 150))  # of a temporary file, or of the last lines
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, call, deadly)
