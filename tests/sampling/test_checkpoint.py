"""Checkpoints: a run resumes if the model's answers at the input itself are the same."""

import pytest
from segmenters import NOISE, image, same, stripes

import segcertify as sc

SETTINGS = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4}


@pytest.fixture
def finished(tmp_path):
    """The checkpoint of a run that is done."""
    path = tmp_path / "resume.safetensors"
    sc.sample(stripes, image(), **SETTINGS, checkpoint=path)
    return path


def test_it_resumes(finished):
    sizes = []

    def model(batch):
        sizes.append(len(batch))
        return stripes(batch)

    votes = sc.sample(model, image(), **SETTINGS, checkpoint=finished)
    assert sizes == [2] * 4  # the probe, and once more at the input itself
    whole = sc.sample(stripes, image(), **SETTINGS)
    assert same(votes, whole)
    assert (votes.fingerprint, votes.fingerprint_of) == (whole.fingerprint, "probe")


def test_another_model_is_refused(tmp_path):
    """Also one that differs near this input alone, and not at the fixed input of the probe."""
    path, x = tmp_path / "resume.safetensors", image() + 3

    def elsewhere(batch):
        return stripes(batch) + (batch.mean((1, 2, 3), keepdim=True) > 2)

    first = sc.sample(stripes, x, **SETTINGS, checkpoint=path)
    assert sc.sample(elsewhere, x, **SETTINGS).fingerprint == first.fingerprint
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(elsewhere, x, **SETTINGS, checkpoint=path)
