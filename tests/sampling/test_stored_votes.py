"""Votes at hand are taken again for the same question, and refused for another. No model inherits a known seed."""

import numpy as np
import pytest
import torch
from segmenters import Conv, image, stripes
from torch import nn

import segcertify as sc
from segcertify.sampling.stored_votes import StoredVotes

pytestmark = pytest.mark.fresh_seed
OTHERS = "holds votes of another run: .*not overwritten: write to another path"


class Counted(Conv):
    """A network that counts the entries it labels."""

    seen = 0

    def forward(self, batch):
        Counted.seen += len(batch)
        return super().forward(batch)


def test_asking_again_is_no_other_roll_of_the_dice_and_takes_no_new_draws(tmp_path):
    path, network = tmp_path / "votes", Counted().eval()
    first = sc.certify(network, image(), sigma=0.25, n=60, save_votes=path)
    content, Counted.seen = path.read_bytes(), 0
    again = sc.certify(network, image(), sigma=0.25, n=60, save_votes=path)
    assert Counted.seen <= 6 + 10 + 6  # the probe, the pilot's n0 draws, and a check of its batch: none of the n
    assert (again.seed, again.seed_given) == (first.seed, False)
    assert np.array_equal(again.labels, first.labels)
    lower = sc.certify(network, image(), sigma=0.25, n=60, tau=0.6, alpha=0.01, save_votes=path)  # another claim
    assert lower.seed == first.seed
    named = sc.certify(network, image(), sigma=0.25, n=60, seed=first.seed, save_votes=path)
    assert not named.seed_given  # it is the recorded one, which was drawn after input and model
    assert path.read_bytes() == content


def test_the_draws_of_a_function_are_made_again(tmp_path):
    """It is known by a few answers alone: another function must inherit neither votes nor a seed it was made for."""
    path, x = tmp_path / "votes", image() + 3  # the probe's input lies in [0, 1]
    first = sc.certify(stripes, x, sigma=0.25, n=60, save_votes=path)
    content = path.read_bytes()
    again = sc.certify(stripes, x, sigma=0.25, n=60, save_votes=path)
    assert (again.seed, again.seed_given) == (first.seed, True)
    assert np.array_equal(again.labels, first.labels)

    def other_where_the_probe_does_not_look(batch):
        return torch.where(batch > 4.3, 0, stripes(batch))

    with pytest.raises(sc.InputError, match="the same draws give other c"):
        sc.certify(other_where_the_probe_does_not_look, x, sigma=0.25, n=60, save_votes=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("function", [True, False])
def test_votes_that_a_look_ended_serve_laxer_claims_and_no_stricter_ones(tmp_path, function):
    path, model = tmp_path / "votes", stripes if function else Conv().eval()
    arguments = {"model": model, "x": image(), "sigma": 0.25, "n": 400, "looks": 4, "save_votes": path}
    first = sc.certify(**arguments, until=0.1)
    assert first.saved > 0
    content = path.read_bytes()
    assert np.array_equal(sc.certify(**arguments, until=0.05).labels, first.labels)
    with pytest.raises(sc.InputError, match=rf"a look ended after {first.n} of 400 draws, too early for what is asked"):
        sc.certify(**arguments, until=lambda votes: votes.n == 400)
    assert path.read_bytes() == content


def test_votes_of_another_question_are_refused_and_stay(tmp_path):
    path, network = tmp_path / "votes", Conv().eval()
    arguments = {"model": network, "x": image(), "sigma": 0.25, "n": 60, "save_votes": path, "preprocessing": {"a": 1}}
    sc.certify(**arguments)
    content, half = path.read_bytes(), np.arange(192).reshape(12, 16) < 96
    others = {
        "their n was 60, now it is 61": {"n": 61}, "different n0: 10 and 11": {"n0": 11},
        "different noise": {"sigma": 0.24}, "different input_id": {"input_id": "b"}, "different masks": {"mask": half},
        "different input_digest": {"x": image(1)}, "of different models": {"model": Conv(classes=6).eval()},
        "their seed was .*, now it is 3": {"seed": 3}, "their pre-processing was": {"preprocessing": {"a": 2}},
        "their pre-processing was .*, now it is None": {"preprocessing": None},
    }  # fmt: skip
    for message, changes in others.items():
        with pytest.raises(sc.InputError, match=OTHERS) as found:
            sc.certify(**arguments | changes)
        found.match(message)
        assert path.read_bytes() == content, message


def test_a_network_that_changed_where_the_probe_does_not_look_is_refused(tmp_path):
    """It could have been trained on the draws of the seed that the file of votes reveals."""

    class Patched(Conv):
        """A change above 9, which no noisy copy of the fixed probe reaches."""

        def __init__(self, shift):
            super().__init__()
            self.shift = nn.Parameter(torch.tensor(shift))

        def forward(self, batch):
            return super().forward(batch) + self.shift * (batch.amax(1, keepdim=True) > 9)

    def certified(shift):
        torch.manual_seed(0)
        return sc.certify(Patched(shift).eval(), image(), sigma=0.25, n=60, save_votes=tmp_path / "votes")

    first = certified(0.0)
    assert certified(0.0).seed == first.seed
    with pytest.raises(sc.InputError, match=OTHERS):
        certified(1.0)


def test_other_code_around_the_same_weights_is_found_by_the_pilot(tmp_path):
    class Network(Conv):
        flipped = False

        def forward(self, batch):
            logits = super().forward(batch)
            return torch.where(batch[:, :1] > 0.9, logits.flip(1), logits) if self.flipped else logits

    network, x = Network().eval(), image() + 1  # the probe's input lies in [0, 1]
    noise = sc.Gaussian(0.01)
    sc.certify(network, x, noise=noise, n=60, save_votes=tmp_path / "votes")
    Network.flipped = True
    with pytest.raises(sc.InputError, match=r"give other candidates now|of different models"):
        sc.certify(network, x, noise=noise, n=60, save_votes=tmp_path / "votes")


def test_votes_without_the_counts_of_all_classes_are_not_taken_where_these_are_asked_for(tmp_path):
    """Votes with counts are, also where none are asked for."""
    for name, model in (("network", Conv().eval()), ("function", stripes)):
        plain, whole = tmp_path / name, tmp_path / f"{name}-counts"
        settings = {"sigma": 0.25, "n": 60, "seed": 0}
        sc.certify(model, image(), **settings, save_votes=plain)
        content = plain.read_bytes()
        with pytest.raises(sc.InputError, match=r"holds votes without the counts of all classes, .* another path"):
            sc.certify(model, image(), **settings, save_votes=plain, counts=True)
        assert plain.read_bytes() == content

        sc.certify(model, image(), **settings, save_votes=whole, counts=True)
        content = whole.read_bytes()
        for counts in (True, False):
            sc.certify(model, image(), **settings, save_votes=whole, counts=counts)
        assert whole.read_bytes() == content


def test_a_function_whose_other_classes_have_other_counts_is_refused(tmp_path):
    """Its candidates and their counts are the stored ones, but sets are certified by the counts of all."""
    x, settings = torch.full((6,), 3.0), {"sigma": 0.25, "n": 60, "seed": 0, "save_votes": tmp_path / "votes"}
    sc.certify(lambda batch: (batch > 3.2).long(), x, **settings, counts=True)
    with pytest.raises(sc.InputError, match=OTHERS) as found:
        sc.certify(lambda batch: 2 * (batch > 3.2).long(), x, **settings, counts=True)
    found.match("other counts of the other classes")


def test_a_damaged_file_is_neither_believed_nor_replaced(tmp_path):
    path = tmp_path / "votes"
    sc.certify(Conv().eval(), image(), sigma=0.25, n=60, save_votes=path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(sc.InputError, match=r"does not agree with its integrity digest.* or delete it"):
        sc.certify(Conv().eval(), image(), sigma=0.25, n=60, save_votes=path)
    assert path.read_bytes() == content


def test_without_a_path_there_is_nothing():
    assert StoredVotes(None).votes is StoredVotes(None).seed is None
