"""A pool of workers: lost ones are replaced, their work is done again, and nothing waits for ever."""

import threading
import time

import pytest

import segcertify as sc
from segcertify.engines import pool as pools
from segcertify.engines.pool import Pool
from segcertify.engines.worker import WorkerLostError


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(pools, "START_AGAIN", 0.01)


class Fake:
    """A worker whose tasks are functions of it; ``starts`` says what goes wrong when workers start."""

    def __init__(self, made, starts=()):
        self.index, self.starts, self.stopped = len(made), starts, False
        made.append(self)

    def start(self):
        if self.index < len(self.starts):
            raise self.starts[self.index]
        return {"weights": "a"}

    def ask(self, task, arrays, patience):
        return task(self, *arrays)

    def stop(self):
        self.stopped = True


def lost_for(workers):
    """A task that is lost with the first so many workers that do it."""
    tried = []

    def task(worker):
        tried.append(worker)
        if len(tried) <= workers:
            raise WorkerLostError("was killed by signal 9")
        return len(tried)

    return task


def test_answers_and_errors_come_back():
    made = []
    with Pool(lambda index: Fake(made), 2, device="cpu") as pool:
        futures = [pool.submit(lambda worker, x: x + 1, index) for index in range(20)]
        assert [future.result() for future in futures] == list(range(1, 21))
        assert (pool.slots, pool.identity, pool.device) == (2, {"weights": "a"}, "cpu")

        def refused(worker):
            raise sc.InputError("x is empty")

        with pytest.raises(sc.InputError, match="x is empty"):
            pool.submit(refused).result()
        assert pool.submit(lambda worker: 7).result() == 7
    assert all(worker.stopped for worker in made)


def test_lost_work_is_done_by_another_worker_and_counts_once():
    made = []
    with Pool(lambda index: Fake(made), 1, device="cpu") as pool:
        assert pool.submit(lost_for(2)).result() == 3
        assert len(made) == 3
        assert pool.replaced == 2
        assert pool.news == "1 worker, 2 replaced"
        assert [worker.stopped for worker in made] == [True, True, False]


def test_work_at_which_every_worker_is_lost_ends_the_run():
    with Pool(lambda index: Fake([]), 1, device="cpu") as pool:
        with pytest.raises(sc.ModelError, match=r"3 workers were lost at the same work.*killed by signal 9.*patience"):
            pool.submit(lost_for(9)).result()
        assert pool.submit(lambda worker: 1).result() == 1


def test_workers_that_never_start_end_the_run():
    made = []
    starts = [WorkerLostError("ended with exit code 1")] * 9
    with Pool(lambda index: Fake(made, starts), 1, device="cpu") as pool:
        with pytest.raises(sc.InputError, match="no worker can start: the last one ended with exit code 1"):
            _ = pool.identity
        with pytest.raises(sc.InputError, match="no worker can start"):
            pool.submit(lambda worker: 1).result()
        assert len(made) == pools.TRIES


def test_a_worker_that_cannot_be_hired_ends_the_run():
    def hire(index):
        raise OSError("too many open files")

    with Pool(hire, 1, device="cpu") as pool, pytest.raises(OSError, match="too many open files"):
        pool.submit(lambda worker: 1).result(20)


def test_workers_of_which_none_comes_back_end_the_run():
    made = []
    starts = [None, *[WorkerLostError("found no place")] * 9]

    class First(Fake):
        def start(self):
            return {} if self.index == 0 else super().start()

    with Pool(lambda index: First(made, starts), 1, device="cpu") as pool:
        assert pool.identity == {}
        with pytest.raises(sc.InputError, match="no worker can start: the last one found no place"):
            pool.submit(lost_for(9)).result(20)
    assert len(made) == 1 + pools.TRIES


def test_a_slot_that_never_starts_leaves_the_work_to_the_others():
    made = []

    class Second(Fake):
        def start(self):
            if threading.current_thread().name == "worker 1":
                raise WorkerLostError("found no place")
            return super().start()

    with Pool(lambda index: Second(made), 2, device="cpu") as pool:
        for future in [pool.submit(lambda worker: time.sleep(0.01)) for _ in range(20)]:
            future.result(20)
        assert pool.news == "1 worker"


def test_a_defect_of_the_pool_itself_leaves_nobody_waiting(monkeypatch):
    monkeypatch.setattr(Pool, "_next", lambda self, last: 1 / 0)
    monkeypatch.setattr(threading, "excepthook", lambda error: None)
    with Pool(lambda index: Fake([]), 1, device="cpu") as pool, pytest.raises(sc.ModelError, match="ZeroDivisionError"):
        pool.submit(lambda worker: 1).result(20)


def test_a_model_that_is_refused_ends_the_run_at_once():
    made = []
    refused = [sc.InputError("no such model")]
    with (
        Pool(lambda index: Fake(made, refused), 1, device="cpu") as pool,
        pytest.raises(sc.InputError, match="no such"),
    ):
        _ = pool.identity
    assert len(made) == 1


def test_a_worker_that_is_lost_at_its_start_is_replaced():
    made = []
    starts = [WorkerLostError("was taken away")]
    with Pool(lambda index: Fake(made, starts), 1, device="cpu") as pool:
        assert pool.submit(lambda worker: worker.index).result() == 1


def test_tasks_about_an_input_stay_with_a_worker_and_others_help_at_the_end():
    made, go, did = [], threading.Event(), []

    def task(worker, name):
        go.wait()
        time.sleep(0.005)
        did.append((worker.index, name))

    with Pool(lambda index: Fake(made), 2, device="cpu") as pool:
        futures = [pool.submit(task, name, about=name) for name in "aabb" * 4]
        go.set()
        for future in futures:
            future.result()
    changes = sum(
        ours != theirs
        for index in (0, 1)
        for ours, theirs in zip(_names(did, index), _names(did, index)[1:], strict=False)
    )
    assert changes <= 2
    assert {index for index, _ in did} == {0, 1}


def test_many_inputs_are_not_cut_and_the_last_ones_are():
    go = threading.Event()
    with Pool(lambda index: Fake([]), 4, device="cpu") as pool:
        assert pool.share == 4
        pool.submit(lambda worker: go.wait(), about="a")
        assert pool.share == 4
        futures = [pool.submit(lambda worker: go.wait(), about=name) for name in "abcdefgh"]
        assert pool.share == 1
        go.set()
        for future in futures:
            future.result(20)


def _names(did, index):
    return [name for worker, name in did if worker == index]


def test_whoever_waits_when_the_pool_is_closed_is_told():
    begun, go = threading.Event(), threading.Event()

    def slow(worker):
        begun.set()
        go.wait()

    pool = Pool(lambda index: Fake([]), 1, device="cpu")
    first, second = pool.submit(slow), pool.submit(slow)
    begun.wait()
    threading.Timer(0.05, go.set).start()
    pool.close()
    assert first.done()
    with pytest.raises(sc.ModelError, match="the workers were stopped"):
        second.result()
    with pytest.raises(sc.ModelError, match="the workers were stopped"):
        pool.submit(slow).result()


def test_cancelled_tasks_are_not_done():
    go, did = threading.Event(), []
    with Pool(lambda index: Fake([]), 1, device="cpu") as pool:
        first = pool.submit(lambda worker: go.wait())
        while not first.running():
            time.sleep(0.001)
        cancelled = pool.submit(lambda worker: did.append("cancelled"))
        assert cancelled.cancel()
        go.set()
        pool.submit(lambda worker: did.append("last")).result()
    assert did == ["last"]


def test_a_pool_grows():
    made, both = [], threading.Barrier(2, timeout=20)
    with Pool(lambda index: Fake(made), 1, device="cpu") as pool:
        pool.grow(2)
        pool.grow(1)  # never shrinks
        assert pool.slots == 2
        for future in [pool.submit(lambda worker: both.wait()) for _ in range(2)]:
            future.result()
