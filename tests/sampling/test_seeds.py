"""Seeds: without a given one every call draws its own, which the votes record and which reproduces them."""

import secrets

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes
from torch import nn

import segcertify as sc
from segcertify.sampling.seeds import Seed, as_seed, fresh_seed, seed_of_run

RUN = {"noise": NOISE, "n": 40, "n0": 5}
GIVEN, RECORDED = Seed(7), Seed(8, given=False)


def test_a_fresh_seed_is_128_bits_of_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr(secrets, "randbits", lambda bits: asked.append(bits) or 2**127 + 3)
    assert fresh_seed() == Seed(2**127 + 3, given=False)
    assert asked == [128]


@pytest.mark.fresh_seed
def test_the_seed_of_a_run():
    assert seed_of_run(7) == seed_of_run(GIVEN) == GIVEN
    assert seed_of_run(None, RECORDED) == seed_of_run(8, RECORDED) == RECORDED
    assert seed_of_run(7, RECORDED) == GIVEN  # whoever resumes refuses it
    assert seed_of_run(None) != seed_of_run(None)
    assert not seed_of_run(None).given


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_bad_seeds(seed):
    with pytest.raises(sc.InputError, match="seed must be an integer"):
        as_seed(seed)


@pytest.fixture
def drawn(monkeypatch):
    """The seeds that were drawn so far: 2^127, 2^127 + 1, ..."""
    seeds = []
    monkeypatch.setattr(secrets, "randbits", lambda bits: seeds.append(2 ** (bits - 1) + len(seeds)) or seeds[-1])
    return seeds


def test_smooth_draws_a_new_seed_at_every_call(drawn):
    """Its first certificate reveals the seed, and the next input may be chosen by then."""
    smooth = sc.Smooth(stripes, sigma=0.25)
    calls = {
        "votes": lambda **how: smooth.votes(image(), n=40, n0=5, **how),
        "certify": lambda **how: smooth.certify(image(), n=60, **how),
        "predict": lambda **how: smooth.predict(image(), n=60, **how),
        "counts": lambda **how: smooth.counts(image(), n=40, **how),
        "agreement": lambda **how: smooth.agreement(image(), np.full((3, 12, 16), 21), n=40, **how),
    }
    seen = set()
    for name, call in calls.items():
        for _ in range(2):
            before = len(drawn)
            found = call()
            assert len(drawn) > before, name
            if name in ("votes", "certify"):
                assert (found.seed_given, found.seed in seen) == (False, False)
                seen.add(found.seed)
    assert repr(smooth) == "Smooth(stripes, Gaussian(sigma=0.25), seed=None)"
    assert len({smooth.counts(image(), n=40).tobytes() for _ in range(5)}) == 5


@pytest.mark.fresh_seed
def test_what_was_drawn_reproduces_the_result(tmp_path):
    """With the recorded seed, also after a file: 128 bits survive it."""
    votes = sc.sample(stripes, image(), **RUN)
    assert votes.seed >= 2**64
    assert (votes.seed_given, sc.sample(stripes, image(), **RUN).seed == votes.seed) == (False, False)
    votes.save(tmp_path / "votes")
    loaded = sc.Votes.load(tmp_path / "votes")
    assert (loaded.seed, loaded.seed_given) == (votes.seed, False)
    again = sc.sample(stripes, image(), **RUN, seed=loaded.seed)
    assert same(again, votes)
    assert again.seed_given
    assert f"seed={hex(votes.seed)}" in repr(votes)


@pytest.mark.fresh_seed
def test_every_short_form_draws_and_records_its_seed(tmp_path):
    def classify(batch):
        return (batch.mean((1, 2, 3)) > 0.5).long()

    noise = sc.Gaussian(0.001)
    forms = {
        "certify": lambda seed=None: sc.certify(stripes, image(), noise=noise, n=60, seed=seed),
        "joint_class": lambda seed=None: sc.joint_class(stripes, image(), noise=noise, n=60, seed=seed),
        "cohen.certify": lambda seed=None: sc.cohen.certify(classify, image(), noise=noise, n=60, seed=seed),
    }
    for name, form in forms.items():
        certificate = form()
        assert certificate.seed != form().seed, name
        assert not certificate.seed_given, name
        certificate.save(tmp_path / "certificate")
        loaded = sc.Certificate.load(tmp_path / "certificate")
        assert (loaded.seed, loaded.seed_given) == (certificate.seed, False), name
        again = form(seed=loaded.seed)
        assert np.array_equal(again.labels, certificate.labels), name
        assert again.seed_given, name
    assert sc.cohen.predict(classify, image(), noise=noise, n=60) in (0, 1)


@pytest.mark.fresh_seed
def test_asking_again_is_no_other_roll_of_the_dice(tmp_path):
    """With the votes of the same claim at hand, their seed is taken again; of another, a new one is drawn."""
    path = tmp_path / "votes"
    network = Conv().eval()
    first = sc.certify(network, image(), sigma=0.25, n=60, save_votes=path)
    content = path.read_bytes()
    again = sc.certify(network, image(), sigma=0.25, n=60, save_votes=path)
    assert (again.seed, again.seed_given) == (first.seed, False)
    assert path.read_bytes() == content
    lower = sc.certify(network, image(), sigma=0.25, n=60, tau=0.6, save_votes=path)  # of the same votes
    assert lower.seed == first.seed
    named = sc.certify(network, image(), sigma=0.25, n=60, seed=first.seed, save_votes=path)
    assert not named.seed_given  # it is the recorded one, which was drawn after input and model
    path.unlink()
    first = sc.certify(stripes, image(), sigma=0.25, n=60, save_votes=path)
    again = sc.certify(stripes, image(), sigma=0.25, n=60, save_votes=path)
    assert (again.seed, again.seed_given) == (first.seed, True)  # a function is known by a few answers alone
    sc.certify(stripes, image(), sigma=0.25, n=60, save_votes=path, seed=first.seed)
    content = path.read_bytes()

    def other(batch):
        return stripes(batch) + 1

    half = np.arange(576).reshape(3, 12, 16) < 288
    others = {
        "n": {"n": 61}, "n0": {"n0": 11}, "noise": {"sigma": 0.24}, "input id": {"input_id": "b"},
        "mask": {"mask": half}, "input": {"x": image(1)}, "model": {"model": other}, "given": {"seed": 3},
    }  # fmt: skip
    for name, changes in others.items():
        arguments = {"model": stripes, "x": image(), "sigma": 0.25, "n": 60, "save_votes": path} | changes
        path.write_bytes(content)
        found = sc.certify(**arguments)
        assert found.seed != first.seed, name
        assert found.seed_given == (name == "given"), name


@pytest.mark.fresh_seed
def test_a_network_that_changed_where_the_probe_does_not_look_gets_a_new_seed(tmp_path):
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
    assert certified(1.0).seed != first.seed


@pytest.mark.fresh_seed
def test_one_smoothed_model_notices_other_weights_and_attributes(tmp_path):
    """The seed, the probe and the identity belong to the weights as they are, also after a change in place."""
    network = Conv().eval()
    smooth = sc.Smooth(network, sigma=0.25)
    first, again = (smooth.certify(image(), n=60, save_votes=tmp_path / "votes") for _ in range(2))
    assert again.seed == first.seed
    with torch.no_grad():
        next(network.parameters()).mul_(-1)
    other = smooth.certify(image(), n=60, save_votes=tmp_path / "votes")
    assert other.seed != first.seed
    assert other.model["weights"] != first.model["weights"]
    network.knows = 3
    assert sc.Smooth(network, sigma=0.25).certify(image(), n=60, save_votes=tmp_path / "votes").seed != other.seed
