"""The page on denoised and hardened models: from evaluations over JSON to Markdown."""

import json
from pathlib import Path

import models_without_noise
import pytest
import torch
import trees
from models_without_noise import main
from page import FILE, PAGE

from segcertify.errors import InputError
from segcertify.models import FDnCNN
from segcertify.report.run import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return f"pets:{trees.pets(tmp_path_factory.mktemp('pets'))}"


def test_from_evaluations_to_the_page(data, tmp_path, monkeypatch):
    monkeypatch.setattr(models_without_noise, "SETTING", (0.25, 60, 0.5))
    torch.manual_seed(0)
    torch.save(FDnCNN(4).state_dict(), tmp_path / "denoiser.pth")
    further = "hardened=trained:" + str(models_without_noise.sc.models.saved.WEIGHTS / "pets-non-robust.safetensors")
    arguments = ["--data", data, "--limit", "1", "--out", str(tmp_path / "out"), "--device", "cpu"]
    main([*arguments, "--denoiser", str(tmp_path / "denoiser.pth"), "--model", further])
    results, text = (json.loads((tmp_path / "out" / FILE).read_text()), (tmp_path / "out" / PAGE).read_text())
    names = [each["model"] for each in results["models"]]
    assert names == ["without noise", "our denoiser before it", "hardened", "trained on noise"]
    for number, each in enumerate(results["models"]):
        rows = Run.load(tmp_path / "out/runs" / str(number)).rows
        assert [row["accuracy"] for row in each["rows"]] == [row.accuracy for row in rows]
        assert text.count(f"| {each['model']} | sigma=0.25, n=60, tau=0.5 |") == 1
    accuracy = [each["rows"][-1]["accuracy"] for each in results["models"]]
    assert accuracy[0] == accuracy[2]  # the same weights
    if accuracy[3] > accuracy[0]:
        assert next(line for line in text.splitlines() if line.startswith("| trained on noise | sigma")).endswith(
            "| 1 |"
        )
    main(["--render", str(tmp_path / "out")])
    assert (tmp_path / "out" / PAGE).read_text() == text
    assert str(tmp_path) not in text


def test_the_committed_page_is_what_the_results_give(tmp_path):
    folder = ROOT / "results" / "models" / "pets-without-noise"
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes())
    main(["--render", str(tmp_path)])
    assert (tmp_path / PAGE).read_text() == (folder / PAGE).read_text()


def test_bad_options(data):
    with pytest.raises(InputError, match="name scenes"):
        main([])
    with pytest.raises(InputError, match="--model takes NAME=SPEC"):
        main(["--data", data, "--model", "pets"])
    with pytest.raises(InputError, match="names of models must all be different"):
        main(["--data", data, "--model", "trained on noise=pets"])
