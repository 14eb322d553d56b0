"""``segcertify harden`` as a user meets it."""

import sys

import pytest
import torch
from PIL import Image
from toys import small, tree

import segcertify as sc
from segcertify.cli import main
from segcertify.models.card import read_model

QUICK = ["--iterations", "12", "--batch-size", "4", "--crop", "16", "16", "--precision", "fp32", "--device", "cpu"]
QUICK += ["--log-every", "2", "--save-every", "4", "--validate-every", "4", "--quiet"]


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """The command in this process: its exit code and what it shows."""

    def command(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "argv", ["segcertify", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return end.value.code, shown.out + shown.err

    return command


@pytest.fixture
def mine(tmp_path):
    """A user's checkpoint, and the function that makes its network."""
    torch.save(small(seed=4).state_dict(), tmp_path / "mine.pth")
    (tmp_path / "mine.py").write_text("from toys import small as make")
    return "python:mine:make?weights=mine.pth"


def test_images_without_labels_in_the_same_network_out(command, mine, tmp_path):
    tree(tmp_path / "toys")
    arguments = ["harden", "--model", mine, "--data", "toys/train/images", "--sigma", "0.25", "--out", "hardened"]
    code, shown = command(*arguments, *QUICK)
    assert code == 0, shown
    spec = "python:mine:make?weights=hardened/model.safetensors"
    assert f"use it as {spec}" in shown
    card, state = read_model(tmp_path / "hardened/model.safetensors")
    assert card.recipe["labels"] == "own"
    assert card.classes == ("class 0", "class 1", "class 2")
    assert (card.sigma, card.objective) == ((0.25,), "consistency")
    assert "started from python:mine:make?weights=mine.pth (weights" in card.data
    assert state.tensors.keys() == small().state_dict().keys()
    assert not torch.equal(state.tensors["5.weight"], small(seed=4).state_dict()["5.weight"])
    Image.open(tmp_path / "toys/train/images/0.png").save(tmp_path / "photo.png")
    code, shown = command("certify", "photo.png", "--model", spec, "--sigma", "0.25", "--n", "60", "--tau", "0.55",
                          "--alpha", "0.1", "--seed", "0", "--device", "cpu", "--out", "certified")  # fmt: skip
    assert code == 0, shown
    assert sc.Certificate.load(tmp_path / "certified/certificate.safetensors").model["weights"]


def test_ground_truth_where_there_is_some(command, mine, tmp_path):
    data = tree(tmp_path / "toys")
    code, shown = command("harden", "--model", mine, "--data", data, "--out", "a", *QUICK)
    assert code == 0, shown
    card = read_model(tmp_path / "a/model.safetensors")[0]
    assert (card.recipe["labels"], card.classes) == ("truth", ("red", "green", "blue"))
    code, shown = command("harden", "--model", mine, "--data", data, "--labels", "own", "--out", "a", *QUICK)
    assert code == 2
    assert "labels" in shown


def test_what_cannot_be_trained_is_refused_with_the_cure(command, tmp_path):
    data = tree(tmp_path / "toys")
    code, shown = command("harden", "--model", "onnx:a.onnx", "--data", data, *QUICK)
    assert code == 2
    assert "python:module:factory?weights=FILE" in shown
