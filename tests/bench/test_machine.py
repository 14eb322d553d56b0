"""What is said about the machine, and the peak of its matrix products."""

import pytest
import torch

import segcertify as sc
from segcertify.bench import machine

CPU = torch.device("cpu")


def test_the_machine_and_the_versions_are_named():
    found = machine.machine(CPU)
    assert found["device"] == "cpu"
    assert found["processor"]
    assert found["cores"] >= 1
    versions = machine.versions()
    assert (versions["segcertify"], versions["torch"]) == (sc.__version__, torch.__version__)
    assert set(machine.PACKAGES) < set(versions)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_peak_is_of_products_in_the_networks_type(precision, monkeypatch):
    types = []
    multiply = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, **more: types.append(a.dtype) or multiply(a, b, **more))
    name, rate = machine.peak_of_products(CPU, precision, budget=0.001)
    assert name == precision
    assert rate > 0
    assert set(types) == {torch.float32 if precision == "fp32" else torch.bfloat16}
    assert not torch.backends.cuda.matmul.allow_tf32


def test_an_unknown_precision_is_refused():
    with pytest.raises(sc.InputError, match="precision must be one of fp32, bf16, fp16, but got 'int8'"):
        machine.peak_of_products(CPU, "int8")


def test_times_and_memory_are_positive():
    assert machine.seconds(CPU, lambda: None) >= 0
    assert 0 < machine.resident_gib() < 10_000
