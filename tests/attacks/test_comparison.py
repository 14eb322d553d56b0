"""Comparisons of attacked models, their picture, and the command."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import segcertify as sc
from segcertify.attacks.comparison import compare
from segcertify.cli.attack import _verdict
from segcertify.figures.attack import attack_figure
from segcertify.sampling.segmenter import predict

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
SPACE = {}
exec(MODELS, SPACE)
ROBUST, FRAGILE = SPACE["steep"](), SPACE["fragile"]()


def picture():
    """Bright on the right, dark on the left, with a soft edge between."""
    ramp = torch.linspace(0.1, 0.6, 24).expand(3, 16, 24)
    return (ramp + 0.05 * torch.rand(3, 16, 24, generator=torch.Generator().manual_seed(0))).contiguous()


@pytest.fixture(scope="module")
def certificate():
    return sc.certify(ROBUST, picture(), sigma=0.25, tau=0.75, n=100)


@pytest.mark.parametrize("with_target", [False, True])
def test_three_attacks(certificate, with_target):
    x = picture()
    target = None
    if with_target:
        target = predict(ROBUST, x[None])[0].numpy()
        target[:2] = -1
    found = compare(ROBUST, FRAGILE, x, certificate, target=target, steps=10, radius=0.168)
    assert list(found.attacks) == ["non-robust base model", "robust base model", "smoothed model"]
    for each in found.attacks.values():
        assert 0 < np.linalg.norm((each.x.astype(float) - x.numpy()).ravel()) <= certificate.radius
        assert each.smoothed.refuted == 0
        assert each.smoothed.certified == certificate.certified > 50
    for model, each in ((FRAGILE, found.non_robust), (ROBUST, found.robust)):
        assert np.array_equal(each.clean, predict(model, x[None])[0])
        assert np.array_equal(each.labels, predict(model, torch.from_numpy(each.x)[None])[0])
        assert each.flipped == (each.clean != each.labels).sum() > 0
    figure = attack_figure(x.numpy(), found, target=target, names=("dark", "bright"))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "attacked image (l2, 0.168)"
    assert titles[2] == ("ground truth" if with_target else "no attack: the non-robust model")
    assert titles[3] == f"attacked: non-robust, {found.non_robust.flipped / 384:.1%} flipped"
    assert titles[5].startswith(f"certified: {certificate.certified / 384:.1%}, ")
    far = attack_figure(x.numpy(), dataclasses.replace(found, radius=0.5), target=target)
    assert far.axes[5].get_title().startswith("certified to 0.168: ")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[:2] == ["dark", "bright"]


def test_a_certificate_that_abstains_everywhere_leaves_nothing_to_attack():
    def unsure(batch):
        score = torch.sin(100 * batch.mean(1))  # noise decides
        return torch.stack([score, -score], 1)

    certificate = sc.certify(unsure, picture(), sigma=0.25, tau=0.75, n=100)
    assert certificate.certified == 0
    found = compare(unsure, FRAGILE, picture(), certificate, steps=5)
    assert np.array_equal(found.smoothed.x, picture())
    assert found.non_robust.flipped > 0
    assert _verdict(found).startswith("Nothing is certified")


@pytest.mark.parametrize(
    ("moved", "refuted", "said"),
    [
        (0, 0, "No certified pixel of the smoothed model moved"),
        (3, 0, "Up to 3 certified pixels had another majority, none significantly"),
        (3, 2, "Up to 2 certified pixels moved significantly. The chance of that is at most 0.004: please report it."),
    ],
)
def test_the_verdict_is_of_the_worst_attack(certificate, moved, refuted, said):
    found = compare(ROBUST, FRAGILE, picture(), certificate, steps=1)
    asked = dataclasses.replace(found.robust.smoothed, moved=moved, refuted=refuted)
    worst = dataclasses.replace(found.robust, smoothed=asked)
    still = [
        dataclasses.replace(each, smoothed=dataclasses.replace(asked, moved=0, refuted=0))
        for each in (found.non_robust, found.smoothed)
    ]
    assert _verdict(dataclasses.replace(found, non_robust=still[0], robust=worst, smoothed=still[1])).startswith(said)


def test_only_l2():
    certificate = sc.certify(ROBUST, picture(), noise=sc.Laplace(0.2), n=100)
    with pytest.raises(sc.InputError, match="in the l2 norm, but the certificate is in 'l1'"):
        compare(ROBUST, FRAGILE, picture(), certificate)


def test_labels_that_the_model_does_not_have_are_refused_before_the_work(tmp_path):
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(tmp_path / "photo.png")
    Image.fromarray(np.full((16, 16), 11, np.uint8)).save(tmp_path / "label.png")
    models = ["--model", "pets", "--non-robust", "pets-non-robust"]
    said = command(tmp_path, "attack", "photo.png", *models, "--label", "label.png", code=2)
    assert "label.png, pixel (0, 0), holds the value 11, which is neither a class nor ignored (allowed: 0 .. 2" in said
    assert "ignore the value (ignore=11) if it stands for no ground truth" in said
    assert "With probability" not in said


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    pixels = (picture().numpy().transpose(1, 2, 0) * 255).astype(np.uint8)
    Image.fromarray(pixels).resize((48, 32)).save(tmp_path / "photo.png")
    label = np.zeros((32, 48), np.uint8)
    label[:, 15:] = 1
    label[:3] = 255
    Image.fromarray(label).save(tmp_path / "label.png")
    return tmp_path


def attack(folder, *options, code=0):
    models = ["--model", "python:models:steep", "--non-robust", "python:models:fragile"]
    return command(folder, "attack", "photo.png", *models, "--steps", "5", *options, code=code)


def command(folder, *arguments, code=0):
    line = [sys.executable, "-c", "from segcertify.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    result = subprocess.run(line, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return " ".join((result.stdout + result.stderr).split())


def test_the_command(folder):
    shown = attack(folder, "--label", "label.png", "--short-side", "16", "--loss", "segpgd")
    assert "With probability at least 1 - 0.001" in shown
    for name in ("non-robust base model", "robust base model", "smoothed model"):
        assert name in shown
    assert "Attacks within l2 norm 0.1686" in shown
    assert "No certified pixel of the smoothed model moved, under any of the three attacks." in shown
    out = folder / "attacked" / "photo"
    assert {file.name for file in out.iterdir()} == {"attacked.png", "certificate.safetensors"}
    assert sc.Certificate.load(out / "certificate.safetensors").labels.shape == (16, 24)
    arguments = ["audit", out / "certificate.safetensors", "--model", "python:models:steep", "--input", "photo.png"]
    assert "No violation" in command(folder, *arguments, "--short-side", "16", "--n", "100", "--steps", "2")


def test_beyond_the_radius_nothing_is_promised(folder):
    shown = attack(folder, "--radius", "3", "--short-side", "16", "--out", "far")
    assert "beyond the certified radius of 0.1686: there nothing is promised" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--loss", "mse"], "unknown loss 'mse'"),
        (["--radius", "-1"], "radius must be positive, but got -1.0"),
        (["--short-side", "0"], "--short-side must be an integer not less than 1"),
        (["--tau", "0.5", "--short-side", "8"], "tau=0.5 certifies no radius to attack within: give --radius, or a"),
        (["--non-robust", "python:models:fails", "--short-side", "16"], "the model failed on this image, RuntimeError"),
        (["--steps", "0"], "--steps must be an integer not less than 1"),
        (["--non-robust", "python:models:five", "--short-side", "16"], "--model has 2 classes and --non-robust 5"),
        (
            ["--non-robust", "python:models:labels", "--short-side", "16"],
            "needs logits, but the model gave torch.int64",
        ),
    ],
)
def test_bad_input(folder, options, message):
    assert message in attack(folder, *options, code=2)
    assert not (folder / "attacked").exists()


def test_only_images_are_attacked(folder):
    np.save(folder / "cloud.npy", np.zeros((9, 3)))
    models = ["--model", "python:models:steep", "--non-robust", "python:models:steep"]
    shown = command(folder, "attack", "cloud.npy", *models, code=2)
    assert "an image is attacked, but cloud.npy holds an array or a cloud" in shown
