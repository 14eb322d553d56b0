"""Checkpoints of format version 1: resumed, if the model's answers at the input itself are the same."""

import numpy as np
import pytest
from headers import rewrite_header
from segmenters import NOISE, image, same, stripes

import segcertify as sc

SETTINGS = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4}


@pytest.fixture
def version_1(tmp_path):
    """The checkpoint of a run that is done, as version 1 wrote it."""
    path = tmp_path / "resume.safetensors"
    sc.sample(stripes, image(), **SETTINGS, checkpoint=path)

    def as_version_1(about):
        about["version"] = 1
        del about["header"]["fingerprint_of"]
        about["header"]["fingerprint"] = sc.Smooth(stripes, NOISE, batch_size=4).draws(image()).fingerprint_at_input()

    rewrite_header(path, as_version_1)
    return path


def test_it_resumes(version_1):
    sizes = []

    def model(batch):
        sizes.append(len(batch))
        return stripes(batch)

    votes = sc.sample(model, image(), **SETTINGS, checkpoint=version_1)
    assert sizes == [2] * 4  # the probe, and once more at the input itself
    whole = sc.sample(stripes, image(), **SETTINGS)
    assert same(votes, whole)
    assert (votes.fingerprint, votes.fingerprint_of) == (whole.fingerprint, "probe")


def test_another_model_is_refused(version_1):
    """Also one that gives the same labels everywhere but near this input."""
    far = np.abs(image().numpy() - 0.5).max() + 2

    def elsewhere(batch):
        return stripes(batch) + (abs(batch) < far).long()

    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(elsewhere, image(), **SETTINGS, checkpoint=version_1)


def test_later_states_are_of_the_new_version(tmp_path, version_1):
    """A run that was stopped: its next state has the fingerprint of the probe."""
    rewrite_header(version_1, lambda about: about["header"].update(done=40))
    sc.sample(stripes, image(), **SETTINGS, checkpoint=version_1)
    seen = []
    rewrite_header(version_1, lambda about: seen.append((about["version"], about["header"]["fingerprint_of"])))
    assert seen == [(2, "probe")]
