"""Metric certificates on the command line: `certify --metric`, `show` and `plan --share`."""

import re

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.cli.metric_certificates import DRAWS

pytestmark = pytest.mark.fresh_seed

MODEL = """
import torch

def bright():
    return lambda batch: torch.stack([0.5 - batch.mean(1), batch.mean(1) - 0.5], 1)
"""
CERTIFY = ["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", 0.1]


@pytest.fixture
def files(folder):
    """A photograph and its ground truth, in which a corner says nothing."""
    (folder / "my_model.py").write_text(MODEL)
    bright = np.random.default_rng(0).random((12, 16)) < 0.5
    Image.fromarray(np.repeat(np.where(bright, 160, 95)[..., None], 3, 2).astype(np.uint8)).save(folder / "photo.png")
    label = bright.astype(np.uint8)
    label[:2, :2] = 255
    Image.fromarray(label).save(folder / "label.png")
    return folder


def test_metrics_of_an_image(files, segcertify):
    """Two metrics of the same draws, the radius that tau gives; the same command gives the same certificates."""
    wanted = [*CERTIFY, "--label", "label.png", "--metric", "accuracy", "--metric", "area:1"]
    shown = segcertify(*wanted)
    assert "of the noisy runs have accuracy >= 0." in shown.text
    assert 'about the randomised predictor "one noisy run"' in shown.text
    assert "Each of these 2 claims holds at its own alpha, all together at 0.002" in shown.text
    out = files / "certified" / "photo"
    names = {"metric-accuracy.safetensors", "metric-area-1.safetensors", DRAWS}
    assert {file.name for file in out.iterdir()} == names
    accuracy, area = (sc.MetricCertificate.load(out / f"metric-{name}.safetensors") for name in ("accuracy", "area-1"))
    assert accuracy.radius == sc.Gaussian(0.1).radius(0.75)
    assert (accuracy.share, accuracy.n, accuracy.two_sided, area.two_sided) == (0.5, 100, False, True)
    assert "--metric accuracy" in accuracy.command
    assert accuracy.seed == area.seed
    assert not accuracy.seed_given
    again = segcertify(*wanted, "--json").json
    assert [each["bound"] for each in again["metrics"]] == [accuracy.bound, area.bound]
    assert again["metrics"][1]["upper"] == area.upper
    told = segcertify("show", out / "metric-accuracy.safetensors").text
    assert "of the noisy runs have accuracy >= 0." in told
    assert "the content agrees with its digest" in told
    assert segcertify("show", out / "metric-area-1.safetensors", "--json").json["upper"] == area.upper


def test_agreement_needs_no_ground_truth(files, segcertify):
    options = ["--metric", "agreement", "--target-radius", 0.05, "--share", 0.8, "--n", 200, "--out", "here"]
    found = segcertify(*CERTIFY, *options, "--json").json["metrics"][0]
    assert (found["metric"], found["radius"], found["share"], found["n"]) == ("agreement", 0.05, 0.8, 200)
    assert 0.5 < found["bound"] < 1
    assert "80%" in segcertify("show", "here/metric-agreement.safetensors").text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "accuracy"], "compares with ground truth, but the input has none"),
        (["--metric", "acuracy"], "unknown metric 'acuracy'"),
        (["--share", 0.5], "--target-radius and --share are for a metric"),
        (["--metric", "agreement", "--n", 20], "n=20 gives no bound .* use n >= 25"),
        (["--metric", "agreement", "--target-radius", 5], "no number of draws bounds a metric"),
    ],
)
def test_bad_options(files, segcertify, options, message):
    assert re.search(message, segcertify(*CERTIFY, *options, code=2).text)


def test_plan(segcertify):
    found = segcertify("plan", "--share", 0.8, "--sigma", 0.25, "--tau", 0.9, "--json").json
    assert (found["n_min"], found["n"], found["left_out"]) == (407, 407, 1)
    text = segcertify("plan", "--share", 0.5, "--sigma", 0.25, "--target-radius", 0.1, "--n", 300, "--two-sided").text
    assert "both sides" in text
    assert "smallest n that gives a bound" in text
    for options, message in [
        ([], "plan needs the number of components"),
        (["--share", 0.5], "needs the noise: add --sigma"),
    ]:
        assert message in segcertify("plan", *options, code=2).text
