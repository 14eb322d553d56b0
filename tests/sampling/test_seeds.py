"""Seeds: without a given one every call draws its own, which the votes record and which reproduces them."""

import secrets

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

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
def test_one_smoothed_model_notices_other_weights_and_attributes(tmp_path):
    """The seed, the probe and the identity belong to the weights as they are, also after a change in place."""
    network = Conv().eval()
    smooth = sc.Smooth(network, sigma=0.25)
    first, again = (smooth.certify(image(), n=60, save_votes=tmp_path / "votes") for _ in range(2))
    assert again.seed == first.seed
    with torch.no_grad():
        next(network.parameters()).mul_(-1)
    with pytest.raises(sc.InputError, match="holds votes of another run"):
        smooth.certify(image(), n=60, save_votes=tmp_path / "votes")
    other = smooth.certify(image(), n=60, save_votes=tmp_path / "others")
    assert other.seed != first.seed
    assert other.model["weights"] != first.model["weights"]
    network.knows = 3
    with pytest.raises(sc.InputError, match="holds votes of another run"):
        sc.Smooth(network, sigma=0.25).certify(image(), n=60, save_votes=tmp_path / "others")
