"""`segcertify audit`: exit code 1 for what is refuted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trees
from PIL import Image

import segcertify as sc
from segcertify.cli.metric_audits import is_metric
from segcertify.cli.set_audits import is_sets

pytestmark = pytest.mark.fresh_seed

MODEL = """
import torch

def bright():
    return lambda batch: 10 * torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

def dim():
    return lambda batch: 10 * torch.stack([batch.mean(1), 1.02 - batch.mean(1)], 1)

def grey():
    def model(batch):
        grey = 10 * batch.mean(1)
        return torch.stack([5 - grey, grey - 5, torch.full_like(grey, -90.0)], 1)
    return model
"""
BRIGHT = ["--model", "python:bright_model:bright"]


@pytest.fixture
def photo(folder, segcertify):
    """A photo, dark on the left and light on the right, with its certificate."""
    (folder / "bright_model.py").write_text(MODEL)
    ramp = np.linspace(60, 200, 16).astype(np.uint8)
    Image.fromarray(np.broadcast_to(ramp[None, :, None], (8, 16, 3)).copy()).save("photo.png")
    segcertify("certify", "photo.png", *BRIGHT, "--sigma", "0.25", "--n", "300", "--out", "certified")
    return folder / "certified" / "certificate.safetensors"


def test_a_true_certificate_and_an_edited_one(photo, segcertify):
    about = ["--input", "photo.png", *BRIGHT]
    assert "No violation" in segcertify("audit", photo, *about, "--n", "200", "--steps", "5").text
    true = sc.Certificate.load(photo)
    replace(true, tau=0.999, radius=4 * true.radius).save("edited.safetensors")
    arguments = ["audit", "edited.safetensors", *about, "--n", "500", "--steps", "10"]
    shown = segcertify(*arguments, code=1)
    assert "The certificate is refuted" in shown.text
    assert "attack on component" in shown.out
    found = segcertify(*arguments, "--json", code=1).json
    assert found["refuted"] is True
    assert "The certificate is refuted" in found["verdict"]
    assert sum(each["violations"] for each in found["perturbed"]) > 0


def test_true_sets_and_edited_ones(photo, segcertify):
    """At a component in the dark, where the label is certain, a set without it is found."""
    about = ["--input", "photo.png", *BRIGHT]
    segcertify("certify", "photo.png", *BRIGHT, "--sigma", 0.25, "--n", 300, "--sets", "--out", "sets")
    effort = ["--n", 300, "--steps", 3]
    found = segcertify("audit", "sets/sets.safetensors", *about, *effort, "--json").json
    assert (found["refuted"], found["labels"]["refuted"]) == (False, False)
    assert found["verdict"].startswith("No violation: 128 sets at 9 inputs")
    assert is_sets(Path("sets/sets.safetensors"))
    assert not is_sets(photo)
    true = sc.SetCertificate.load("sets/sets.safetensors")
    sets, labels = true.sets.copy(), true.labels.copy()
    sets[:, 0, 0], labels[0, 0] = ~sets[:, 0, 0], -1
    replace(true, sets=sets, labels=labels).save("edited.safetensors")
    shown = segcertify("audit", "edited.safetensors", *about, *effort, code=1)
    assert "1 components have a majority label outside their set" in shown.text
    assert "give the --model and the --input" in segcertify("audit", "edited.safetensors", code=2).err
    assert "no sets" in _labels_alone(segcertify)


def _labels_alone(segcertify):
    """What an audit of the sets of a run says that has none."""
    trees.pets(Path("pets"), count=1)
    data = ["--model", "python:bright_model:grey", "--data", "pets:pets"]
    segcertify("evaluate", *data, "--sigma", 0.25, "--n", 60, "--tau", 0.75, "--votes", "--out", "run")
    return segcertify("audit", "run", *data, "--sets", code=2).err


def test_what_the_certificate_is_not_about_is_refused(photo, segcertify):
    """Another model, input or size: by what the certificate says, before any draw."""
    about = ["audit", photo, "--input", "photo.png", *BRIGHT, "--n", "200"]
    other = segcertify("audit", photo, "--input", "photo.png", "--model", "python:bright_model:dim", code=2).err
    assert "the model is not the one that was certified: its answers is" in other
    assert "Give that model" in other
    resized = segcertify(*about, "--short-side", "4", code=2).err
    assert "pre-processed otherwise than the certified one: its after is [8, 16], now it is [4, 8]" in resized
    assert "the same --short-side" in resized
    with Image.open("photo.png") as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save("photo.png")
    flipped = segcertify(*about, code=2).err
    assert "the input is not the one that was certified: its digest is" in flipped
    assert "Give the input that was certified: its id is 'photo'" in flipped


def test_the_sampler(photo, segcertify):
    assert segcertify("audit", "--sampler", photo).out.count("checks passed") == 1
    shown = segcertify("audit", "--sampler").out
    assert shown.count("checks passed") == 5
    assert "10 checks passed" not in shown
    shown = segcertify("audit", "--sampler", *BRIGHT, "--input", "photo.png").out
    assert shown.count("10 checks passed") == 3  # one more, whether the model is the same twice; no rotations
    assert "give an input for it: --input FILE" in segcertify("audit", "--sampler", *BRIGHT, code=2).err


def test_nothing_to_audit(segcertify):
    assert "give a certificate's file with the --model and the --input" in segcertify("audit", code=2).err


def test_an_evaluation(folder, segcertify):
    (folder / "bright_model.py").write_text(MODEL)
    for name in ("images", "labels"):
        (folder / "pets" / name).mkdir(parents=True)
    for i, name in enumerate("abc"):
        ramp = np.linspace(60 + 9 * i, 200, 16).astype(np.uint8)
        pixels = np.broadcast_to(ramp[None, :, None], (8, 16, 3)).copy()
        Image.fromarray(pixels).save(folder / "pets" / "images" / f"{name}.jpg", quality=95)
        Image.fromarray((pixels[..., 0] > 127).astype(np.uint8)).save(folder / "pets" / "labels" / f"{name}.png")
    about = ["--model", "python:bright_model:grey", "--data", "pets:pets"]
    settings = ["--setting", "sigma=0.25,n=200,tau=0.7", "--setting", "sigma=0.25,n=100,tau=0.75"]
    segcertify("evaluate", *about, *settings, "--votes", "--out", "run")
    arguments = ["audit", "run", *about, "--limit", "2"]
    shown = segcertify(*arguments, "--n", "200", "--steps", "2", "--setting", "sigma=0.25,n=100,tau=0.75")
    assert "0 of 2 inputs have a violation" in shown.text
    refused = segcertify(*arguments, "--correction", "bonferroni", code=2).err
    assert "the run has no correction 'bonferroni', only holm" in refused
    refused = segcertify(*arguments, "--setting", "0.25,100,0.75", code=2).err
    assert "write --setting sigma=0.25,n=100,tau=0.75 instead of" in refused


def test_a_metric_certificate_and_an_edited_one(photo, segcertify):
    """Metrics are made again by their names; ground truth of another image is another metric, and refused."""
    for name, labels in (("truth", 60), ("other", 150)):
        pixels = np.asarray(Image.open("photo.png"))[..., 0]
        Image.fromarray((pixels < labels + 67).astype(np.uint8)).save(f"{name}.png")
    settings = ["photo.png", *BRIGHT, "--sigma", "0.25", "--n", "100", "--out", "metrics"]
    segcertify("certify", *settings, "--metric", "miou", "--metric", "area:0", "--label", "truth.png")
    about = ["--input", "photo.png", *BRIGHT, "--n", "100", "--steps", "3", "--label"]
    for name in ("miou", "area-0"):
        shown = segcertify("audit", f"metrics/metric-{name}.safetensors", *about, "truth.png")
        assert "runs that kept the bound" in shown.out
        assert "No violation: 100 fresh noisy runs at each of" in shown.text
        assert "It finds with 95 % probability a perturbed input" in shown.text
    file = "metrics/metric-miou.safetensors"
    assert is_metric(file)
    assert not is_metric(photo)
    assert "made with another target" in segcertify("audit", file, *about, "other.png", code=2).err
    assert "compares with ground truth, but the input has none" in segcertify("audit", file, *about[:-1], code=2).err
    true = sc.MetricCertificate.load(file)
    replace(true, values=np.full(100, 0.999)).save("edited.safetensors")
    found = segcertify("audit", "edited.safetensors", *about, "truth.png", "--json", code=1).json
    assert found["refuted"] is True
    assert "The certificate is refuted" in found["verdict"]
    assert found["perturbed"][0]["violated"] == "yes"
    replace(true, metric="my own").save("own.safetensors")
    own = segcertify("audit", "own.safetensors", *about, "truth.png", code=2).err
    assert "cannot make the metric 'my own' again" in own
    assert "segcertify.audit.audit_metric" in own
