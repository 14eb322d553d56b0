"""The page on bundled models: from evaluations over JSON to Markdown."""

import json
from importlib.resources import as_file, files
from pathlib import Path

import pytest
import trees

from segcertify.data import load
from segcertify.errors import InputError
from segcertify.evaluation import Setting
from segcertify.report.run import Run
from segcertify.reproduce.bundled import FILE, PAGE, render, run

ROOT = Path(__file__).parents[2]
COMMITTED = [path.parent for path in sorted(ROOT.glob("docs/models/*/results.json"))]
SETTING = Setting(0.25, 60, 0.5)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bundled")
    trees.pets(folder / "data")
    run("pets", load(f"pets:{folder / 'data'}").limit(2), out=folder, settings=[SETTING], progress=False)
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


def test_the_page_shows_every_row(out):
    text = (out / PAGE).read_text()
    for model in json.loads((out / FILE).read_text())["models"]:
        for row in model["rows"]:
            smoothing = "none" if row["n"] is None else "sigma=0.25, n=60, tau=0.5"
            line = next(each for each in text.splitlines() if each.startswith(f"| {model['model']} | {smoothing} |"))
            assert f"{row['accuracy']:.4f}" in line
            assert f"{row['abstained_all']:.4f}" in line


def test_models_trained_again_stand_in(out, tmp_path):
    with as_file(files("segcertify.models") / "bundled" / "pets-non-robust.safetensors") as file:
        again = {"pets": f"trained:{file}", "pets-non-robust": f"trained:{file}"}
        run("pets", load(f"pets:{out / 'data'}").limit(1), out=tmp_path, settings=[], again=again, progress=False)
    models = json.loads((tmp_path / FILE).read_text())["models"]
    assert [model["model"] for model in models] == ["pets, trained again", "pets-non-robust, trained again"]
    assert models[0]["rows"] == models[1]["rows"]


def test_stand_ins_label_as_the_data_does(out, tmp_path):
    with pytest.raises(InputError, match="camvid is no model that segcertify trained on the classes of pets"):
        run("pets", load(f"pets:{out / 'data'}"), out=tmp_path, again={"pets": "camvid"})
    with pytest.raises(InputError, match="camvid is no model that segcertify trained on the classes of pets"):
        run("pets", load(f"pets:{out / 'data'}"), out=tmp_path, again={"pets-non-robust": "camvid"})
    assert not (tmp_path / "runs").exists()  # found before the first is evaluated


def test_what_is_not_there_is_refused(out, tmp_path):
    with pytest.raises(InputError, match="no model 'cats' ships"):
        run("cats", load(f"pets:{out / 'data'}"), out=tmp_path)
    with pytest.raises(InputError, match=r"no results.json"):
        render(tmp_path)
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(InputError, match="holds no results"):
        render(tmp_path)


def test_pages_are_committed():
    assert {"camvid", "parts", "pets"} <= {folder.name for folder in COMMITTED}


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_committed_pages_are_what_the_results_give(folder, tmp_path):
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes())
    assert render(tmp_path).read_text() == (folder / PAGE).read_text()
