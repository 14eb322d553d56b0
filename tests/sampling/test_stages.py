"""The stopwatch: stages within stages, and none that nobody watches."""

import pytest
import torch

import segcertify as sc
from segcertify.sampling import stages
from segcertify.sampling.stages import Stopwatch, stage

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves on by one second whenever it is read."""
    now = iter(range(1000))
    monkeypatch.setattr(stages.time, "perf_counter", lambda: float(next(now)))


def test_a_stage_leaves_out_the_stages_inside_it(clock):
    with Stopwatch(CPU) as watch:
        with stage("model"):  # from 0 to 5
            with stage("network"):  # 1 to 2
                pass
            with stage("network"):  # 3 to 4
                pass
        with stage("noise"):  # 6 to 7
            pass
    assert watch.seconds() == {"network": 2.0, "model": 3.0, "noise": 1.0}


def test_a_stage_that_is_taken_whole_keeps_what_is_inside_it(clock):
    with Stopwatch(CPU) as watch, stage("checks", whole=True), stage("model"), stage("network"):
        pass
    assert watch.seconds() == {"checks": 1.0}


def test_an_error_ends_its_stages(clock):
    with Stopwatch(CPU) as watch:
        with pytest.raises(KeyError), stage("model"), stage("network"):
            raise KeyError
        with stage("noise"):
            pass
    assert watch.seconds()["noise"] == 1.0


def test_without_a_stopwatch_nothing_is_measured(clock):
    with stage("noise"):
        pass
    with Stopwatch(CPU) as watch:
        pass
    with stage("noise"):
        pass
    assert watch.seconds() == {}


def test_the_sampler_marks_its_stages_and_they_change_no_vote():
    x = torch.rand(1, 6, 8, generator=torch.Generator().manual_seed(0))
    settings = {"noise": sc.Gaussian(0.25), "n": 20, "n0": 5, "seed": 0}

    def model(batch):
        return torch.cat([batch, 1 - batch], 1)

    plain = sc.sample(model, x, **settings)
    with Stopwatch(CPU) as watch:
        watched = sc.sample(model, x, **settings)
    assert {"noise", "model", "labels", "counting", "checks"} == set(watch.seconds())
    assert (plain.agree == watched.agree).all()
    assert (plain.candidate == watched.candidate).all()
