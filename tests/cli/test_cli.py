"""The command line as a user meets it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import segcertify as sc
from segcertify.cli import printing
from segcertify.report.table import Table

SEGCERTIFY = [sys.executable, "-c", "from segcertify.cli import main; main()"]
MODEL = """
import torch

def bright():
    return lambda batch: torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

def halves():
    return lambda batch: (batch[..., 0] > 0).long()
"""


def segcertify(*arguments, folder, code=0):
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    command = [*SEGCERTIFY, *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_model.py").write_text(MODEL)
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    np.save(tmp_path / "empty.npy", np.zeros((3, 0, 8)))
    np.save(tmp_path / "cloud.npy", np.random.default_rng(0).normal(size=(40, 6)))
    return tmp_path


def test_version_and_help(folder):
    assert segcertify("--version", folder=folder).strip() == f"segcertify {sc.__version__}"
    shown = segcertify("--help", folder=folder)
    for command in ("demo", "certify", "plan", "reproduce"):
        assert command in shown


def test_plan(folder):
    shown = segcertify("plan", "-N", 1024 * 2048, "--n", 100, "--p", 0.99, folder=folder)
    assert "2,097,152" in shown
    assert "75" in shown
    assert "0.75, 0.001, holm" in shown


def test_plan_a_radius(folder):
    arguments = ["plan", "-N", 2048, "--tau", 0.75, "--noise", "rotation", "--radius"]
    shown = segcertify(*arguments, 3.1415926, folder=folder)
    assert "sigma of rotation noise that proves R = 3.14159" in shown
    assert "2.22356" in shown
    assert "no rotation is farther than pi, but the radius is 5" in segcertify(*arguments, 5, folder=folder, code=2)


def test_certify_an_image(folder):
    arguments = ["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", 0.1, "--seed", 3]
    shown = segcertify(*arguments, folder=folder)
    assert "With probability at least 1 - 0.001" in shown
    out = folder / "certified" / "photo"
    assert {file.name for file in out.iterdir()} == {
        "certificate.safetensors",
        "votes.safetensors",
        "certified.png",
        "certified-labels.png",
    }
    certificate = sc.Certificate.load(out / "certificate.safetensors")
    assert 0 < certificate.certified < 24 * 32
    again = sc.certify_votes(sc.Votes.load(out / "votes.safetensors"), tau=0.75, alpha=0.001)
    assert again.labels.tolist() == certificate.labels.tolist()
    with Image.open(out / "certified.png") as picture:
        assert picture.size[0] > 1000


@pytest.mark.parametrize(
    ("options", "norm"),
    [
        (["--noise", "rotation"], "angle"),
        (["--noise", "axis-rotation", "--axis", "y"], "angle"),
        (["--noise", "axis-rotation", "--axis", "1,1,0"], "angle"),
        (["--noise", "laplace"], "l1"),
        (["--channels", "0,1,2", "--axis", "1"], "l2"),
        (["--norm", "linf"], "linf"),
        (["--correction", "k-fwer", "--b", "2"], "l2"),
    ],
)
def test_certify_a_cloud(folder, options, norm):
    segcertify("certify", "cloud.npy", "--model", "python:my_model:halves", "--sigma", 0.1, *options, folder=folder)
    certificate = sc.Certificate.load(folder / "certified" / "cloud" / "certificate.safetensors")
    assert certificate.norm == norm
    assert certificate.certified > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "-N", "10", "--tau", "0.3"], "tau must lie in [0.5, 1), but got 0.3"),
        (["plan", "-N", "10", "--correction", "none"], "unknown correction 'none'"),
        (["certify", "gone.png", "--model", "python:my_model:bright", "--sigma", "1"], "no file at gone.png"),
        (["certify", "photo.png", "--model", "python:other:bright", "--sigma", "1"], "cannot import 'other'"),
        (["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", "-1"], "sigma must be positive"),
        (["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", "1", "--n", "9"], "Use n >= 48"),
        (
            ["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", "1", "--device", "foo"],
            "device must be such as 'cpu' or 'cuda', but got 'foo'",
        ),
        (
            ["evaluate", "--model", "python:my_model:bright", "--data", "camvid:x", "--setting", "1"],
            "takes sigma,n,tau",
        ),
        (
            ["evaluate", "--model", "python:my_model:bright", "--data", "x", "--setting", "1,9,.75"],
            "unknown data set 'x'",
        ),
        (["report", "nowhere"], "no evaluation at nowhere"),
        (
            ["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", "1", "--channels", "a"],
            "take whole numbers",
        ),
        *(
            (
                ["certify", "photo.png", "--model", "python:my_model:bright", "--sigma", "1", "--out", out],
                "cannot write to the folder",
            )
            for out in ("photo.png/x", "photo.png", "x" * 300)
        ),
        (["certify", "empty.npy", "--model", "pets", "--sigma", "1"], "x is empty"),
    ],
)
def test_bad_input_is_one_clear_line(folder, arguments, message):
    before = set(folder.rglob("*"))
    assert f"error: {message}" in (shown := segcertify(*arguments, folder=folder, code=2)) or message in shown
    assert {path for path in set(folder.rglob("*")) - before if "__pycache__" not in str(path)} == set()


@pytest.mark.parametrize("labelled", [False, True])
def test_a_photograph_with_a_label_is_taken_as_it_is_stored(folder, labelled):
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its side
    with Image.open(folder / "photo.png") as photo:
        photo.save(folder / "turned.png", exif=exif)
    Image.new("L", (32, 24)).save(folder / "label.png")
    label = ["--label", "label.png"] if labelled else []
    segcertify("certify", "turned.png", "--model", "python:my_model:bright", "--sigma", 0.1, *label, folder=folder)
    certificate = sc.Certificate.load(folder / "certified" / "turned" / "certificate.safetensors")
    assert certificate.labels.shape == ((24, 32) if labelled else (32, 24))


def test_certify_says_when_an_array_is_not_in_the_models_units(folder):
    for scale, noted in ((1, False), (255, True)):
        np.save(folder / f"{scale}.npy", scale * np.random.default_rng(0).random((3, 16, 16)))
        shown = segcertify("certify", f"{scale}.npy", "--model", "pets", "--sigma", 0.1, "--n", 60, folder=folder)
        assert ("but the model was trained on images in [0, 1]" in shown) == noted


def test_certify_never_replaces_another_inputs_certificate(folder):
    (folder / "other").mkdir()
    Image.new("RGB", (24, 32)).save(folder / "other" / "photo.png")
    arguments = ["--model", "python:my_model:bright", "--sigma", 0.1]
    segcertify("certify", "photo.png", *arguments, folder=folder)
    shown = segcertify("certify", "other/photo.png", *arguments, folder=folder, code=2)
    assert "certified/photo holds the certificate of another input: give another --out" in shown
    segcertify("certify", "photo.png", *arguments, "--tau", "0.8", folder=folder)


def test_reproduce_toy_quick(folder):
    shown = segcertify("reproduce", "toy", "--quick", "--out", "toy", folder=folder)
    assert "text" in shown
    assert list(Path(folder / "toy").glob("*.png"))


def test_a_table_too_wide_for_the_screen_is_turned(monkeypatch, capsys):
    """No number is cut: each row becomes a column."""
    table = Table("a title", ("setting", *(f"a long head {i}" for i in range(9))), (("row", *(["0.12345"] * 9)),))
    for width, lines_with_numbers in ((300, 1), (60, 9)):
        monkeypatch.setattr(printing, "console", Console(width=width))
        printing.print_table(table)
        shown = capsys.readouterr().out
        assert shown.count("0.12345") == 9
        assert sum("0.12345" in line for line in shown.splitlines()) == lines_with_numbers


@pytest.mark.parametrize("width", range(60, 140, 8))
def test_no_word_is_broken_where_there_is_room(width, monkeypatch, capsys):
    heads = ("", "R", "certified accuracy", "mIoU pooled", "abstained (valid)", "abstained (all)", "seconds")
    rows = [(f"sigma=0.25, n={n}, tau=0.75, holm", "0.168", *["0.8207"] * 4, "12.34") for n in (100, 300, 500)]
    monkeypatch.setattr(printing, "console", Console(width=width))
    printing.print_table(Table("a title", heads, tuple(rows)))
    shown = capsys.readouterr().out
    for word in ("sigma=0.25,", "certified", "abstained", "(valid)", "0.8207", "seconds"):
        assert shown.count(word) >= (12 if word == "0.8207" else 1)
    assert max(len(line) for line in shown.splitlines()) <= width


def test_a_long_table_on_a_narrow_screen_breaks_numbers_but_cuts_none(monkeypatch, capsys):
    table = Table("a title", ("setting", "a", "b", "c", "d"), (("row", *(["0.12345"] * 4)),) * 9)
    monkeypatch.setattr(printing, "console", Console(width=30))
    printing.print_table(table)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert sum(character.isdigit() for character in shown) == 9 * 4 * 6


def test_evaluate_says_first_that_too_few_draws_certify_nothing(folder):
    pets = folder / "pets"
    for name in ("images", "labels"):
        (pets / name).mkdir(parents=True)
    Image.fromarray(np.full((8, 8, 3), 99, np.uint8)).save(pets / "images" / "a.jpg")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(pets / "labels" / "a.png")
    arguments = ["evaluate", "--model", "python:my_model:bright", "--data", f"pets:{pets}", "--out", "run"]
    shown = segcertify(*arguments, "--setting", "0.1,9,.75", "--setting", "0.1,50,.75", folder=folder)
    assert shown.count("all will abstain: n=9 can certify nothing") == 1
    assert "n=50 can" not in shown
