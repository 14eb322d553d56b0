"""Workers load a spec themselves, and refuse a model with other weights than the driver's."""

import os
import pickle

import numpy as np
import pytest
import torch
from shared_models import brightness, small_network

import segcertify as sc
from segcertify.engines.source import Source, pickled
from segcertify.models import load
from segcertify.sampling.identity import identity, weights_digest
from segcertify.sampling.segmenter import base_labels, for_sampling
from segcertify.sampling.tasks import Base

IMAGE = np.random.default_rng(0).random((3, 32, 32), np.float32)


def test_a_spec_is_loaded_by_the_worker():
    model = load("pets")
    host, described = Source(weights_digest(model), "pets", folder=os.getcwd()).host("cpu")
    assert described == identity(for_sampling(model))
    np.testing.assert_array_equal(Base()(host, IMAGE), base_labels(model, torch.from_numpy(IMAGE)))


def test_precision_is_part_of_the_draws_and_not_of_the_identity():
    model = load("pets")
    host, described = Source(weights_digest(model), "pets", precision="bf16", folder=os.getcwd()).host("cpu")
    assert described == identity(for_sampling(model))
    assert type(host.model("")).__name__ == "Autocast"


def test_other_weights_are_refused():
    with pytest.raises(sc.InputError, match="a worker has another model than this process: pets has other weights"):
        Source("0123456789abcdef", "pets", folder=os.getcwd()).host("cpu")
    model, other = small_network(), small_network()
    with torch.no_grad():
        other[0].bias += 1
    with pytest.raises(sc.InputError, match="the one that was sent has other weights"):
        Source(weights_digest(model)).host("cpu", other)


def test_a_module_in_the_drivers_folder_can_be_named(tmp_path, monkeypatch):
    (tmp_path / "named_in_a_spec.py").write_text("def make():\n    return lambda batch: (batch[:, 0] > 0.5).long()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    host, _ = Source("", "python:named_in_a_spec:make", folder=str(tmp_path)).host("cpu")
    np.testing.assert_array_equal(Base()(host, IMAGE), IMAGE[0] > 0.5)


def test_models_from_python_are_pickled_or_refused():
    assert pickle.loads(pickled(brightness)) is brightness
    with pytest.raises(sc.InputError, match=r"cannot be sent to other processes.*at the top of a module"):
        pickled(lambda batch: batch)


def test_threads_are_set():
    before = torch.get_num_threads()
    try:
        Source("", threads=2).host("cpu", brightness)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
