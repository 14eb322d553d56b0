"""What a measurement says: plain values for JSON, and tables made from these alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from segcertify.bench import tables
from segcertify.bench.cost import STAGES, Cost
from segcertify.bench.released import SAMPLING, TESTS, Released

COST = Cost(
    9.0, (0.5, 0.4, 0.3), dict.fromkeys(STAGES, 0.0) | {"network": 0.3, "tests": 0.1}, 0.4, (0.2,), 10**12, n=98, n0=2,
    components=8, batch_size=4, certified=1, cuda_gib=1.5, resident_gib=1.0,
)  # fmt: skip
BASELINE = Released(
    dict.fromkeys((*SAMPLING, *TESTS), 5.0), 1.0, np.array([[1, -1, 2, -1], [-1, -1, -1, -1]]), draws=100,
    draws_made=100, pixels=8, pixels_tested=4, processes=16, batch_size=24, resized_by="OpenCV",
    holm_by="statsmodels", stored_gib=0.5,
)  # fmt: skip


@pytest.fixture
def values():
    """As a file of results gives them."""
    made = tables.values(
        COST, tables.Peak("fp32", 100.0), BASELINE, device=torch.device("cpu"), settings={"model": "pets"}
    )
    return json.loads(json.dumps(made, allow_nan=False))


def test_values(values):
    assert values["settings"] == {"model": "pets", "n": 98, "n0": 2, "batch_size": 4}
    assert (values["total_seconds"], values["network_seconds"], values["ratio_to_network"]) == (0.4, 0.2, 2.0)
    assert (values["tflop"], values["tflops"], values["network_tflops"], values["peak_tflops"]) == (100, 250, 500, 100)
    assert values["images_per_second"] == 2.5
    assert set(values["estimated_seconds"]) == {"100", "1000", "10000"}
    baseline = values["baseline"]
    assert (baseline["total_seconds"], baseline["ratio"], baseline["certified"]) == (40.0, 100.0, 2)
    assert (baseline["vectorised_total_seconds"], baseline["vectorised_ratio"]) == (31.0, 77.5)
    assert baseline["extrapolated"] is True


def test_tables(values):
    stages = tables.stage_table(values)
    assert [row[:3] for row in stages.rows] == [("network", "300 ms", "75.0%"), ("tests", "100 ms", "25.0%")]
    before = tables.baseline_table(values)
    assert len(before.rows) == len(SAMPLING) + len(TESTS)
    assert "extrapolated to all 8" in before.notes[0]


def test_what_is_extrapolated_is_said(values):
    made = replace(BASELINE, labels=None, draws_made=24, pixels_tested=8)
    found = tables.values(COST, tables.Peak("fp32", 1.0), made, device=torch.device("cpu"), settings={})
    assert (found["baseline"]["extrapolated"], found["baseline"]["certified"]) == (True, None)
    note = tables.baseline_table(found).notes[0]
    assert "24 of 100 draws were made, and their time extrapolated to all. All 8 pixels were tested" in note
    whole = tables.values(
        COST, tables.Peak("fp32", 1.0), replace(made, draws_made=100), device=torch.device("cpu"), settings={}
    )
    assert whole["baseline"]["extrapolated"] is False
    assert "extrapolated" not in tables.facts(whole)["released pipeline"]


def test_facts(values):
    facts = tables.facts(values)
    assert facts["one certificate"] == "400 ms (median of 3), 2.5 a second"
    assert facts["released pipeline"] == "40 s, extrapolated: 100 times ours"
    assert facts["most memory"] == "1.5 GiB on the GPU, 1.0 GiB of the process"
    assert "peak 100 in fp32" in facts["TFLOP/s"]
    assert "TFLOP/s" not in tables.facts(values | {"tflop": None, "cuda_gib": None, "baseline": None})
