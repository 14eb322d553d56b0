"""Processes of this machine: an evaluation gives the same records and votes, whatever happens to them."""

import evaluated
import numpy as np
import pytest

import segcertify as sc
from segcertify.data import load

SETTINGS = [(0.1, 60, 0.75), (0.1, 120, 0.9), (0.3, 60, 0.75)]
IMAGE = np.random.default_rng(0).random((3, 12, 16), np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(f"pets:{evaluated.pets(tmp_path_factory.mktemp('data') / 'pets')}")


def files(folder):
    """What a run has that does not depend on how long it took."""
    votes = {path.name: path.read_bytes() for path in sorted((folder / "votes").iterdir())}
    return (folder / "config.json").read_text(), evaluated.without_times(folder / "records.jsonl"), votes


def evaluated_in(folder, model, data, engine="local", **others):
    asked = {"settings": SETTINGS, "seed": 3, "batch_size": 7, "save_votes": True, **others}
    sc.evaluate(model, data, out=folder, engine=engine, **asked)
    return files(folder)
