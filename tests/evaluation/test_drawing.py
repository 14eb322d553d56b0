"""Drawing: workers are asked a few scenes ahead, however long the data set is, and somebody is told how fast."""

import threading
import time
from types import SimpleNamespace

import hosts
import numpy as np
import pytest
import torch
from shared_models import brightness

import segcertify as sc
from segcertify.data import Scene
from segcertify.evaluation.drawing import AHEAD, Ahead, Drawing, Drawn, Throughput, torch_threads

SCENES = 300


class Scenes:
    """Small scenes that count how many of them are held at once."""

    def __init__(self):
        self.ids, self.classes = tuple(str(index) for index in range(SCENES)), ("dark", "bright")
        self.read, self.done, self.most = 0, 0, 0

    def __getitem__(self, index):
        self.read += 1
        self.most = max(self.most, self.read - self.done)
        if index == 7:
            raise sc.InputError("7.png is damaged")
        x = np.random.default_rng(index).random((3, 4, 5), np.float32)
        return Scene(self.ids[index], x, np.zeros((4, 5), np.int64), np.ones((4, 5), bool))


@pytest.fixture
def scenes():
    return Scenes()


def drawing(scenes, workers):
    configuration = SimpleNamespace(sigmas=())
    device = torch.device("cpu")
    return Drawing(brightness, scenes, configuration, None, {}, (), None, None, device, workers)


def test_few_scenes_are_begun_ahead(scenes):
    workers, labels = hosts.Here(brightness, slots=2), []
    for each in drawing(scenes, workers).scenes(range(8, SCENES), (), lambda step: None):
        if not labels:
            time.sleep(0.2)  # the others have time to run ahead
        labels.append(each.base(each.scene())[0])
        scenes.done += 1
    assert len(labels) == SCENES - 8
    assert 1 < scenes.most <= AHEAD * workers.slots + 1


def test_an_error_is_raised_where_its_scene_comes(scenes):
    workers = hosts.Here(brightness, slots=2)
    drawn = list(drawing(scenes, workers).scenes(range(5, 10), {"9"}, lambda step: None))
    damaged, after, known = drawn[2:]
    for step in (damaged.scene, lambda: damaged.base(None)):
        with pytest.raises(sc.InputError, match=r"7\.png is damaged"):
            step()
    assert after.scene().id == "8"
    assert (type(after), type(known)) == (Ahead, Drawn)  # nothing is asked about what is known to be broken


def test_a_run_that_ends_early_leaves_no_thread(scenes):
    before = set(scene_threads())
    drawn = drawing(scenes, hosts.Here(brightness, slots=2)).scenes(range(SCENES), (), lambda step: None)
    next(drawn)
    drawn.close()
    assert set(scene_threads()) <= before


def scene_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("scene")]


def test_throughput_is_told_in_words():
    advanced = []
    speed = Throughput(SimpleNamespace(news="2 workers"))
    speed.counting(advanced.append)(7)
    assert speed() == ""
    speed._start -= 10
    assert speed() == "0.7 draws/s, 2 workers"
    assert advanced == [7]
    alone = Throughput(None)
    alone._start -= 10
    assert alone() == ""


def test_threads_within_a_block():
    before = torch.get_num_threads()
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
