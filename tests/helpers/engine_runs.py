"""Whole evaluations on an engine: what they leave, and drivers in processes of their own that are killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import evaluated
from shared_models import Slow

import segcertify as sc
from segcertify.data import load

SETTINGS = [(0.1, 40, 0.75), (0.1, 80, 0.9), (0.3, 40, 0.75)]
PATIENCE = 120
DRIVER = "import sys, engine_runs; engine_runs.drive(*sys.argv[1:])"


def files(folder):
    """What a run leaves that does not depend on how long it took."""
    votes = {path.name: path.read_bytes() for path in sorted((folder / "votes").iterdir())}
    assert not list(folder.glob("resume-*"))
    return (folder / "config.json").read_text(), evaluated.without_times(folder / "records.jsonl"), votes


def evaluated_in(folder, model, data, **others):
    """`files` of an evaluation."""
    asked = {"settings": SETTINGS, "seed": 3, "batch_size": 7, "save_votes": True, **others}
    sc.evaluate(model, data, out=folder, **asked)
    return files(folder)


def drive(root, out, engine, workers, address):
    """The work of a driver: a slow evaluation of the pets in a folder."""
    chosen = sc_engine(engine, workers, address)
    evaluated_in(Path(out), Slow(0.004), load(f"pets:{root}"), engine=chosen)


def hang():
    """The work of a driver whose worker never answers."""
    from segcertify.engines.processes import ProcessWorker
    from segcertify.engines.source import Source, pickled

    worker = ProcessWorker(Source(""), "cpu", pickled(Slow(0.0)))
    worker.start()
    worker.ask(say, (), 600)


def say(host):
    """A task that says that it has begun, and takes for ever."""
    print("at work", flush=True)
    time.sleep(600)


def sc_engine(engine, workers, address):
    """An engine from texts, of which an empty one stands for nothing."""
    from segcertify.engines import Engine

    return Engine(engine, int(workers) if workers else None, address or None)


@contextmanager
def driver(root, out, engine="local", workers="2", address=""):
    """A driver at work, with one scene recorded; it is killed at the end."""
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])}
    command = [sys.executable, "-c", DRIVER, str(root), str(out), engine, workers, address]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        records = out / "records.jsonl"
        wait_for(lambda: process.poll() is not None or (records.is_file() and records.read_text().count("\n") > 3))
        assert process.poll() is None, process.stderr.read().decode()
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()


def wait_for(true):
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def descendants(pid):
    """The processes that a process has started, and those that they have."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, parent = int(each.parent.name), int(each.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it has just ended
            continue
        if parent == pid:
            found += [number, *descendants(number)]
    return found


def gone(pids):
    """Whether all of these processes have ended."""
    return not any(is_running(pid) for pid in pids)


def is_running(pid):
    """Whether a process is there, and not only waits to be asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
