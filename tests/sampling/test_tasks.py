"""Tasks: a worker keeps the draws of the last inputs, and each is checked once there."""

import numpy as np
import pytest
import torch
from shared_models import Parts, brightness, small_network

import segcertify as sc
from segcertify.sampling import tasks
from segcertify.sampling.inputs import input_digest
from segcertify.sampling.tasks import AnswerAtInput, Base, Compare, Count, Host, Prepare, Subject

IMAGE = np.random.default_rng(0).random((3, 12, 16), np.float32)


class Counted:
    """A model that counts the entries that it is asked about."""

    entries = 0

    def __call__(self, batch):
        self.entries += len(batch)
        return brightness(batch)


def subject(name="a", x=IMAGE, **others):
    return Subject(name, input_digest(torch.from_numpy(x)), sc.Gaussian(0.1), 3, **others)


def test_later_ranges_of_an_input_need_no_new_checks():
    model = Counted()
    host = Host(model, "cpu")
    Prepare(subject())(host, IMAGE)
    asked = []
    for start in (0, 8, 16):
        before = model.entries
        Count(subject(), "agree", start, start + 8, 8)(host, IMAGE)
        asked.append(model.entries - before)
    assert asked == [8 + 6, 8, 8]  # six entries of the first batch are asked again


def test_the_draws_of_few_inputs_are_kept():
    host = Host(brightness, "cpu")
    for index in range(tasks.INPUTS + 3):
        Count(subject(str(index)), "agree", 0, 4, 4)(host, IMAGE)
    assert len(host._draws) == tasks.INPUTS


def test_parts_add_up_to_the_counts_of_all():
    host = Host(brightness, "cpu")
    parts = [Count(subject(), "agree", *cut, 5)(host, IMAGE).counts for cut in ((0, 10), (10, 25), (25, 30))]
    whole = Count(subject(), "agree", 0, 30, 5)(host, IMAGE).counts
    np.testing.assert_array_equal(sum(part.astype(int) for part in parts), whole)


def test_an_input_of_the_same_name_but_other_numbers_is_another():
    host = Host(brightness, "cpu")
    ours = Count(subject(), "agree", 0, 20, 5)(host, IMAGE).counts
    other = 1 - IMAGE
    theirs = Count(subject(x=other), "agree", 0, 20, 5)(host, other).counts
    assert (ours != theirs).any()


def test_models_know_the_category():
    host, cloud = Host(Parts(), "cpu"), np.zeros((8, 3), np.float32)
    assert {int(Base(name)(host, cloud)[0]) for name in ("Mug", "Chair")} == {36, 12}


def darker(batch):
    return brightness(batch - 0.2)


def other_weights():
    network = small_network()
    with torch.no_grad():
        next(network.parameters())[0].add_(1e-6)
    return network


class OtherCode(torch.nn.Module):
    """A network of the same name and the same weights, which does something else with them."""

    def __init__(self, scale):
        super().__init__()
        self.layer, self._run = torch.nn.Conv2d(3, 2, 1), (lambda batch: self.layer(scale * batch))
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, batch):
        return self._run(batch)


PAIRS = {
    "functions": (brightness, darker, "its answers is"),
    "weights": (small_network(), other_weights(), "its weights is"),
    "code": (OtherCode(1.0).eval(), OtherCode(1.1).eval(), "answers to the same probe differ"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_draws_of_two_models_are_never_counted_together(pair):
    """Such as of a worker whose machine has another version of the model's code."""
    ours, theirs, why = PAIRS[pair]
    first = Prepare(subject())(Host(ours, "cpu"), IMAGE)
    asked = subject(first=first)
    labels = np.zeros((12, 16), np.int64)
    for task, arrays in ((Count(asked, "agree", 0, 4, 4), ()), (AnswerAtInput(asked), ()), (Compare(asked), (labels,))):
        task(Host(ours, "cpu"), IMAGE, *arrays)
        host = Host(theirs, "cpu")
        Prepare(subject())(host, IMAGE)  # which it has checked
        with pytest.raises(sc.InputError, match=f"workers have different models .*{why}"):
            task(host, IMAGE, *arrays)
