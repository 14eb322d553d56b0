"""`segcertify show`: what a certificate or a votes file is about."""

import re

import numpy as np
import pytest
from headers import rewrite_header
from PIL import Image

import segcertify as sc
from segcertify.numerals import radius_text

MODEL = """
import torch

def bright():
    return lambda batch: 10 * torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
"""


@pytest.fixture
def certified(folder, segcertify):
    """The folder of a certified photo."""
    (folder / "bright_model.py").write_text(MODEL)
    ramp = np.linspace(60, 200, 16).astype(np.uint8)
    Image.fromarray(np.broadcast_to(ramp[None, :, None], (8, 16, 3)).copy()).save("photo.png")
    arguments = ["--model", "python:bright_model:bright", "--sigma", "0.25", "--seed", "4", "--short-side", "4"]
    segcertify("certify", "photo.png", *arguments, "--out", "a folder")
    return folder / "a folder"


def test_a_certificate(certified, segcertify):
    certificate = sc.Certificate.load(certified / "certificate.safetensors")
    shown = segcertify("show", certified / "certificate.safetensors").text
    assert shown.startswith(f"{certificate.sentence} Exactly: {certificate.claim}")
    for words in (
        f"bright.<locals>.<lambda>, answers {certificate.model['answers']}",
        f"'photo' of shape 3 x 4 x 8, digest {certificate.input_digest}",
        "The resize to 4 x 8 pixels (antialiased), which are the components, is part of the certified function",
        f"{radius_text(certificate.input_radius, 4)} (l2 norm, in the units of the file)",
        "Gaussian(sigma=0.25)",
        "0.1686 (l2 norm)",
        "0.75, 10, 100",
        "0.001, holm",
        "4 (given)",
        f"segcertify {sc.__version__}",
        certificate.date,
        "segcertify certify photo.png --model python:bright_model:bright --sigma 0.25 --seed 4 --short-side 4 --out "
        "'a folder'",
        "the content agrees with its digest",
    ):
        assert words in shown, words


def test_what_python_did_to_an_input_before_is_not_known(folder, segcertify):
    certificate = sc.certify(
        lambda batch: (batch[:, 0] > 0.5).long(), np.ones((3, 4, 4), np.float32), sigma=0.25, seed=0
    )
    certificate.save(folder / "a.safetensors")
    assert re.search(r"pre-processing\W+none stated", segcertify("show", "a.safetensors").text)


def test_json(certified, segcertify):
    certificate = sc.Certificate.load(certified / "certificate.safetensors")
    found = segcertify("show", certified / "certificate.safetensors", "--json").json
    for name in (
        "claim",
        "seed",
        "input_digest",
        "model",
        "preprocessing",
        "version",
        "date",
        "command",
        "radius",
        "input_radius",
    ):
        assert found[name] == getattr(certificate, name), name
    assert (found["format"], found["format_version"], len(found["digest"])) == ("segcertify.certificate", 2, 64)
    found = segcertify("show", certified / "votes.safetensors", "--json").json
    assert (found["n0"], found["n"], found["draws"], found["seed"]) == (10, 100, [[0, 100]], 4)
    assert found["model"] == certificate.model


def test_votes(certified, segcertify):
    shown = segcertify("show", certified / "votes.safetensors").text
    assert "Votes claim nothing by themselves" in shown
    assert "n = 100 tested them (indices 0 .. 99)" in shown
    assert "resized from 8 x 16" in shown


def test_a_file_of_an_older_version_says_what_is_unknown(certified, segcertify):
    def as_version_1(about):
        about["version"] = 1
        del about["digest"]
        for name in ("input_shape", "input_digest", "model", "preprocessing", "version", "date", "command"):
            del about["header"][name]

    rewrite_header(certified / "certificate.safetensors", as_version_1)
    shown = segcertify("show", certified / "certificate.safetensors").text
    assert shown.count("unknown (format version 1 did not say it)") == 6
    assert "not checked: format version 1 has no digest" in shown


def test_a_changed_file_is_refused(certified, segcertify):
    path = certified / "certificate.safetensors"
    raw = path.read_bytes()
    assert raw.count(b"0.75") == 1
    path.write_bytes(raw.replace(b"0.75", b"0.76"))
    assert "it was changed or damaged after it was written" in segcertify("show", path, code=2).err
    path.write_bytes(raw[:-1])
    assert "is truncated" in segcertify("show", path, code=2).err
    assert "no segcertify file at gone" in segcertify("show", "gone", code=2).err


def test_other_kinds_of_files(certified, segcertify):
    model = sc.models.saved.FOLDER / "pets.safetensors"
    assert "holds 'segcertify.model': show is for certificates and for votes" in segcertify("show", model, code=2).err


def test_nothing_is_cut_at_eighty_columns(certified, segcertify, monkeypatch):
    monkeypatch.setattr("segcertify.cli.printing.console.width", 80)
    shown = segcertify("show", certified / "certificate.safetensors").out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
