"""The page on the bundled model of clouds: the paper's claims, from evaluations over JSON to Markdown."""

import json
import shutil
from pathlib import Path

import bundled_models
import pytest
import trees
from bundled_models import PICTURES, main, trials
from page import FILE, PAGE

import segcertify.models
from segcertify.errors import InputError
from segcertify.evaluation import Setting
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.models import PartSegmenter
from segcertify.models import load as load_model
from segcertify.report.run import Run

FOLDERS = ("real-gaussian", "real-rotation", "generated-gaussian")
SHAPES = "shapes:?count=1&category=Mug&normals=true&points=512"


def run(data, out, *options, name="parts"):
    """The script with these options, on the CPU."""
    main([name, "--data", data, "--out", str(out), "--device", "cpu", *map(str, options)])


def trial(clouds, noise, settings, n0, alpha):
    return {"clouds": clouds, "noise": noise, "settings": settings, "n0": n0, "alpha": alpha}


class Halves(PartSegmenter):
    """The bundled network's place taken by two parts, one on either side of the middle."""

    def for_category(self, category):
        return Halves(self.model, category, self.runs)

    def forward(self, batch, seeds=None):
        first, second = CATEGORIES[self.category][:2]
        return (batch[..., 0] > 0) * (second - first) + first


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segcertify.models, "load", lambda spec: Halves(load_model(spec).model, runs=2).eval())
        run(SHAPES, folder, "--generated", 1)
    assert {path.name for path in folder.iterdir() if path.is_file()} == {FILE, PAGE, *PICTURES}
    return folder


def test_the_trials_are_the_papers():
    small = (Setting(0.25, 1000, 0.75), Setting(0.25, 1000, 0.85))
    large = (Setting(0.25, 10000, 0.95), Setting(0.25, 10000, 0.99))
    turns = (Setting(0.125, 1000, 0.75), Setting(0.25, 1000, 0.75))
    assert trials() == [
        trial("real", "gaussian", small + large, 100, 0.001),
        trial("real", "rotation", turns, 100, 0.0001),
        trial("generated", "gaussian", small, 100, 0.001),
    ]


def test_results_are_those_of_the_evaluations(out):
    results = json.loads((out / FILE).read_text())
    assert (results["name"], results["runs"], results["sigma"]) == ("parts", 2, [0.25])
    assert "shapenet/train" in results["trained on"]
    for folder, trial in zip(FOLDERS, results["trials"], strict=True):
        evaluation = Run.load(out / "runs" / folder)
        assert (evaluation.configuration["model"], evaluation.noise) == ("parts?runs=2", trial["noise"])
        for saved, row in zip(trial["rows"], evaluation.rows, strict=True):
            assert (saved["n"], saved["accuracy"], saved["abstained"]) == (row.n, row.accuracy, row.abstained)
            assert [each["iou"] for each in saved["categories"]] == [each.iou for each in row.categories]
    certified = [row for trial in results["trials"] for row in trial["rows"] if row["n"]]
    assert all(0 < row["abstained"] < 1 for row in certified)


def test_the_generated_shapes_are_no_training_shapes(out):
    results = json.loads((out / FILE).read_text())
    assert "of seed 0 " in results["trained on"]
    assert results["trials"][2]["data"] == "shapes/1 of seed 2021 with normals"


def lines(text, title):
    """The rows below a title, as cells."""
    part = text.split(f"### {title}")[1].split("\n###")[0]
    return {row[0]: row for row in ([*map(str.strip, line.split("|")[1:-1])] for line in part.splitlines()) if row}


def test_the_page_has_the_papers_numbers_beside_ours(out):
    text = (out / PAGE).read_text()
    real, turned, _ = json.loads((out / FILE).read_text())["trials"]
    gaussian = lines(text, f"parts on {real['data']} (1 shapes), gaussian noise")
    assert gaussian["base model, no noise"][-2:] == ["0.86", "0.00"]
    row = gaussian["sigma=0.25, n=10000, tau=0.99, holm"]
    assert (row[2], row[-2:]) == (f"{real['rows'][-1]['accuracy']:.4f}", ["0.39", "0.60"])
    assert gaussian["the paper's non-robust, no noise"][-2:] == ["0.90", ""]
    assert gaussian["the paper's non-robust-normals, no noise"][-2:] == ["0.91", ""]
    rotation = lines(text, f"parts on {turned['data']} (1 shapes), rotation noise")
    assert rotation["sigma=0.25, n=1000, tau=0.75, holm"][-2:] == ["0.61", "0.26"]
    assert "not the same test" in text
    assert text.count("The radius is in the units of the input after pre-processing: each cloud is centred") == 3
    assert text.count("This assumes that scenes and model were fixed before the seed was chosen.") == 3
    assert text.count("| base model, no noise | Mug | 1 |") == 2  # by category, under both noises
    assert all(f"({name})" in text for name in PICTURES)


def test_the_page_is_made_of_the_results_alone(out, tmp_path):
    (tmp_path / FILE).write_bytes((out / FILE).read_bytes())
    main(["--render", str(tmp_path)])
    assert (tmp_path / PAGE).read_text() == (out / PAGE).read_text()


def test_the_pictures_are_of_a_generated_shape(out):
    assert Run.load(out / "runs" / "picture").records[0].id == "Chair-000004"
    assert (out / "certified.png").read_bytes().startswith(b"\x89PNG")
    assert "Chair-000004" in (out / "certified.html").read_text()


def test_the_network_that_ships_runs_and_resumes(tmp_path, monkeypatch):
    one = trial("real", "gaussian", (Setting(0.25, 2, 0.5),), 1, 0.5)
    monkeypatch.setattr(bundled_models, "trials", lambda: [one])
    run(SHAPES, tmp_path, "--generated", 1, "--runs", 1)
    first = (tmp_path / FILE).read_bytes()
    assert json.loads(first)["trials"][0]["rows"][0]["accuracy"] > 0.5
    run(SHAPES, tmp_path, "--generated", 1, "--runs", 1)
    assert (tmp_path / FILE).read_bytes() == first  # times and all: nothing was done again
    with pytest.raises(InputError, match=r"its model is 'parts\?runs=1', now it is 'parts\?runs=2'"):
        run(SHAPES, tmp_path, "--generated", 1, "--runs", 2)
    shutil.rmtree(tmp_path / "runs" / "picture" / "certified")
    with pytest.raises(InputError, match="has its records but not its pictures: delete"):
        run(SHAPES, tmp_path, "--generated", 1, "--runs", 1)


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("parts", "pets", [], r"takes point clouds, but pets.* shape \(3, .*normals=true"),
        ("parts", "shapes:?count=1", [], r"takes 6 columns a point, but .* has 3: .*normals=true"),
        ("parts", SHAPES, ["--runs", 0], "runs cannot be"),
        ("parts", SHAPES, ["--generated", 0], "count must be"),
        ("pets", SHAPES, [], r"pets takes images: give it no clouds \(shapes/1"),
        ("pets", "pets", ["--generated", 3], "no generated shapes"),
        ("pets", "pets", ["--runs", 1], "category and runs are for models of clouds"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_work(tmp_path, name, data, options, message):
    trees.pets(tmp_path / "data")
    with pytest.raises(InputError, match=message):
        run(f"pets:{tmp_path / 'data'}" if data == "pets" else data, tmp_path, *options, name=name)
    assert not (tmp_path / "runs").exists()
