"""Processes of this machine: an evaluation gives the same records and votes, whatever happens to them."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import evaluated
import numpy as np
import pytest
from engine_runs import descendants, driver, evaluated_in, files, gone, is_running, wait_for
from shared_models import Harmful, Parts, Slow, small_network

import segcertify as sc
from segcertify.data import load
from segcertify.engines import Engine
from segcertify.engines.processes import ProcessWorker
from segcertify.engines.source import Source, pickled
from segcertify.engines.worker import WorkerLostError
from segcertify.evaluation import AttackSettings, MetricSettings
from segcertify.records import read_records


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    return evaluated.pets(tmp_path_factory.mktemp("data") / "pets")


@pytest.fixture(scope="module")
def data(pets):
    return load(f"pets:{pets}")


def one_thread(folder):
    """A run's files, without the number of threads, which is the only other thing that engines may differ in."""
    configuration, *others = files(folder)
    return [line for line in configuration.splitlines() if '"threads"' not in line and '"digest"' not in line], *others


ASKED = {
    "metrics, attacks": {
        "metrics": MetricSettings(("accuracy", "area:1", "agreement")),
        "attack": AttackSettings(steps=2, radii=(0.1,)),
    },
    "sets": {"sets": True},
    "looks": {"settings": [(0.1, 80, 0.75)], "looks": 4, "until": 0.2},
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_images_in_two_workers(data, tmp_path, asked):
    for name, engine in {"alone": {}, "shared": {"workers": 2}}.items():
        evaluated_in(tmp_path / name, small_network(), data, **engine, **asked)
    assert one_thread(tmp_path / "shared") == one_thread(tmp_path / "alone")


def test_points_in_two_workers(tmp_path):
    clouds = load("shapes:?category=Mug&count=2&points=60")
    for name, engine in {"alone": {}, "shared": {"workers": 2}}.items():
        evaluated_in(tmp_path / name, Parts(), clouds, **engine)
    assert one_thread(tmp_path / "shared") == one_thread(tmp_path / "alone")


@pytest.mark.parametrize("harm", ["kill", "memory", "sleep"])
def test_harm_to_a_worker_changes_nothing(data, tmp_path, harm):
    """kill -9, memory that runs out, and a worker that hangs."""
    (tmp_path / "calls").mkdir()
    engine = Engine("local", 2, patience=4.0 if harm == "sleep" else 600.0)
    model = Harmful(str(tmp_path / "calls"), harm)
    evaluated_in(tmp_path / "shared", model, data, engine=engine)
    assert len(list((tmp_path / "calls").glob("harm-*"))) == 1
    evaluated_in(tmp_path / "alone", replace(model, times=0), data)
    assert one_thread(tmp_path / "shared") == one_thread(tmp_path / "alone")


def test_a_worker_that_is_lost_at_the_same_work_again_and_again_ends_the_run(data, tmp_path):
    (tmp_path / "calls").mkdir()
    model = Harmful(str(tmp_path / "calls"), "kill", after=40, times=99)
    with pytest.raises(
        sc.ModelError, match=r"workers were lost at the same work \(the last one was killed by signal 9"
    ):
        evaluated_in(tmp_path / "run", model, data, workers=1)


@pytest.mark.parametrize(("first", "second"), [("2", {}), ("", {"workers": 2})], ids=["workers first", "alone first"])
def test_a_driver_that_is_killed_is_resumed_on_the_other_engine(pets, data, tmp_path, first, second):
    with driver(pets, tmp_path / "run", workers=first) as process:
        workers = descendants(process.pid)
        assert len(workers) >= int(first or 0)
        with pytest.raises(sc.InputError, match=f"is in use by process {process.pid}"):
            evaluated_in(tmp_path / "run", Slow(0.0), data, **second)
    wait_for(lambda: gone(workers))
    before = read_records(tmp_path / "run" / "records.jsonl")
    assert len({record.id for record in before}) < len(data)
    evaluated_in(tmp_path / "run", Slow(0.0), data, **second)
    assert read_records(tmp_path / "run" / "records.jsonl")[: len(before)] == before
    evaluated_in(tmp_path / "alone", Slow(0.0), data)
    assert one_thread(tmp_path / "run") == one_thread(tmp_path / "alone")


def test_a_run_that_is_asked_to_stop_keeps_its_draws_and_ends_its_workers(pets, tmp_path):
    (tmp_path / "slow_model.py").write_text("from shared_models import Slow\n\ndef make():\n    return Slow(0.004)\n")
    command = [
        sys.executable, "-m", "segcertify", "evaluate", "--model", "python:slow_model:make", "--data", f"pets:{pets}",
        "--sigma", "0.1", "--n", "400", "--workers", "2", "--batch-size", "4", "--out", "run",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: process.poll() is not None or (tmp_path / "run" / "config.json").is_file())
    wait_for(lambda: process.poll() is not None or list((tmp_path / "run").glob("resume-*")))
    workers = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    wait_for(lambda: gone(workers))  # with them the tracker of Python's own, which ends a little after its driver
    assert "stopped by SIGINT" in said
    assert "draws" in said
    assert "Traceback" not in said


@dataclass(frozen=True, eq=False)
class Breaks:
    """A data set one of whose scenes can be read once only."""

    of: object
    name: str

    def __getattr__(self, name):
        return getattr(self.of, name)

    def __len__(self):
        return len(self.of)

    def __getitem__(self, index):
        scene, reads = self.of[index], self.__dict__.setdefault("reads", [])
        reads.append(scene.id)
        if scene.id == self.name and reads.count(self.name) > 1:
            raise sc.InputError(f"{self.name}.jpg is damaged")
        return scene


def test_a_scene_that_breaks_in_the_middle_is_refused_or_skipped(data, tmp_path):
    with pytest.raises(sc.InputError, match=r"c\.jpg is damaged \(after 2 scenes, whose records are kept"):
        evaluated_in(tmp_path / "run", small_network(), Breaks(data, "c"), workers=2)
    assert {record.id for record in read_records(tmp_path / "run" / "records.jsonl")} == {"a", "b"}
    evaluated_in(tmp_path / "run", small_network(), Breaks(data, "c"), workers=2, skip_broken=True)
    kinds = {record.id: record.kind for record in read_records(tmp_path / "run" / "records.jsonl")}
    assert [name for name, kind in kinds.items() if kind == "skipped"] == ["c"]
    assert list(kinds) == list("abcde")


def test_what_a_task_cannot_take_along_is_refused(data):
    worker = ProcessWorker(Source(""), "cpu", b"")
    with pytest.raises(sc.InputError, match=r"a metric, cannot be sent to other processes.*top of a module"):
        worker.ask(lambda host: None, (), 1.0)


def test_a_pool_of_multiprocessing_may_start_no_workers(monkeypatch):
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(daemon=True))
    with pytest.raises(sc.InputError, match="belongs to a pool of multiprocessing, where it may start no workers"):
        ProcessWorker(Source(""), "cpu").start()


def test_a_worker_without_a_model_says_so():
    worker = ProcessWorker(Source("", spec="nowhere"), "cpu")
    with pytest.raises(sc.InputError, match="nowhere"):
        worker.start()
    worker.stop()
    assert not is_running(worker.process.pid)


def test_a_worker_that_is_stopped_while_it_starts_does_not_stay():
    worker = ProcessWorker(Source("", spec="pets"), "cpu")
    worker.stop()
    with pytest.raises(WorkerLostError, match="was stopped"):
        worker.start()
    assert not is_running(worker.process.pid)


def test_a_worker_that_takes_no_message_is_lost():
    """One that hangs between two tasks: what is sent to it fills the pipe, and nothing comes back."""
    worker = ProcessWorker(Source(""), "cpu", pickled(Slow(0.0)))
    worker.start()
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match=r"gave no answer for 0\.5 s"):
        worker.ask(len, (np.zeros(2**22, np.uint8),), 0.5)
    worker.stop()
    assert not is_running(worker.process.pid)


def test_a_worker_ends_with_its_driver_in_the_middle_of_a_task():
    code = "import engine_runs; engine_runs.hang()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "at work\n"
    workers = descendants(process.pid)
    process.kill()
    process.communicate()
    assert workers
    wait_for(lambda: gone(workers))
