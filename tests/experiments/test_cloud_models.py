"""The models of clouds: which claims each is evaluated at, their training, and the page of the four tables."""

import argparse
import json
from dataclasses import replace

import cloud_models
import pytest
import trees
from cloud_models import BUNDLED, FIGURE, MODEL, claims_of, main, models, trained
from page import FILE, PAGE
from parts_networks import card

import segcertify.models
from segcertify.errors import InputError
from segcertify.evaluation import Setting
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.models import PartSegmenter, PointNet2, load_bundled, read_card, save_model
from segcertify.reproduce.comparison import beside_results
from segcertify.reproduce.paper_tables import CLOUDS, paper_table


class Halves(PartSegmenter):
    """Two parts, one on either side of the middle."""

    def for_category(self, category):
        return Halves(self.model, category, self.runs)

    def forward(self, batch, seeds=None):
        first, second = CATEGORIES[self.category][:2]
        return (batch[..., 0] > 0) * (second - first) + first


def saved(name, options, out, device):
    """A file of random weights in the place of a model that was trained."""
    network, path = PointNet2(normals=name.endswith("-normals")), out / "runs" / name / MODEL
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(path, network, replace(card(network), data=f"{name} shapes"))
    return path


@pytest.fixture(scope="module")
def shapenet(tmp_path_factory):
    """One shape to evaluate on."""
    root = trees.shapenet(tmp_path_factory.mktemp("shapenet") / "shapenet")
    file = root / "train_test_split" / "shuffled_val_file_list.json"
    file.write_text(json.dumps(json.loads(file.read_text())[:1]))
    return root


@pytest.fixture(scope="module")
def out(shapenet, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clouds")
    command = ["--data", f"shapenet:{shapenet}", "--out", str(folder), "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cloud_models, "trained", saved)
        patch.setattr(segcertify.models, "load", lambda spec: Halves(load_bundled("parts"), runs=1).eval())
        main([*command, "--model", "0.5-normals"])
        assert not (folder / PAGE).exists()  # of one model there is no page
        main(command)
    return folder


def test_each_claim_of_the_four_tables_is_evaluated_once():
    assert models() == ("non-robust", "non-robust-normals", "0.25", "0.25-normals", "0.5", "0.5-normals")
    for name in CLOUDS:
        table = paper_table(name)
        for model in table.models:
            for noise, settings in table.runs(model).items():
                claims = claims_of(model)[noise]
                assert set(settings) <= set(claims["settings"])
                assert (table.n0, table.alpha) == (claims["n0"], claims["alpha"])
                assert len(set(claims["settings"])) == len(claims["settings"])
    assert claims_of("non-robust") == {"gaussian": {"settings": [], "n0": 100, "alpha": 0.001}}
    assert claims_of("0.25")["gaussian"]["corrections"] == ("holm", "bonferroni")
    assert claims_of("0.5-normals")["rotation"]["settings"] == [Setting(0.125, 1000, 0.75), Setting(0.25, 1000, 0.75)]


def test_every_row_of_every_table_has_a_number_of_ours(out):
    results, text = json.loads((out / FILE).read_text()), (out / PAGE).read_text()
    for name in CLOUDS:
        table = beside_results(paper_table(name), results)
        assert len(table.rows) == len(paper_table(name).rows)
        ours = table.heads.index("acc")
        assert all(row[ours] for row in table.rows)
        assert "This is not the same test" in table.notes[1]
        for note in (each for each in table.notes if each.startswith("Rows of")):
            assert "The radius is in the units of the input after pre-processing: each cloud is centred" in note
            assert "This assumes that scenes and model were fixed before the seed was chosen." in note
        assert table.markdown().rstrip() in text
    assert all(f"trained on {name} shapes" in text for name in models() if name not in BUNDLED)
    assert "(`parts`)" in text
    assert f"({FIGURE}.png)" in text
    assert (out / f"{FIGURE}.png").stat().st_size > 10_000


def test_bonferroni_is_shown_minus_holm(out):
    table = beside_results(paper_table("table2-bonferroni"), json.loads((out / FILE).read_text()))
    assert all(float(row[3]) <= 0 <= float(row[5]) for row in table.rows)
    holm = beside_results(paper_table("table2"), json.loads((out / FILE).read_text()))
    assert all(0 <= float(row[3]) <= 1 for row in holm.rows)


def test_the_page_is_made_of_the_results_alone(out, tmp_path):
    (tmp_path / FILE).write_bytes((out / FILE).read_bytes())
    main(["--render", str(tmp_path)])
    assert (tmp_path / PAGE).read_text() == (out / PAGE).read_text()


def test_what_was_evaluated_elsewhere_is_collected(out):
    before = (out / FILE).read_text()
    (out / FILE).unlink()
    main(["--out", str(out), "--collect"])
    assert (out / FILE).read_text() == before


def test_a_model_is_trained_on_generated_and_real_shapes(shapenet, tmp_path):
    options = argparse.Namespace(data=f"shapenet:{shapenet}", count=16, batch_size=2, iterations=1, seed=0)
    path = trained("0.5", options, tmp_path, "cpu")
    found = read_card(path)
    assert (found.objective, found.sigma, found.architecture["normals"]) == ("noise", (0.5,), False)
    assert found.data == "shapes/16 of seed 0 of all points and 60 times shapenet/train (256 scenes)"
    changed = path.stat().st_mtime_ns
    assert trained("0.5", options, tmp_path, "cpu") == path
    assert path.stat().st_mtime_ns == changed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the folder of real shapes"),
        (["--data", "shapenet:x?split=val"], "name the folder of real shapes without options"),
        (["--data", "shapenet:x", "--model", "0.75"], r"unknown model '0\.75'"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        main(arguments)
