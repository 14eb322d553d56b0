"""Settings: how claims are written."""

import json
import os
import sys

import numpy as np
import pytest
import trees
import typer
from exploits import MARK, an_expression, changed, exported

import segcertify as sc
from segcertify.cli.options import claim_of, claims_of, import_from_here, resized_scenes, seed_number
from segcertify.records import Setting

CLAIM = Setting(0.25, 100, 0.75)


@pytest.mark.parametrize(
    "text", ["sigma=0.25,n=100,tau=0.75", "tau=0.75,sigma=.25,n=100", "n=100, tau=0.75, sigma=0.25"]
)
def test_a_setting_in_any_order(text):
    assert claim_of(text) == CLAIM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.25,100,0.75", "--setting takes names: write --setting sigma=0.25,n=100,tau=0.75 instead of 0.25,100,0.75"),
        ("1", "unknown name '1' in --setting 1: use sigma, n or tau"),
        ("sigma=0.25,n=100", "lacks tau: write sigma=0.25,n=100,tau=0.75"),
        ("sigma=0.25,n=100,taw=0.75", "unknown name 'taw' in --setting .*: did you mean 'tau'"),
        ("sigma=0.25,n=100,n=9,tau=0.75", "names n twice"),
        ("sigma=0.25,n=1e2,tau=0.75", "holds no number .*'1e2'"),
        ("sigma=0,n=100,tau=0.75", "sigma must be positive"),
        ("sigma=0.25,n=100,tau=0.3", r"tau must lie in \[0.5, 1\)"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(sc.InputError, match=message):
        claim_of(text)


def test_one_claim_or_several():
    several = ["sigma=0.25,n=100,tau=0.75", "sigma=0.5,n=300,tau=0.9"]
    assert claims_of(None, sigma=0.25, n=None, tau=None) == [CLAIM]
    assert claims_of(None, sigma=0.5, n=300, tau=0.9) == [Setting(0.5, 300, 0.9)]
    assert claims_of(several, sigma=None, n=None, tau=None) == [CLAIM, Setting(0.5, 300, 0.9)]
    with pytest.raises(sc.InputError, match="use one form or the other"):
        claims_of(several, sigma=None, n=100, tau=None)
    with pytest.raises(sc.InputError, match=r"name a claim with --sigma 0.25 --n 100 --tau 0.75"):
        claims_of(None, sigma=None, n=100, tau=None)


def test_seeds_are_decimal_or_hexadecimal():
    assert [seed_number(text) for text in ("7", "0x1f", str(2**127 + 1), hex(2**127 + 1))] == [7, 31, *[2**127 + 1] * 2]


@pytest.mark.parametrize("text", ["-1", "1.5", "seven", ""])
def test_bad_seeds(text):
    with pytest.raises(typer.BadParameter, match="a seed is a whole number from 0 on"):
        seed_number(text)


def test_the_working_folder_is_for_python_models_and_last(folder):
    before = list(sys.path)
    import_from_here("pets", "onnx:a.onnx", "hf:transformers", "trained:python:a", "")
    assert sys.path == before
    import_from_here("pets", "python:mine:make")
    assert sys.path == [*before, str(folder)]


SPEC = ["--model", "pt2:bad.pt2"]
DATA = ["--data", "shapes:?count=1"]
COMMANDS = [
    ["certify", "x.npy", "--sigma", "1", *SPEC], ["evaluate", "--sigma", "1", *DATA, *SPEC],
    ["audit", "--sampler", "--input", "x.npy", *SPEC], ["attack", "x.png", "--non-robust", "pets", *SPEC],
    ["attack", "x.png", "--model", "pets", "--non-robust", "pt2:bad.pt2"], ["reproduce", "table1", *DATA, *SPEC],
    ["reproduce", "table2", *DATA, "--named-model", "0.25=pt2:bad.pt2"],
    ["train", "--objective", "distillation", "--teacher", "pt2:bad.pt2", "--model", "pointnet2", *DATA],
]  # fmt: skip


@pytest.fixture
def exploit(folder):
    """An archive in the working folder that makes another folder when torch loads it, beside a good one."""
    np.save("x.npy", np.zeros((3, 8, 8), np.float32))
    return changed(exported(folder), "models/model.json", an_expression)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_an_exploit_is_refused_with_and_without_trust(segcertify, exploit, command):
    """Others are in tests/models/formats/test_pt2_archive.py."""
    command = [*command, "--seed", "0", "--device", "cpu"]
    assert "pt2:bad.pt2 is a program, and was not loaded" in segcertify(*command, code=2).text
    assert "bad.pt2 is refused: its expr_str is" in segcertify(*command, "--trust-code", code=2).text
    assert not os.path.exists(MARK)


def test_a_trusted_program_is_loaded(segcertify, exploit):
    command = ["certify", "x.npy", "--sigma", "1", "--seed", "0", "--device", "cpu", "--model", "pt2:good.pt2"]
    assert "add --trust-code" in segcertify(*command, code=2).text
    segcertify(*command, "--trust-code")


@pytest.mark.parametrize(
    "recorded", [{"objective": "distillation", "teacher": "pt2:bad.pt2"}, {"model": "python:evil:make"}]
)
def test_a_recipe_that_names_code_is_refused_without_trust(segcertify, exploit, recorded):
    exploit.with_name("evil.py").write_text(f"import os\nos.mkdir('{MARK}')\n")
    exploit.with_name("a.json").write_text(json.dumps(recorded))
    assert "a.json names code to run" in segcertify("train", "--recipe", "a.json", *DATA, code=2).text
    assert not os.path.exists(MARK)


def test_scenes_get_the_size_of_the_model(tmp_path):
    pets, own = sc.models.load("pets"), {"short_side": None, "full_size": False}
    scenes = sc.data.load(f"pets:{trees.pets(tmp_path / 'small', count=2)}")
    assert resized_scenes(scenes, pets, **own) is scenes  # smaller than the model's: to enlarge them would shrink R
    large = sc.data.load(f"pets:{trees.pets(tmp_path / 'large', size=(240, 320), count=2)}")
    assert resized_scenes(large, pets, **own).shape(0) == (160, 213)
    assert resized_scenes(scenes, pets, short_side=3, full_size=False).shape(0) == (3, 4)
    assert resized_scenes(scenes, pets, short_side=None, full_size=True) is scenes
    assert resized_scenes(scenes, len, **own) is scenes  # a model without a card
    fitting = sc.data.load(f"pets:{trees.pets(tmp_path / 'fitting', size=(160, 200), count=2)}")
    assert resized_scenes(fitting, pets, **own) is fitting
    clouds = sc.data.load("shapes:?count=1")
    assert resized_scenes(clouds, pets, **own) is clouds
