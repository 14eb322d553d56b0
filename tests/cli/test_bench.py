"""`bench`: what a certificate costs, end to end on a tiny network."""

import json

import pytest
from PIL import Image

NETWORK = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Conv2d(3, 4, 3, padding=1).eval()
"""
STAGES = ["noise", "resize", "network", "labels", "counting", "checks", "tests", "rest"]


@pytest.fixture
def model(folder):
    (folder / "tiny_network.py").write_text(NETWORK)
    return ["bench", "--model", "python:tiny_network:make?scale=0.5", "--n", 12, "--n0", 3, "--repeats", 2]


def test_the_stages_add_up(segcertify, model):
    found = segcertify(*model, "--size", "16x20", "--batch-size", 5, "--json").json
    assert list(found["stages_seconds"]) == STAGES
    assert sum(found["stages_seconds"].values()) == pytest.approx(found["instrumented_seconds"])
    assert found["total_seconds"] == sorted(found["totals_seconds"])[0] / 2 + sorted(found["totals_seconds"])[1] / 2
    assert found["ratio_to_network"] == pytest.approx(found["total_seconds"] / found["network_seconds"])
    assert found["components"] == 16 * 20
    assert found["tflop"] == pytest.approx(15 * 2 * 8 * 10 * 4 * 3 * 9 / 1e12)
    assert (found["settings"]["batch_size"], found["settings"]["input"]) == (5, [3, 16, 20])
    assert (found["machine"]["device"], found["baseline"], found["cuda_gib"]) == ("cpu", None, None)
    assert found["versions"]["torch"]


def test_beside_the_released_pipeline(segcertify, model, monkeypatch):
    monkeypatch.setattr("segcertify.bench.released.cores", lambda: 1)
    found = segcertify(*model, "--size", "16x20", "--baseline", "--pixels", 40, "--json").json["baseline"]
    assert (found["extrapolated"], found["pixels_tested"], found["processes"]) == (True, 40, 1)
    assert found["total_seconds"] == pytest.approx(sum(found["stages_seconds"].values()))
    shown = segcertify(*model, "--size", "16x20", "--baseline").text
    for text in ("Stages", "The released pipeline, re-created", "All 320 pixels", "ratio to the bare network"):
        assert text in shown


def test_an_input_of_ones_own(segcertify, model, folder):
    Image.new("RGB", (20, 16), "grey").save(folder / "photo.png")
    found = segcertify(*model, "--input", "photo.png", "--json")
    assert found.json["components"] == 320
    assert json.loads(found.out)["settings"]["model"].startswith("python:")
    assert not (folder / "certified").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "photo.png", "--size", "3x4"], "--input photo.png and --size 3x4 exclude each other"),
        (["--pixels", 5], "--pixels 5 is for the released pipeline: add --baseline"),
        (["--pixels", 0, "--baseline"], "--pixels must be an integer not less than 1"),
        (["--noise", "laplace", "--baseline"], "the released pipeline has Gaussian noise on all channels"),
        (["--n0", 0, "--baseline"], "and a pilot: leave out --noise and --n0 0"),
        (["--size", "12"], "--size takes height and width such as 360x480"),
        (["--sigma", 0], "sigma must be positive"),
        (["--repeats", 0], "repeats must be an integer not less than 1"),
        (["--precision", "int8"], "unknown precision 'int8'"),
        (["--input", "missing.png"], "missing.png"),
    ],
)
def test_bad_input(segcertify, model, options, message):
    assert message in segcertify(*model, *options, code=2).err
