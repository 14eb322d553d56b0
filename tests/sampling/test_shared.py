"""Draws that workers make: the votes are those of one process, bit for bit, however they are cut."""

from dataclasses import replace
from itertools import pairwise

import hosts
import numpy as np
import pytest
import torch
from shared_models import Harmful, Neighbourly, Parts, brightness, small_network

import segcertify as sc
from segcertify.metrics.map_metrics import area
from segcertify.sampling import shared
from segcertify.sampling.metrics import MetricRecorder
from segcertify.sampling.shared import SharedSmooth
from segcertify.sampling.tasks import Count, Host

IMAGE = np.random.default_rng(0).random((3, 12, 16), np.float32)
CLOUD = np.random.default_rng(1).standard_normal((40, 6)).astype(np.float32)
XYZ = sc.Gaussian(0.2, channels=(0, 1, 2), axis=1)


def labelled(batch):
    return brightness(batch).argmax(1)


def same(a, b):
    """Whether votes are equal in all that they hold."""
    for name in ("candidate", "agree", "counts", "pilot_counts", "mask"):
        ours, theirs = getattr(a, name), getattr(b, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            np.testing.assert_array_equal(ours, theirs)
    for name in ("n", "n0", "seed", "draws", "fingerprint", "model", "input_digest", "classes", "looks"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.earlier.keys() == b.earlier.keys()
    for m, agree in a.earlier.items():
        np.testing.assert_array_equal(agree, b.earlier[m])


@pytest.mark.parametrize(("slots", "pace"), [(1, None), (3, None), (3, 1e-4)])
@pytest.mark.parametrize(
    ("model", "x", "noise", "asked"),
    [
        (small_network(), IMAGE, sc.Gaussian(0.2), {"n": 53, "prefixes": (10, 33)}),
        (small_network(), IMAGE, sc.Gaussian(0.2), {"n": 41, "first": 5, "counts": True}),
        (small_network(), IMAGE, sc.Gaussian(0.2), {"n": 41, "n0": 0, "counts": True}),
        (labelled, IMAGE, sc.Laplace(0.2), {"n": 30, "n0": 4, "counts": True}),
        (brightness, IMAGE, sc.Gaussian(0.2), {"n": 60, "looks": (20, 40, 60), "until": lambda votes: votes.n >= 40}),
        (Parts("Mug"), CLOUD, XYZ, {"n": 50, "mask": np.arange(40) % 3 > 0}),
    ],
    ids=["images", "range", "no pilot", "labels", "looks", "points"],
)
def test_votes_are_those_of_one_process(model, x, noise, asked, slots, pace):  # noqa: PLR0917
    alone = sc.Smooth(model, noise, seed=3, batch_size=7).votes(x, input_id="a", **asked)
    smooth = SharedSmooth(hosts.Here(model, slots), model, noise, seed=3, batch_size=7)
    if pace:
        smooth.pace[torch.from_numpy(x).shape] = pace
    same(alone, smooth.votes(x, input_id="a", **asked))


def test_ranges_are_whole_batches_and_few_are_asked_for_ahead(monkeypatch):
    monkeypatch.setattr(shared, "RANGE_SECONDS", 1e-9)
    workers = hosts.Here(brightness, slots=2)
    SharedSmooth(workers, brightness, sc.Gaussian(0.1), seed=0, batch_size=4).votes(IMAGE, n=50, n0=6, prefixes=(10,))
    ranges = [(each.start, each.stop) for each in workers.tasks if isinstance(each, Count) and each.phase == "agree"]
    assert ranges == [(0, 4), (4, 8), (8, 10), *pairwise(range(10, 51, 4))]
    assert workers.most <= workers.slots + 1


def test_a_fast_model_gets_long_ranges_that_end_together():
    workers = hosts.Here(brightness, slots=2)
    smooth = SharedSmooth(workers, brightness, sc.Gaussian(0.1), seed=0, batch_size=4)
    smooth.pace[torch.Size(IMAGE.shape)] = 1e-6
    smooth.votes(IMAGE, n=40, n0=4)
    assert [each.stop for each in workers.tasks if isinstance(each, Count)] == [4, 20, 32, 36, 40]


@pytest.mark.parametrize(("each", "draws"), [(0.1, 48), (0.5, 8), (9.0, 4)])
def test_ranges_take_five_seconds_by_the_pace_of_those_before(monkeypatch, each, draws):
    """Whole batches of 4, at least one: what a lost worker costs, and how much of a run that stops is lost."""
    timed = Count.__call__
    monkeypatch.setattr(
        Count, "__call__", lambda task, *given: replace(timed(task, *given), seconds=each * (task.stop - task.start))
    )
    workers = hosts.Here(brightness, slots=1)
    SharedSmooth(workers, brightness, sc.Gaussian(0.1), seed=0, batch_size=4).votes(IMAGE, n=400, n0=4)
    sizes = [each.stop - each.start for each in workers.tasks if isinstance(each, Count) and each.phase == "agree"]
    assert set(sizes[2:-1]) == {draws}  # two were asked for before one was done


def test_the_model_is_checked_in_the_workers():
    workers = hosts.Here(Neighbourly())
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        SharedSmooth(workers, Neighbourly(), sc.Gaussian(0.1), seed=0, batch_size=8).votes(IMAGE, n=20)


def test_cross_talk_that_only_large_batches_have_is_found_in_the_workers():
    def harmless_in_pairs(batch):
        return brightness(batch + 0.3 * batch.mean(0, keepdim=True)) if len(batch) > 2 else brightness(batch)

    workers = hosts.Here(harmless_in_pairs)
    with pytest.raises(sc.InputError, match="different answers"):
        SharedSmooth(workers, harmless_in_pairs, sc.Gaussian(0.1), seed=0, batch_size=8).votes(IMAGE, n=20)


def test_what_the_checks_warn_of_is_said_once_by_the_driver():
    x = IMAGE * 255
    smooth = SharedSmooth(hosts.Here(brightness), brightness, sc.Gaussian(0.1), seed=0)
    with pytest.warns(UserWarning, match="255"):
        smooth.votes(x, n=4)
    smooth.votes(x, n=4, input_id="other")  # warnings are errors here


def test_memory_that_runs_out_halves_the_batch_for_all_later_ranges(monkeypatch, tmp_path):
    monkeypatch.setattr(shared, "RANGE_SECONDS", 1e-9)
    model = Harmful(str(tmp_path), "memory", after=12)
    workers = hosts.Here(model, slots=1)
    votes = SharedSmooth(workers, model, sc.Gaussian(0.1), seed=0, batch_size=8).votes(IMAGE, n=60)
    sizes = [each.batch_size for each in workers.tasks if isinstance(each, Count)]
    assert set(sizes) == {8, 4}
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_array_equal(votes.agree, sc.sample(brightness, IMAGE, noise=sc.Gaussian(0.1), n=60, seed=0).agree)


@pytest.mark.parametrize("first", ["alone", "shared"])
def test_a_run_that_was_stopped_goes_on_on_the_other_engine(first, tmp_path):
    model, noise = small_network(), sc.Gaussian(0.2)
    engines = {
        "alone": sc.Smooth(model, noise, seed=3, batch_size=4),
        "shared": SharedSmooth(hosts.Here(model), model, noise, seed=3, batch_size=4),
    }
    second = next(name for name in engines if name != first)
    asked = {"n": 60, "prefixes": (30,), "checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 0}
    done = []

    def stopping(step):
        done.append(step)
        if sum(done) > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engines[first].votes(IMAGE, progress=stopping, **asked)
    steps = []
    votes = engines[second].votes(IMAGE, progress=steps.append, **asked)
    assert steps[0] >= 30
    same(sc.Smooth(model, noise, seed=3, batch_size=4).votes(IMAGE, n=60, prefixes=(30,)), votes)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    asked = {"n": 20, "checkpoint": tmp_path / "run.safetensors"}
    SharedSmooth(hosts.Here(brightness), brightness, sc.Gaussian(0.1), seed=0).votes(IMAGE, **asked)

    def other(batch):
        return -brightness(batch)

    with pytest.raises(sc.InputError, match="written with another model"):
        SharedSmooth(hosts.Here(other), other, sc.Gaussian(0.1), seed=0).votes(IMAGE, **asked)


def test_metrics_are_measured_in_the_workers(tmp_path):
    found = []
    for smooth in (
        sc.Smooth(brightness, sigma=0.3, seed=1, batch_size=7),
        SharedSmooth(hosts.Here(brightness), brightness, sc.Gaussian(0.3), seed=1, batch_size=7),
    ):
        recorder = MetricRecorder([area(1)], 40)
        smooth.votes(IMAGE, n=40, watch=recorder)
        again = MetricRecorder([area(1)], 40)  # of a run that had counted all draws before
        found += [recorder.values(smooth.draws(IMAGE)), again.values(smooth.draws(IMAGE))]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    assert len(np.unique(found[0])) > 3


def test_counts_agreement_and_certificates(tmp_path):
    alone = sc.Smooth(brightness, sigma=0.2, seed=1)
    smooth = SharedSmooth(hosts.Here(brightness), brightness, sc.Gaussian(0.2), seed=1)
    np.testing.assert_array_equal(smooth.counts(IMAGE, n=30), alone.counts(IMAGE, n=30))
    labels = np.zeros((12, 16), int)
    np.testing.assert_array_equal(smooth.agreement(IMAGE, labels, n=30), alone.agreement(IMAGE, labels, n=30))
    ours = smooth.certify(IMAGE, tau=0.75, n=60, save_votes=tmp_path / "votes.safetensors")
    np.testing.assert_array_equal(ours.labels, alone.certify(IMAGE, tau=0.75, n=60).labels)
    again = smooth.certify(IMAGE, tau=0.75, n=60, save_votes=tmp_path / "votes.safetensors")
    np.testing.assert_array_equal(ours.labels, again.labels)


class Differing(hosts.Here):
    """Workers of which the second has another model."""

    def __init__(self, model, other):
        super().__init__(model)
        self.hosts = [self.host, Host(other, "cpu")]

    def submit(self, task, *arrays, about=""):
        found = super().submit(task, *arrays, about=about)
        self.host = self.hosts[len(self.tasks) % 2]
        return found


def test_workers_with_different_models_are_refused():
    """Half of the draws would be another model's, which the votes do not name."""
    smooth = SharedSmooth(Differing(brightness, labelled), brightness, sc.Gaussian(0.2), seed=3, batch_size=7)
    with pytest.raises(sc.InputError, match="workers have different models"):
        smooth.votes(IMAGE, n=50, input_id="a")
