"""Scenes that workers are asked about ahead: how many, in which order, and what becomes of errors."""

import threading
import time
from collections import Counter
from types import SimpleNamespace

import evaluated
import numpy as np
import pytest
import torch
from hosts import Here

from segcertify.data import load
from segcertify.errors import InputError
from segcertify.evaluation import drawing
from segcertify.evaluation.drawing import AHEAD, Drawing, Throughput, torch_threads


def bright(batch):
    return (batch.mean(1) > 0.5).long()


class Scenes:
    """Five scenes that remember how often each was read, of which some fail."""

    def __init__(self, root, fail=()):
        self.data, self.read, self.fail = load(f"pets:{evaluated.pets(root / 'pets')}"), Counter(), fail
        self.ids, self.classes = self.data.ids, self.data.classes

    def __getitem__(self, index):
        self.read[index] += 1
        if index in self.fail:
            raise InputError(f"scene {index} cannot be read")
        return self.data[index]


class Pool(Here):
    """Workers of this process that can be closed."""

    closed, news = False, "1 worker"

    def close(self):
        self.closed = True


def drawing_of(data, workers=None):
    """An evaluation without noise and attacks."""
    return Drawing(
        bright, data, SimpleNamespace(sigmas=()), None, {}, (), None, None, torch.device("cpu"), workers
    )  # fmt: skip


def advance(step):
    """No display."""


def eventually(true):
    """Whether it becomes true while threads work."""
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.001)
    return true()


def test_this_process_reads_a_scene_when_its_records_are_made(tmp_path):
    data = Scenes(tmp_path)
    for index, drawn in enumerate(drawing_of(data).scenes(range(5), (), advance)):
        assert data.read.total() == index
        assert drawn.scene().id == data.ids[index]


@pytest.mark.parametrize("slots", [1, 2])
def test_workers_are_asked_ahead_but_never_further_than_they_can_work(tmp_path, slots):
    """Scenes come in order; each is read once, and those that are known to be broken are not read at all."""
    data, broken, taken = Scenes(tmp_path), 3, []
    most, good = AHEAD * slots, [index for index in range(5) if index != broken]
    indices = (taken.append(index) or index for index in range(5))
    scenes = drawing_of(data, Pool(bright, slots)).scenes(indices, {data.ids[broken]}, advance)
    for index, drawn in enumerate(scenes):
        assert len(taken) == min(index + most + 1, 5)  # and the next, which waits for its place
        begun = [each for each in good if each < index + most]
        assert eventually(lambda begun=begun: sorted(data.read) == begun)
        if index != broken:
            assert drawn.scene().id == data.ids[index]
    assert data.read == dict.fromkeys(good, 1)


def test_workers_answer_as_this_process_does(tmp_path):
    data, workers = Scenes(tmp_path), Pool(bright, 1)
    both = (drawing_of(data, each).scenes(range(5), (), advance) for each in (None, workers))
    for here, there in zip(*both, strict=True):
        (labels, record), (same, again) = here.base(here.scene()), there.base(there.scene())
        np.testing.assert_array_equal(labels, same)
        assert evaluated.plain([record]) == evaluated.plain([again])
        assert list(there.attacks(there.scene(), again)) == []
    assert len(workers.tasks) == 5
    assert workers.closed


def test_an_error_is_raised_where_its_scene_is_asked_for(tmp_path):
    """At the step that failed and at all later ones; the scenes before and after have their answers."""
    data = Scenes(tmp_path, fail=(1,))
    found = list(drawing_of(data, Pool(bright, 3)).scenes(range(5), (), advance))
    for step in (found[1].scene, lambda: found[1].base(None), lambda: found[1].attacks(None, None)):
        with pytest.raises(InputError, match="scene 1 cannot be read"):
            step()
    assert [drawn.scene().id for drawn in found[:1] + found[2:]] == [data.ids[0], *data.ids[2:]]


def test_workers_are_closed_if_a_run_ends_early(tmp_path):
    workers = Pool(bright, 1)
    scenes = drawing_of(Scenes(tmp_path), workers).scenes(range(5), (), advance)
    next(scenes)
    assert not workers.closed
    scenes.close()
    assert workers.closed


def test_draws_are_counted_over_threads(monkeypatch):
    now, steps = [0.0], []
    monkeypatch.setattr(drawing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    speed = Throughput(Pool(bright))
    counting = speed.counting(steps.append)
    threads = [threading.Thread(target=lambda: [counting(1) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert speed() == ""  # the first second
    now[0] = 8.0
    assert (speed(), len(steps)) == ("50.0 draws/s, 1 worker", 400)
    assert Throughput(None)() == ""


def test_threads_are_as_before_whatever_happens():
    before = torch.get_num_threads()
    inside = []

    def stopped():
        with torch_threads(before + 1):
            inside.append(torch.get_num_threads())
            raise InputError("stop")

    with pytest.raises(InputError, match="stop"):
        stopped()
    assert inside == [before + 1]
    assert torch.get_num_threads() == before
