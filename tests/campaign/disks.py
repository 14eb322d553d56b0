"""Full and read-only disks, folders that cannot be used, and models that fail; then the same command without a fault.

A call that writes fails with one of several errors, once or from then on; files reach a limit in the middle of a write;
``--out`` is what cannot be a folder; the model raises, gives NaN or exits. Each must end in words, and the command
again must leave what an undisturbed run leaves.
"""

import builtins
import errno
import io
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.campaign.findings import Tally
from tests.campaign.kills import most
from tests.campaign.runs import Bench, Ended, bench, program

CALLS = ("fsync", "replace", "open", "mkdir", "create")
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)
NAMES = ("certify", "evaluate", "train", "report", "join")
SELDOM = ("certify-metric", "certify-sets", "evaluate-metric")
"""Commands with the newer kinds of certificates, whose folders are those of the command without."""
UNUSABLE = ("file", "file/below", "x" * 256, "y" * 5000, "file/", "/proc/nothing", "/dev/null/x", "a\nb/" * 99)
MODELS = ("raise", "nan", "exit", "memory")


def run(tally: Tally, *, count: int = 400, seed: int = 0) -> None:
    """All bad folders, then faults chosen by the seed."""
    rng = random.Random(seed)
    with bench() as made:
        for name in NAMES:
            _bad_folders(tally, made, name)
        while tally.tried < count:
            name = rng.choices((*NAMES, *SELDOM), (4, 4, 4, 3, 0.5, 1.5, 1, 2))[0]
            kind = rng.choices(("call", "limit", "model"), (6, 3, 2))[0]
            if kind == "model" and program(name) not in ("certify", "evaluate"):
                continue
            how, inside = _fault(kind, name, made, rng)
            _attempt(tally, made, name, how, inside)


def _fault(kind: str, name: str, made: Bench, rng: random.Random) -> tuple[str, Callable[[], None]]:
    if kind == "limit":
        size = int(2 ** rng.uniform(0, 14))
        return f"files of at most {size} bytes", partial(_limit, size)
    if kind == "model":
        how, at = rng.choice(MODELS), rng.randint(1, 30 if program(name) == "certify" else 70)
        return f"a model that does {how} at call {at}", partial(_failing_model, how, at)
    call, error, stays = rng.choice(CALLS), rng.choice(ERRORS), rng.random() < 0.5
    calls_made = {"certify": 19, "evaluate": 60, "train": 16}.get(program(name), 8)
    number = rng.randint(1, calls_made if call in CALLS[:3] else 3)
    how = f"{errno.errorcode[error]} at {call} {number}{' and after' if stays else ''}"
    return how, partial(_plant, call, number, error, stays, made.folder / "out")


def _attempt(tally: Tally, made: Bench, name: str, how: str, inside: Callable[[], None]) -> None:
    made.reference(name)
    out = made.folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    made.asked = 0
    ended = made.start(name, out, inside=inside).wait()
    story = f"{name}, {how}"
    if _bad(ended):
        tally.add("raw", f"{story}: exit {ended.code}: {ended.text[-300:]}")
        return
    last = made.start(name, out).wait()
    if last.code:
        tally.add("raw" if last.raw else "lost", f"{story}: then exit {last.code}: {last.text[-300:]}")
    elif (found := made.difference(name, out)) is not None:
        tally.add(found[0], f"{story}: {found[1]}")
    elif made.asked > most(name, 1):
        tally.add("lost", f"{story}: {made.asked} entries were asked for instead of {most(name, 0)}")
    else:
        tally.add(None)


def _bad(ended: Ended) -> bool:
    """Whether it ended in another way than with success, or with an error in words."""
    return ended.raw or ended.code not in (0, 2) or (ended.code == 2 and "error:" not in ended.text)


def _bad_folders(tally: Tally, made: Bench, name: str) -> None:
    made.reference(name)
    (made.folder / "file").write_text("")
    before = sorted(made.folder.iterdir())
    for out in (*UNUSABLE, "." if name == "join" else "file/other"):
        ended = made.start(name, made.folder / "out", more=["--out", out]).wait()
        bad = _bad(ended) or (ended.code == 0 and out in ("file/below", "."))
        tally.add("raw" if bad else None, f"{name} --out {out[:20]!r}: {ended.text[-300:]}")
        for path in set(made.folder.iterdir()) - set(before):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _limit(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.environ["CAMPAIGN_ASKED"] = "/dev/null"  # the campaign's own file would reach the limit too
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _failing_model(how: str, at: int) -> None:
    os.environ |= {"CAMPAIGN_FAILS": how, "CAMPAIGN_AT": str(at)}


def _plant(call: str, number: int, error: int, stays: bool, out: Path) -> None:
    """Let a call of this process fail, if it is about the folder ``out``, as all that have a descriptor are."""
    calls = 0

    def failing(real: Callable[..., Any], concerns: Callable[..., bool]) -> Callable[..., Any]:
        def call_or_fail(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            if concerns(*arguments, **options):
                calls += 1
                if calls == number or (stays and calls > number):
                    raise OSError(error, os.strerror(error), str(arguments[0]))
            return real(*arguments, **options)

        return call_or_fail

    def below(path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(str(out))

    def writes(path: Any, mode: str = "r", *rest: Any, **options: Any) -> bool:
        return below(path) and any(letter in mode for letter in "wax+")

    def creates(path: Any, flags: int, *rest: Any, **options: Any) -> bool:
        return below(path) and bool(flags & os.O_CREAT)

    if call == "open":
        builtins.open = io.open = failing(io.open, writes)  # type: ignore[assignment]
    elif call == "create":
        os.open = failing(os.open, creates)
    else:
        concerns = (lambda *_, **options: True) if call == "fsync" else (lambda path, *_, **options: below(path))
        setattr(os, call, failing(getattr(os, call), concerns))
