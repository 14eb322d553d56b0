"""The table of the first hour: what an answer is worth, and the page from the stored answers."""

import json
from pathlib import Path

import first_hour
import numpy as np
import pytest
from first_hour import TRIALS, Trial, judged, main, tried
from newcomer import MEGAPIXELS, bring
from page import FILE, PAGE
from PIL import Image

from segcertify.data import read_input
from segcertify.errors import InputError

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results" / "first-hour"
CERTIFY, KEPT = Trial("what", "words"), Trial("what", "words", "not overwritten", kept=True)


@pytest.mark.parametrize(
    ("trial", "printed", "changed", "failed", "expected"),
    [
        (CERTIFY, "│ certified   │ 1,234 of 2,000 (61.7%) │\n", [], False, (True, "certified 1,234 of 2,000 (61.7%)")),
        (CERTIFY, "note: x\nerror: no file at photos\n", [], True, (False, "refused: no file at photos")),
        (CERTIFY, "│ Got an extra argument │\n", [], True, (False, "refused: Got an extra argument")),
        (CERTIFY, "nothing\n", [], False, (False, "no word of it")),
        (KEPT, "error: votes are not overwritten\n", [], True, (True, "not overwritten")),
        (KEPT, "error: votes are not overwritten\n", ["a.png"], True, (False, "overwrote a.png")),
        (Trial("", "", "a warning"), "certified 1 of 2 (50.0%)", [], False,
         (False, "certified 1 of 2 (50.0%), and no word of it")),
    ],
)  # fmt: skip
def test_an_answer_is_quoted(trial, printed, changed, failed, expected):
    assert judged(trial, printed, changed, failed=failed) == expected


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    pytest.importorskip("nibabel")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("first-hour") / "files"
    image = np.random.default_rng(0).random((3, 20, 30), np.float32)
    bring(folder, image, np.where(image[0] > 0.9, -1, 1))
    return folder


def test_the_photograph_lies_on_its_side_as_phones_store_it(brought):
    with Image.open(brought / "photo.jpg") as photo:
        assert (photo.width, photo.height) == MEGAPIXELS
    assert read_input(brought / "photo.jpg").x.shape == (3, *MEGAPIXELS)
    assert read_input(brought / "photo.jpg", label=brought / "photo-label.png", ignore=255).x.shape[1:] == MEGAPIXELS


def test_every_file_that_a_trial_names_is_there(brought):
    for trial in TRIALS:
        for word in trial.words.replace("'", "").split():
            if word.endswith((".jpg", ".png", ".npy", ".gz", ".txt", ".xyz", ".csv", ".pcd")):
                assert (brought / word).is_file(), trial
            if word.startswith("hf:"):
                assert (brought / word.removeprefix("hf:")).is_dir(), trial


def test_a_trial_is_a_command_of_its_own(brought):
    (plan,) = [trial for trial in TRIALS if "-N 360x480" in trial.words]
    found = tried(plan, brought, ROOT)
    assert found["works"]
    assert found["said"] == "recommended n 130; radius R of Gaussian(sigma=0.25), l2 norm 0.168622"


@pytest.mark.skipif(not STORED.exists(), reason="results are in the repository only")
def test_the_page_is_made_from_the_answers(tmp_path):
    results = json.loads((STORED / FILE).read_text(encoding="utf-8"))
    assert first_hour.page(results, STORED) == (STORED / PAGE).read_text(encoding="utf-8")
    assert [each["command"] for each in results["trials"]] == [trial.words for trial in TRIALS]
    assert all(each["works"] for each in results["now"])
    assert sum(each["works"] for each in results["before"]) < len(TRIALS) / 2


def test_without_data_or_an_older_version_it_says_what_is_missing():
    with pytest.raises(InputError, match="--before CHECKOUT"):
        main(["--data", "pets:FOLDER"])
