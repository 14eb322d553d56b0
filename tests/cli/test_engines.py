"""Engines of commands: where the model is, and where its draws are made."""

import pytest

import segcertify as sc
from segcertify.cli.engines import chosen_engine, devices, ready


@pytest.mark.parametrize(
    ("kind", "workers", "device", "expected"),
    [
        ("local", None, "cpu", ("cpu", "cpu")),
        ("local", 2, "cpu", ("cpu", "cpu")),
        ("ray", 2, "cuda:7", ("cpu", "cuda:7")),  # which this machine need not have
        ("ray", None, None, ("cpu", None)),
    ],
)
def test_the_model_and_its_draws_may_be_on_different_devices(kind, workers, device, expected):
    assert devices(chosen_engine(kind, workers, None, 60.0), device) == expected


def test_a_model_that_is_ready_draws_in_this_process():
    found = ready(chosen_engine("local", None, None, 60.0), "pets", "cpu", precision="bf16")
    assert (found.device, found.network.training) == ("cpu", False)
    assert found.model.precision == "bf16"
    assert not hasattr(found.network, "precision")
    with found.smoothed(sc.Gaussian(0.25), seed=3, batch_size=2) as smooth:
        assert (smooth.model, smooth.seed, smooth.batch_size) == (found.model, 3, 2)
