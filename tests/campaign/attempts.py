"""One attempt: a command line in a forked process, with limits, and what it did."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.world import World

SECONDS, BYTES = 5.0, 2 * 2**30
"""More processor time, and more memory, are findings."""
WALL = 120.0
"""After so many seconds an attempt is killed, though a busy machine is no finding: the processor time decides."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. ``code`` is negative if a signal ended it."""

    code: int
    out: str
    err: str
    seconds: float
    peak: int
    changed: tuple[str, ...]

    def finding(self, *, seconds: float = SECONDS) -> tuple[str | None, str]:
        """The kind of defect, if it is one, and what shows it. ``seconds`` of processor time are allowed."""
        last = next((line for line in reversed(self.err.splitlines()) if line.strip()), "")
        if self.changed:
            return "ran", f"changed outside the working folder: {', '.join(self.changed[:3])}"
        if self.code in (-signal.SIGKILL, -signal.SIGXCPU) or self.seconds > seconds:
            return "hanging", f"{self.seconds:.1f} s, code {self.code}: {last}"
        if "Traceback (most recent call last)" in self.err or self.code not in (0, 1, 2):
            return "raw", f"code {self.code}: {last}"
        if self.peak > BYTES:
            return "memory", f"{self.peak / 2**30:.1f} GiB"
        return None, ""


def forked(world: World, action: Callable[[], None]) -> Outcome:
    """Do something in a child process, in the working folder of a world."""
    before = world.outside()
    files = [world.outer / "temp" / name for name in ("stdout", "stderr")]
    pid = os.fork()
    if not pid:
        _child(world, files, action)
    status, used = _waited(pid)
    out, err = (file.read_bytes().decode(errors="replace") for file in files)
    for file in files:
        file.unlink()
    after = world.outside()
    changed = world.changed(before, after)
    peak = used.ru_maxrss * 1024
    return Outcome(os.waitstatus_to_exitcode(status), out, err, used.ru_utime + used.ru_stime, peak, changed)


def _child(world: World, files: list[Path], action: Callable[[], None]) -> None:
    code = 70
    try:
        for number, file in enumerate(files, start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**28, 2**28))
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
        os.environ |= {
            "HOME": str(world.outer / "home"),
            "TMPDIR": str(world.outer / "temp"),
            "COLUMNS": "100",
            "HF_HUB_OFFLINE": "1",
        }
        os.chdir(world.work)
        try:
            action()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()  # a real process ends with 1 here: 70 tells it from a refuted certificate
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _waited(pid: int) -> tuple[int, resource.struct_rusage]:
    end = time.monotonic() + WALL
    pause = 0.001
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return status, used
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def command(arguments: list[str]) -> Callable[[], None]:
    """The program itself with these arguments, as an entry point starts it."""

    def run() -> None:
        from segcertify.cli import main

        sys.argv = ["segcertify", *arguments]
        main()

    return run
