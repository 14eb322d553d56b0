"""The audit command as a user meets it: exit code 1 for what is refuted."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import segcertify as sc
from segcertify.cli import app

MODEL = """
import torch

def bright():
    return lambda batch: 10 * torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A photo, dark on the left and light on the right, with its certificate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bright_model.py").write_text(MODEL)
    ramp = np.linspace(60, 200, 16).astype(np.uint8)
    Image.fromarray(np.broadcast_to(ramp[None, :, None], (8, 16, 3)).copy()).save("photo.png")
    result = run(
        "certify",
        "photo.png",
        "--model",
        "python:bright_model:bright",
        "--sigma",
        "0.25",
        "--n",
        "300",
        "--out",
        "certified",
    )
    assert result.exit_code == 0, result.output
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def audited(certificate, *more):
    return run("audit", str(certificate), "--input", "photo.png", "--model", "python:bright_model:bright", *more)


def test_a_true_certificate_and_an_edited_one(folder):
    file = folder / "certified" / "certificate.safetensors"
    result = audited(file, "--n", "200", "--steps", "5")
    assert result.exit_code == 0, result.output
    assert "No violation" in result.output
    true = sc.Certificate.load(file)
    replace(true, tau=0.999, radius=4 * true.radius).save("edited.safetensors")
    result = audited("edited.safetensors", "--n", "500", "--steps", "10")
    assert result.exit_code == 1, result.output
    assert "The certificate is refuted" in " ".join(result.output.split())
    assert "attack on component" in result.output


def test_the_sampler(folder):
    result = run("audit", "--sampler", str(folder / "certified" / "certificate.safetensors"))
    assert result.exit_code == 0, result.output
    assert result.output.count("checks passed") == 1
    result = run("audit", "--sampler")
    assert result.exit_code == 0, result.output
    assert result.output.count("checks passed") == 5
    assert "10 checks passed" not in result.output
    model = ("--model", "python:bright_model:bright")
    result = run("audit", "--sampler", *model, "--input", "photo.png")
    assert result.exit_code == 0, result.output
    assert result.output.count("10 checks passed") == 3  # one more, whether the model is the same twice; nothing turns
    result = run("audit", "--sampler", *model)
    assert "give an input for it: --input FILE" in str(result.exception)


def test_nothing_to_audit():
    result = run("audit")
    assert "give a certificate's file with the --model and the --input it is about" in str(result.exception)
