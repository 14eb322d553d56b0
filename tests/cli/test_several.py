"""Several inputs of `segcertify certify`: files, and folders of them."""

import json

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.cli.certify import certify
from segcertify.cli.several import for_each_input

pytestmark = pytest.mark.fresh_seed

MODEL = """
import torch

def bright():
    return lambda batch: torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
"""
BRIGHT = ["--model", "python:several_models:bright", "--sigma", 0.1, "--n", 60]


@pytest.fixture
def photos(folder):
    """A folder of photographs, and something else in it."""
    (folder / "several_models.py").write_text(MODEL)
    (folder / "photos").mkdir()
    for i, name in enumerate(("a.png", "b.JPG", "c.npy")):
        pixels = np.random.default_rng(i).integers(0, 256, (16, 16, 3), np.uint8)
        if name.endswith("npy"):
            np.save(folder / "photos" / name, pixels.transpose(2, 0, 1) / 255)
        else:
            Image.fromarray(pixels).save(folder / "photos" / name)
    (folder / "photos" / "notes.md").write_text("none")
    return folder


def certificates(folder):
    return {path.parent.name: sc.Certificate.load(path) for path in sorted(folder.glob("*/certificate.safetensors"))}


def test_each_input_of_a_folder_gets_its_own_certificate(photos, segcertify):
    shown = segcertify("certify", "photos", *BRIGHT)
    found = certificates(photos / "certified")
    assert list(found) == ["a", "b", "c"]
    assert [each.input_id for each in found.values()] == ["a", "b", "c"]
    assert len({each.seed for each in found.values()}) == 3
    heads = [line for line in shown.out.splitlines() if line.endswith(":")]
    assert heads == ["photos/a.png:", "photos/b.JPG:", "photos/c.npy:"]
    assert (
        "Each of these 3 claims is false with probability at most 0.001, any of them with at most 0.003." in shown.text
    )
    exact = segcertify("certify", "photos", *BRIGHT, "--alpha", "0.00100000049", "--out", "exact").text
    assert "at most 0.00100000049, any of them with at most 0.00300001" in exact
    again = segcertify("certify", "photos", *BRIGHT)
    assert again.text.count("taken again, unchanged") == 6
    segcertify("certify", "photos/a.png", "photos/b.JPG", *BRIGHT, "--out", "mine")
    assert list(certificates(photos / "mine")) == ["a", "b"]


def test_one_input_writes_where_it_always_did(photos, segcertify):
    segcertify("certify", "photos/a.png", *BRIGHT, "--out", "mine")
    assert (photos / "mine" / "certificate.safetensors").exists()
    segcertify("certify", "photos/a.png", *BRIGHT)
    assert list(certificates(photos / "certified")) == ["a"]


def test_another_model_or_sigma_overwrites_nothing(photos, segcertify):
    segcertify("certify", "photos", *BRIGHT)
    before = {path: path.read_bytes() for path in (photos / "certified").rglob("*") if path.is_file()}
    for change in (["--sigma", 0.2], ["--model", "python:several_models:bright?scale=0.5"], ["--n", 70]):
        shown = segcertify("certify", "photos", *BRIGHT, *change, code=2)
        assert "holds votes of another run" in shown.text
        assert "another path" in shown.text
    assert before == {path: path.read_bytes() for path in (photos / "certified").rglob("*") if path.is_file()}


def test_json_is_an_object_for_each(photos, segcertify):
    text, found = segcertify("certify", "photos", *BRIGHT, "--json").out, []
    while text.strip():
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
        found, text = [*found, value["input_id"]], text.lstrip()[end:]
    assert found == ["a", "b", "c"]


def test_bad_inputs_are_refused_before_any_work(photos, segcertify):
    (photos / "none").mkdir()
    (photos / "other").mkdir()
    Image.new("RGB", (16, 16)).save(photos / "other" / "a.png")
    Image.new("L", (16, 16)).save(photos / "label.png")
    for arguments, message in (
        (["none"], "none holds no inputs: expected files that end in .jpg"),
        (["photos", "other"], "would both write to certified/a: rename one"),
        (["photos", "--label", "label.png"], "--label is the ground truth of one image, but there are 3 inputs"),
    ):
        assert message in segcertify("certify", *arguments, *BRIGHT, code=2).text
    assert not (photos / "certified").exists()


def test_the_options_stay_those_of_the_command():
    assert set(for_each_input(certify).__annotations__) == set(certify.__annotations__) - {"return"}
