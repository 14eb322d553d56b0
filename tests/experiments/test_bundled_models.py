"""The page on bundled models of images: from evaluations over JSON to Markdown."""

import json
from pathlib import Path

import bundled_models
import pytest
import trees
from bundled_models import main, page
from page import FILE, PAGE, render

from segcertify.errors import InputError
from segcertify.models.saved import WEIGHTS
from segcertify.preprocessing import in_words, of_image
from segcertify.report.run import Run

ROOT = Path(__file__).parents[2]
COMMITTED = [ROOT / "results" / "models" / name for name in ("camvid", "parts", "pets")]


def run(name, data, out, *options):
    """The script with these options, on the CPU."""
    main([name, "--data", data, "--out", str(out), "--device", "cpu", *map(str, options)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return f"pets:{trees.pets(tmp_path_factory.mktemp('pets'))}"


@pytest.fixture(scope="module")
def out(tmp_path_factory, data) -> Path:
    folder = tmp_path_factory.mktemp("bundled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundled_models, "SETTINGS", [(0.25, 60, 0.5)])
        run("pets", data, folder, "--limit", 2)
    return folder


def test_results_are_those_of_the_evaluations(out):
    results = json.loads((out / FILE).read_text())
    assert [model["model"] for model in results["models"]] == ["pets", "pets-non-robust"]
    assert [model["objective"] for model in results["models"]] == ["consistency", "non-robust"]
    for model in results["models"]:
        rows = Run.load(out / "runs" / model["model"]).rows
        assert [row["accuracy"] for row in model["rows"]] == [row.accuracy for row in rows]
        assert [row["abstained_all"] for row in model["rows"]] == [row.abstained_all for row in rows]
        assert [row["n"] for row in model["rows"]] == [None, 60]


def test_the_page_says_units_and_what_the_seed_assumes(out, tmp_path):
    text, results = (out / PAGE).read_text(), json.loads((out / FILE).read_text())
    assert f"{in_words(results['preprocessing'])} This assumes that scenes and model were fixed before" in text
    results["preprocessing"] = of_image(None, 160, "box")
    assert "images are resized to a short side of 160 pixels (box) and divided by 255" in page(results, tmp_path)
    del results["preprocessing"]  # as in earlier results
    assert "An image that is resized is certified as it is afterwards." in page(results, tmp_path)


def test_the_page_shows_every_row(out):
    text = (out / PAGE).read_text()
    for model in json.loads((out / FILE).read_text())["models"]:
        for row in model["rows"]:
            smoothing = "none" if row["n"] is None else "sigma=0.25, n=60, tau=0.5"
            line = next(each for each in text.splitlines() if each.startswith(f"| {model['model']} | {smoothing} |"))
            assert f"{row['accuracy']:.4f}" in line
            assert f"{row['abstained_all']:.4f}" in line


def test_models_trained_again_stand_in(data, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled_models, "SETTINGS", [])
    again = f"trained:{WEIGHTS / 'pets-non-robust.safetensors'}"
    run("pets", data, tmp_path, "--limit", 1, "--model", again, "--non-robust", again)
    models = json.loads((tmp_path / FILE).read_text())["models"]
    assert [model["model"] for model in models] == ["pets, trained again", "pets-non-robust, trained again"]
    assert models[0]["rows"] == models[1]["rows"]


@pytest.mark.parametrize("option", ["--model", "--non-robust"])
def test_stand_ins_label_as_the_data_does(data, tmp_path, option):
    with pytest.raises(InputError, match="camvid was not trained by segcertify on the classes of pets"):
        run("pets", data, tmp_path, option, "camvid")
    assert not (tmp_path / "runs").exists()  # found before the first is evaluated


def test_what_is_not_there_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="no model 'cats' ships"):
        run("cats", data, tmp_path)
    with pytest.raises(InputError, match="name a bundled model and scenes"):
        main(["pets"])
    with pytest.raises(InputError, match=r"no results.json in .*: run the experiment with --out"):
        main(["--render", str(tmp_path)])
    for content in ("{", "[]", "{}"):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(InputError, match=r"holds no results of this experiment .*: make it again"):
            main(["--render", str(tmp_path)])


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_committed_pages_are_what_the_results_give(folder, tmp_path):
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes())
    render(tmp_path, page)
    assert (tmp_path / PAGE).read_text() == (folder / PAGE).read_text()
