"""Running: a GPU that knows a kind of input begins before the model is looked at, and nothing wrong comes of it."""

import copy
from typing import ClassVar

import pytest
import torch
from segmenters import NOISE, Conv, image, same
from torch import nn

import segcertify as sc
from segcertify.sampling.draws import Draws
from segcertify.sampling.identity import Execution, identity, weights_digest
from segcertify.sampling.running import Running
from segcertify.sampling.seeds import Seed

CPU = torch.device("cpu")


class Gpu:
    """The CPU, under the name of CUDA."""

    type = "cuda"


@pytest.fixture
def smooth(monkeypatch):
    """A model that is known at one kind of input, on a CPU that passes for a GPU."""
    monkeypatch.setattr("segcertify.sampling.smooth.working_device", lambda *given: Gpu())
    monkeypatch.setattr("segcertify.sampling.running.sent", lambda x, device: x)
    monkeypatch.setattr("segcertify.sampling.running.require_ready", ready)
    found = sc.Smooth(Original(stride=2).eval(), NOISE, seed=0)
    found.votes(image(), n=20, n0=5)
    return found


class Original(Conv):
    """A model that gives a copy of itself to be run, which remembers the sizes of its batches."""

    sizes: ClassVar[list[int]] = []

    def for_sampling(self):
        made = copy.deepcopy(self)
        made.execution = Execution(identity(self), weights_digest(made), {"copied": 1})
        return made.eval()

    def forward(self, batch):
        self.sizes.append(len(batch))
        return super().forward(batch)


def ready(model, device):
    if model.training:
        raise sc.InputError("the model is in training mode")


@pytest.fixture
def begun(monkeypatch):
    """The draws that were begun before the model was looked at."""
    found = []
    begin = Draws.begin
    monkeypatch.setattr(Draws, "begin", lambda draws, **given: (found.append(draws), begin(draws, **given))[1])
    return found


def test_the_first_batch_is_begun_and_used(smooth, begun):
    smooth.model.sizes.clear()
    votes = smooth.votes(image(1), n=20, n0=5, input_id="b")
    assert len(begun) == 1
    assert sum(smooth.model.sizes) <= 25 + 12  # none is made twice, beside those that are asked again
    assert same(votes, sc.sample(smooth.model, image(1), noise=NOISE, n=20, n0=5, seed=0, input_id="b"))
    votes = smooth.votes(image(1), n=20, n0=0, input_id="b")
    assert same(votes, sc.sample(smooth.model, image(1), noise=NOISE, n=20, n0=0, seed=0, input_id="b"))
    assert len(begun) == 2


@pytest.mark.parametrize("more", [{"prefixes": (7,)}, {"first": 30}, {"looks": (10, 20)}, {"counts": True}])
def test_runs_of_all_forms_are_the_same(smooth, begun, more):
    votes = smooth.votes(image(1), n=20, n0=5, **more)
    assert same(votes, sc.sample(smooth.model, image(1), noise=NOISE, n=20, n0=5, seed=0, **more))
    assert begun


def test_an_unknown_kind_is_probed_first(smooth, begun):
    smooth.votes(image(1, (3, 10, 16)), n=20, n0=5)
    assert not begun


def test_a_run_that_goes_on_is_not_begun(smooth, begun, tmp_path):
    for _ in range(2):
        smooth.votes(image(), n=20, n0=5, checkpoint=tmp_path / "run", checkpoint_every=0)
    assert not begun


def test_a_model_that_changed_is_run_as_it_is_now(smooth, begun):
    with torch.no_grad():
        for weight in smooth.model.parameters():
            weight.mul_(-1)
    votes = smooth.votes(image(), n=20, n0=5)
    assert begun
    assert same(votes, sc.sample(smooth.model, image(), noise=NOISE, n=20, n0=5, seed=0))


def test_a_model_in_training_mode_is_refused(smooth, begun):
    """Its copy was asked, which learns nothing."""
    smooth.model.train()
    with pytest.raises(sc.InputError, match="training mode"):
        smooth.votes(image(), n=20, n0=5)
    assert begun
    assert not begun[0].model.training


def test_a_model_of_which_no_copy_is_run_is_not_asked_before_it_was_looked_at(smooth, begun, monkeypatch):
    """In training mode its batch norms would learn from what they see."""
    monkeypatch.setattr(Original, "for_sampling", lambda self: self)
    model = nn.Sequential(nn.BatchNorm2d(3), Original(stride=2)).eval()
    other = sc.Smooth(model, NOISE, seed=0)
    other.votes(image(), n=20, n0=5)
    model.train()
    before = model[0].running_mean.clone()
    with pytest.raises(sc.InputError, match="training mode"):
        other.votes(image(), n=20, n0=5)
    assert not begun
    assert torch.equal(model[0].running_mean, before)


def test_an_input_that_is_not_finite_is_refused(smooth):
    x = image()
    x[0, 2, 3] = torch.nan
    with pytest.raises(sc.InputError, match="1 entries that are NaN"):
        smooth.votes(x, n=20, n0=5)


def test_what_fails_as_it_begins_is_met_again_in_order(smooth):
    """The weights have become NaN: the model is in training mode, too, and that is said."""
    smooth.model.train()
    smooth._running._faster.forward = lambda batch: 1 / 0
    with pytest.raises(sc.InputError, match="training mode"):
        smooth.votes(image(), n=20, n0=5)
    smooth.model.eval()
    with pytest.raises(sc.InputError, match="ZeroDivisionError"):
        smooth.votes(image(), n=20, n0=5)


@pytest.mark.parametrize("batch_size", [None, 10])
def test_what_is_found_in_a_batch_that_was_begun_gets_no_second_try(smooth, begun, batch_size):
    """Only the first batch is wrong: with another seed, or once more, nobody would find it."""
    other = sc.Smooth(smooth.model, NOISE, batch_size=batch_size, seed=0)
    other.votes(image(), n=20, n0=5)
    faster, right = other._running._faster, other._running._faster.forward
    wrong = iter([lambda batch: right(batch).roll(1, 0)])
    faster.forward = lambda batch: next(wrong, right)(batch) if len(batch) > 6 else right(batch)
    with pytest.raises(sc.InputError, match="different answers"):
        other.votes(image(1), n=20, n0=0)
    assert begun


def test_a_copy_whose_weights_changed_is_refused_every_time():
    """What is known of a model belongs to the weights of which its identity could be told."""
    fast = Original(stride=2).eval().for_sampling()
    smooth = sc.Smooth(fast, NOISE, seed=0)
    fast.for_sampling = lambda: fast
    smooth.votes(image(), n=20, n0=5)
    with torch.no_grad():
        for weight in fast.parameters():
            weight.mul_(-1)
    for _ in range(2):
        with pytest.raises(sc.InputError, match="weights of an optimised model were changed"):
            smooth.votes(image(), n=20, n0=5)


def test_a_seed_is_drawn_after_the_model_was_probed():
    asked = []

    def model(batch):
        asked.append(len(batch))
        return batch.mean(1).gt(0.5).long()

    def seed():
        assert asked
        return Seed(3, given=False)

    draws = Running(model, NOISE, None).draws(image(), CPU, seed, "a")
    assert (draws.seed, draws.seed_given, draws.input_id) == (3, False, "a")
