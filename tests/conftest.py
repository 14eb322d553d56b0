"""Shared by all tests: one torch thread a process, and the one way a rate is tested."""

import random
import secrets
import signal

import pytest
import torch
from scipy.stats import binomtest

torch.set_num_threads(1)

FALSE_ALARM = 1e-6
"""The chance that a statistical test fails although all is well, each time it asks (seeds are fixed besides)."""


def pytest_configure():
    """No test is random by accident: drawing a seed from the operating system fails, unless it is marked fresh_seed."""
    secrets.randbits = _no_entropy


def _no_entropy(bits):
    pytest.fail("this test draws a seed from the operating system: give seed=..., or mark it fresh_seed")


@pytest.fixture(autouse=True)
def _entropy(request, monkeypatch):
    """For tests marked fresh_seed, a stand-in for the operating system: bits that only the test's name decides."""
    if request.node.get_closest_marker("fresh_seed"):
        monkeypatch.setattr(secrets, "randbits", random.Random(request.node.nodeid).getrandbits)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("cuda") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


@pytest.fixture
def usual_signals():
    """Signals that stop, as a new process has them; however a test ends, others get them as they were."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def rate_exceeds():
    """Whether ``failures`` of ``runs`` show a true rate above ``alpha`` (wrongly so with probability 1e-6)."""
    return lambda failures, runs, alpha: binomtest(failures, runs, alpha, alternative="greater").pvalue < FALSE_ALARM


@pytest.fixture
def data(tmp_path):
    """A tiny data set of images, to train on."""
    from toys import load

    return load(tmp_path / "toys")


@pytest.fixture
def no_pictures(monkeypatch):
    """A training run that draws no pictures: they have tests of their own, and take longer than a run."""
    monkeypatch.setattr("segcertify.training.log.loss_figure", lambda rows, title: None)
    monkeypatch.setattr("segcertify.training.log.save_figure", lambda figure, path: path.touch())
