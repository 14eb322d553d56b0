"""`segcertify attack`."""

import re

import numpy as np
import pytest
from browser import data_of, unpacked
from PIL import Image

import segcertify as sc

pytestmark = pytest.mark.fresh_seed

MODELS = """
import torch

def steep(by=40.0):
    def model(batch):
        score = float(by) * (torch.nn.functional.avg_pool2d(batch.mean(1, keepdim=True), 5, 1, 2) - 0.25)[:, 0]
        return torch.stack([torch.zeros_like(score), score], 1)
    return model

def fragile():
    def model(batch):
        score = 40 * (batch.mean(1) - 0.25)
        return torch.stack([torch.zeros_like(score), score], 1)
    return model

def labels():
    return lambda batch: (batch.mean(1) > 0.25).long()

def fails():
    return lambda batch: batch @ batch

def five():
    return lambda batch: batch.mean(1, keepdim=True).repeat(1, 5, 1, 1)
"""


def test_labels_that_the_model_does_not_have_are_refused_before_the_work(segcertify, tmp_path):
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(tmp_path / "photo.png")
    Image.fromarray(np.full((16, 16), 11, np.uint8)).save(tmp_path / "label.png")
    models = ["--model", "pets", "--non-robust", "pets"]
    said = segcertify("attack", "photo.png", *models, "--label", "label.png", code=2).text
    assert "label.png, pixel (0, 0), holds the value 11, which is neither a class nor ignored (allowed: 0 .. 2" in said
    assert "ignore the value (ignore=11, in certify --ignore 11) if it stands for no ground truth" in said
    assert "With probability" not in said


@pytest.fixture
def files(folder):
    """A photograph with its ground truth, and models."""
    (folder / "models.py").write_text(MODELS)
    ramp = np.linspace(0.1, 0.6, 24) + 0.05 * np.random.default_rng(0).random((3, 16, 24))
    pixels = (ramp.transpose(1, 2, 0) * 255).astype(np.uint8)
    Image.fromarray(pixels).resize((48, 32)).save(folder / "photo.png")
    label = np.zeros((32, 48), np.uint8)
    label[:, 15:] = 1
    label[:3] = 255
    Image.fromarray(label).save(folder / "label.png")
    return folder


@pytest.fixture
def attack(files, segcertify):
    """The command on the photograph, with further options."""
    models = ["--model", "python:models:steep", "--non-robust", "python:models:fragile", "--steps", "5"]
    return lambda *options, code=0: segcertify("attack", "photo.png", *models, *options, code=code)


def test_the_command(files, segcertify, attack):
    shown = attack("--label", "label.png", "--short-side", "16", "--loss", "segpgd").text
    assert "With probability at least 1 - 0.001" in shown
    for name in ("non-robust base model", "robust base model", "smoothed model"):
        assert name in shown
    assert "Attacks within l2 norm 0.1686" in shown
    assert "No certified pixel of the smoothed model moved, under any of the three attacks." in shown
    out = files / "attacked" / "photo"
    assert {file.name for file in out.iterdir()} == {
        "attacked.png", "attacked.html", "certificate.safetensors", "votes.safetensors",
    }  # fmt: skip
    data = data_of(out / "attacked.html")
    said = [*data["attacked"].values()]
    assert [each.partition(":")[0] for each in said] == [
        "non-robust, attacked", "robust, attacked", "smoothed, attacked",
    ]  # fmt: skip
    assert re.fullmatch(r".*: [1-9][0-9.]*% of its labels changed", said[0])
    assert said[2].endswith(f": 0 of {data['sentence'].split(' of 384 pixels')[0].split()[-1]} certified labels moved")
    clean, attacked = (unpacked(data["labels"][key]) for key in ("prediction", "attacked-0"))
    assert (clean != attacked).any()
    assert sc.Certificate.load(out / "certificate.safetensors").labels.shape == (16, 24)
    arguments = ["audit", out / "certificate.safetensors", "--model", "python:models:steep", "--input", "photo.png"]
    assert "No violation" in segcertify(*arguments, "--short-side", "16", "--n", "100", "--steps", "2").out


def test_beyond_the_radius_nothing_is_promised(attack):
    shown = attack("--radius", "3", "--short-side", "16", "--out", "far").text
    assert "beyond the certified radius of 0.1686: there nothing is promised" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--loss", "mse"], "unknown loss 'mse'"),
        (["--radius", "-1"], "radius must be positive, but got -1.0"),
        (["--short-side", "0"], "--short-side must be an integer not less than 1"),
        (["--tau", "0.5", "--short-side", "8"], "tau=0.5 certifies no radius to attack within: give --radius, or a"),
        (["--non-robust", "python:models:fails", "--short-side", "16"], "error: the model failed, RuntimeError"),
        (["--copies", "0"], "--copies must be an integer not less than 1"),
        (["--steps", "0"], "--steps must be an integer not less than 1"),
        (
            ["--non-robust", "python:models:five", "--short-side", "16"],
            "the robust model has 2 classes and the non-robust 5",
        ),
        (
            ["--non-robust", "python:models:labels", "--short-side", "16"],
            "needs logits, but the model gave torch.int64",
        ),
    ],
)
def test_bad_input(files, attack, options, message):
    assert message in attack(*options, code=2).text
    assert not (files / "attacked").exists()


def test_only_images_are_attacked(files, segcertify):
    np.save(files / "cloud.npy", np.zeros((9, 3)))
    models = ["--model", "python:models:steep", "--non-robust", "python:models:steep"]
    shown = segcertify("attack", "cloud.npy", *models, code=2).text
    assert "an image is attacked, but cloud.npy holds an array or a cloud" in shown


def test_attack_and_certify_agree_on_an_image(files, segcertify, attack):
    """The same file, settings and seed: the same draws, and so the same labels."""
    settings = ["--short-side", "16", "--seed", "5", "--n", "60", "--sigma", "0.25"]
    attack(*settings)
    segcertify("certify", "photo.png", "--model", "python:models:steep", *settings)
    found, again = (
        sc.Certificate.load(files / folder / "photo" / "certificate.safetensors")
        for folder in ("attacked", "certified")
    )
    assert 0 < again.certified < again.N
    assert np.array_equal(found.labels, again.labels)
    same = ("seed", "input_id", "input_digest", "input_shape", "model", "preprocessing", "radius", "noise", "n", "n0")
    for name in same:
        assert getattr(found, name) == getattr(again, name), name
    assert found.command.startswith("segcertify attack photo.png --model")
    assert again.command.startswith("segcertify certify photo.png --model")


def test_json(attack):
    found = attack("--short-side", "16", "--json").json
    assert found["certificate"]["N"] == 16 * 24
    assert list(found["attacks"]) == ["non-robust base model", "robust base model", "smoothed model"]
    assert all(each["moved_significantly"] == 0 for each in found["attacks"].values())
    assert "No certified pixel" in found["verdict"]
