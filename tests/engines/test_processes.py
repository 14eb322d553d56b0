"""Processes of this machine: an evaluation gives the same records and votes, whatever happens to them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import evaluated
import numpy as np
import pytest
import segmenters
import torch
from shared_models import Harmful, Neighbourly, Parts, brightness, small_network

import segcertify as sc
from segcertify.data import load
from segcertify.engines import Engine
from segcertify.engines.processes import ProcessWorker
from segcertify.engines.source import Source, pickled
from segcertify.engines.worker import WorkerLostError
from segcertify.sampling.tasks import Base

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
