"""Signals: a run that gets one ends its step and saves; nothing of it is lost."""

import os
import signal

import pytest
import torch
from toys import Intervals, quick, small, trained

from segcertify.models.card import read_model
from segcertify.storage import archive
from segcertify.storage.interruption import STOPS
from segcertify.training import pool
from segcertify.training.log import read_log

pytestmark = pytest.mark.usefixtures("no_pictures", "usual_signals")
both = pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])


def signalled(data, out, monkeypatch, number, *, within, times=1):
    """A run that gets a signal within a step, and has no state but by it."""
    real, calls = pool.augment_images, []

    def during(*arguments, **options):
        calls.append(1)
        for _ in range(times if len(calls) == within else 0):
            os.kill(os.getpid(), number)
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pool, "augment_images", during)
        return trained(data, out, quick(), intervals=Intervals(2, 100, 4))


@both
def test_a_run_ends_its_step_and_goes_on_from_there(data, tmp_path, monkeypatch, number, raised):
    usual = {n: signal.getsignal(n) for n in STOPS}
    whole, out = trained(data, tmp_path / "whole", quick()), tmp_path / "parts"
    with pytest.raises(raised) as caught:
        signalled(data, out, monkeypatch, number, within=5)
    if raised is SystemExit:
        assert caught.value.code == 143
    assert {n: signal.getsignal(n) for n in STOPS} == usual
    assert archive.read(out / "resume.safetensors", kind="training", version=2)[0]["step"] == 5
    assert [row["step"] for row in read_log(out / "log.csv")] == [2, 4, 5]
    path = trained(data, out, quick(), model=small(seed=3))
    found, wanted = (read_model(file)[1].tensors for file in (path, whole))
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    logs = [{row["step"]: row["loss"] for row in read_log(file.with_name("log.csv"))} for file in (path, whole)]
    assert list(logs[0]) == [2, 4, 5, 6, 8, 10, 11]
    assert (logs[0][5] + logs[0][6]) / 2 == pytest.approx(logs[1][6], rel=1e-6)


def test_a_second_signal_does_not_wait(data, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        signalled(data, tmp_path / "out", monkeypatch, signal.SIGINT, within=5, times=2)
    assert not (tmp_path / "out" / "resume.safetensors").exists()


@both
def test_a_signal_in_the_last_step_is_raised_when_the_model_is_written(data, tmp_path, monkeypatch, number, raised):
    with pytest.raises(raised):
        signalled(data, tmp_path / "out", monkeypatch, number, within=11)
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert not (tmp_path / "out" / "resume.safetensors").exists()
