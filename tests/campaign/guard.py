"""A guard around attempts: a forked worker makes them, so that a crash, a hang or a gulp of memory is a finding.

Each attempt may raise `InputError` and nothing else, take 5 seconds of the processor and 2 GiB of memory.
"""

import json
import os
import re
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

import torch

from segcertify import InputError
from tests.campaign.findings import Tally

SECONDS, MEMORY = 5.0, 2 << 30
"""What an attempt may take: seconds of processor time, bytes of memory."""
ROOM = 6 << 30
"""Beyond this many bytes of addresses an allocation fails: the machine is to survive the campaign."""
PATIENCE = 150.0
"""Seconds that an attempt may wait for something, such as the other end of a pipe, before it is killed."""


class HarnessError(Exception):
    """The campaign itself failed, before the package was asked for anything: no finding, but no result either."""


class SilentError(Exception):
    """A damaged file was believed: what it gave is not what it gave before."""


HARNESS = "harness"
"""What a worker answers when it is not the package that failed."""
Attempt = Callable[[int], Callable[[], object]]
"""From an attempt's number to what is tried. What it prepares for that, such as a file, is not measured."""


def guarded(tally: Tally, attempt: Attempt, count: int, describe: Callable[[int], str]) -> None:
    """Make ``count`` attempts, each in the worker of the one before it as long as that lives."""
    begun = 0
    while begun < count:
        begun = _watch(tally, attempt, begun, count, describe)


def _watch(tally: Tally, attempt: Attempt, begin: int, count: int, describe: Callable[[int], str]) -> int:
    """Follow one worker; returns the number of the first attempt that it did not make."""
    source, sink = os.pipe()
    worker = os.fork()
    if worker == 0:
        code = 1
        try:
            os.close(source)
            _work(attempt, range(begin, count), sink)
            code = 0
        finally:
            os._exit(code)  # whatever happened: what the parent made, such as folders, is not this process's to remove
    os.close(sink)
    number, hung = begin, False
    with os.fdopen(source, "rb") as answers:
        while number < count:
            if not select.select([answers], [], [], PATIENCE)[0]:
                hung = True
                os.kill(worker, signal.SIGKILL)
                break
            line = answers.readline()
            if not line.endswith(b"\n"):
                break
            kind, words = json.loads(line)
            if kind == HARNESS:
                os.waitpid(worker, 0)
                raise HarnessError(f"{describe(number)} could not be prepared: {words}")
            tally.add(kind, f"{describe(number)}: {words}")
            number += 1
    status = os.waitpid(worker, 0)[1]
    if number < count:
        cause = os.waitstatus_to_exitcode(status)
        kind = "hanging" if hung or cause == -signal.SIGXCPU else "raw"
        tally.add(kind, f"{describe(number)}: the process ended ({'no answer' if hung else cause})")
        number += 1
    return number


def _work(attempt: Attempt, numbers: range, sink: int) -> None:
    """The worker: one line of JSON for each attempt."""
    torch.set_num_threads(1)  # the parent's pool of threads did not come along, and would be waited for
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + ROOM, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    for number in numbers:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))  # what is prepared is not measured
        try:
            tried = attempt(number)
        except Exception as error:
            _answer(sink, (HARNESS, f"{error!r:.300} at {_place()}"))
            return
        with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the highest memory from now on
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + 2 * SECONDS) + 1, hard))
        _answer(sink, verdict(tried))


def _answer(sink: int, found: tuple[str | None, str]) -> None:
    answer = json.dumps(found).encode() + b"\n"
    while answer:
        answer = answer[os.write(sink, answer) :]


def verdict(tried: Callable[[], object]) -> tuple[str | None, str]:
    """Try it: the kind of defect, or None, and what happened in words."""
    start, kind, words = time.process_time(), None, ""
    try:
        tried()
    except InputError as error:
        words, cause = str(error), error.__context__
        while cause is not None:
            kind = "memory" if isinstance(cause, MemoryError) else kind
            cause = cause.__context__
        kind = "raw" if kind is None and not words.isprintable() and "\x1b" in words else kind
    except SilentError as error:
        kind, words = "silent", str(error)
    except MemoryError as error:
        kind, words = "memory", repr(error)
    except BaseException as error:
        kind, words = "raw", f"{type(error).__name__}: {str(error)[:200]} at {_place()}"
    seconds, bytes_used = time.process_time() - start, _status("VmHWM")
    if seconds > SECONDS:
        kind, words = "hanging", f"{seconds:.1f} s; {words}"
    if bytes_used > MEMORY:
        kind, words = "memory", f"{bytes_used / 2**30:.1f} GiB; {words}"
    return kind, re.sub(r"/[^\s']*/tmp\w+", "FOLDER", words)[:400]


def _place() -> str:
    """Where in the package, and where below it, the last exception came from."""
    trace, ours, last = sys.exc_info()[2], "", ""
    while trace is not None:
        last = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        ours = last if "segcertify" in trace.tb_frame.f_globals.get("__name__", "") else ours
        trace = trace.tb_next
    return ours if ours == last else f"{ours} ({last})"


def _status(name: str) -> int:
    """A number of /proc/self/status, in bytes; 0 where there is none."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0
