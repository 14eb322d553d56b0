"""The paper's tables on point clouds: typed right, and runnable."""

import re
from pathlib import Path

import pytest
import trees

from segcertify import Gaussian, InputError, Rotation
from segcertify.data import load
from segcertify.evaluation import Setting
from segcertify.models import PointNet2
from segcertify.reproduce.comparison import reproduce
from segcertify.reproduce.paper_tables import CLOUDS, paper_table

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "scalable-certified-segmentation.tex"
LABELS = {"table2": "tab:pointcloud", "table2-bonferroni": "tab:pointcloud_bon", "rotation": "tab:result_rot"}
TRAINED = ("0.25", "0.25-normals", "0.5", "0.5-normals")


def halves():
    """Parts 0 and 1 by the side of x."""
    return lambda batch: (batch[..., 0] > 0).long()


@pytest.mark.parametrize(
    ("name", "rows", "models", "alpha"),
    [
        ("table2", 24, ("non-robust", "non-robust-normals", *TRAINED), 0.001),
        ("table2-bonferroni", 18, TRAINED, 0.001),
        ("tau-sweep-clouds", 36, ("0.25-normals", "0.5-normals"), 0.001),
        ("rotation", 5, ("0.5-normals",), 0.0001),
    ],
)
def test_every_row_is_there(name, rows, models, alpha):
    table = paper_table(name)
    assert len(table.rows) == len(set(map(repr, table.rows))) == rows
    assert (table.models, table.n0, table.alpha) == (models, 100, alpha)


def test_every_table_is_tested_and_unknown_ones_are_refused():
    assert set(CLOUDS) == {*LABELS, "tau-sweep-clouds"}
    with pytest.raises(InputError, match=r"unknown table 'table9': use one of table1, .*table2"):
        paper_table("table9")


def test_headline_rows():
    """A few numbers as the paper's text gives them."""
    rows = {(row.model, row.setting): row.numbers("") for row in paper_table("table2").rows}
    assert rows["non-robust", None] == {"acc": 0.90}
    assert rows["non-robust-normals", None] == {"acc": 0.91}
    assert rows["0.25-normals", Setting(0.25, 1000, 0.75)] == {"acc": 0.78, "abstain": 0.16, "t": 54.46}
    rotation = [row for row in paper_table("rotation").rows if row.setting is not None]
    assert [(row.noise, row.setting.sigma, row.numbers("").get("acc")) for row in rotation] == [
        ("axis-angle", 0.125, 0.69),
        ("axis-angle", 0.25, 0.61),
        ("rotation", 0.125, None),
        ("rotation", 0.25, None),
    ]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not beside the repository")
@pytest.mark.parametrize("name", LABELS)
def test_numbers_are_the_papers(name):
    """All numbers of the paper's table, in its order, are ours."""
    text = PAPER.read_text(encoding="utf-8")
    body = text[text.index(f"\\label{{{LABELS[name]}}}") :]
    body = body[body.index("\\midrule") : body.index("\\bottomrule")]
    theirs = [float(number) for number in re.findall(r"-?\d+\.?\d*", re.sub(r"\$[^$]*\$", " ", body))]
    ours = []
    for row in paper_table(name).rows:
        if not row.numbers("") or row.model.startswith("non-robust"):
            continue
        if row.setting is not None:
            ours += [row.setting.sigma] if name == "rotation" else [row.setting.n, row.setting.tau, row.setting.sigma]
        ours += row.numbers("").values()
    assert ours == theirs


def test_figure_4_agrees_with_table_2():
    """Where both have a row, the points plotted are the table's numbers."""
    table = {(row.model, row.setting): row.numbers("")["acc"] for row in paper_table("table2").rows}
    both = [row for row in paper_table("tau-sweep-clouds").rows if (row.model, row.setting) in table]
    assert len(both) == 4
    for row in both:
        assert row.numbers("")["acc"] == table[row.model, row.setting]


@pytest.fixture
def clouds(tmp_path):
    folder = trees.shapenet(tmp_path / "shapenet")
    options = "category=Airplane&points=64"
    return lambda normals: load(f"shapenet:{folder}?{options}{'&normals=true' if normals else ''}").limit(1)


def test_a_table_runs_with_the_papers_numbers_beside(clouds, tmp_path):
    models = dict.fromkeys(("non-robust-normals", "0.25"), halves)
    table = reproduce(paper_table("table2"), clouds, models=models, out=tmp_path / "out")
    assert table.heads[:5] == ("model", "setting", "R", "acc", "paper acc")
    assert len(table.rows) == 24
    for row in table.rows:
        assert (row[3] != "") == (row[0] in models)  # rows of other models show the paper's numbers alone
    base, certified = table.rows[2], table.rows[3]
    assert base[:3] == ("0.25", "no noise", "")
    assert (base[4], base[6], base[10]) == ("0.81", "0.00", "0.57")
    assert certified[:3] == ("0.25", "sigma=0.25, n=1000, tau=0.75", "0.168")
    assert float(certified[8]) <= float(certified[7]) < 1  # worst case and shape IoU
    assert float(certified[3]) < float(base[3]) < 1
    assert 0 < float(certified[5]) <= 1
    assert table.rows[1][3] == base[3]  # the same model on the same points, with normals that it does not look at
    assert "shapenet/test Airplane of 64 points with normals and 1 cloud of shapenet/test Airplane" in table.notes[0]
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(models)


def test_bonferroni_never_certifies_more(clouds, tmp_path):
    table = reproduce(paper_table("table2-bonferroni"), clouds, models={"0.25": halves}, out=tmp_path / "out")
    assert table.heads == ("model", "setting", "R", "acc", "paper acc", "abstained", "paper abstained")
    for row in table.rows[:4]:
        assert float(row[3]) <= 0 <= float(row[5])
    assert table.rows[0][4] == "-0.0012"


def test_rotations_run_with_true_certificates_beside_the_papers_claim(clouds, tmp_path):
    table = reproduce(paper_table("rotation"), clouds, models={"0.5-normals": halves}, out=tmp_path / "out")
    base, *certified = table.rows
    assert base[4] == "0.77"
    assert [row[1].split(",")[0] for row in certified] == ["axis-angle"] * 2 + ["rotation"] * 2
    assert [row[2] for row in certified] == ["0.0843 claimed", "0.168 claimed", "0.0844", "0.169"]
    assert float(Rotation(0.25).radius(0.75)) == pytest.approx(0.16995, abs=1e-5)
    assert float(Gaussian(0.25).radius(0.75)) == pytest.approx(0.16862, abs=1e-5)
    assert [row[4] for row in certified] == ["0.69", "0.61", "", ""]
    assert all(0 < float(row[3]) < 1 for row in certified)
    assert any("proves nothing: 3-D rotations do not add up" in note for note in table.notes)
    [unproven] = [note for note in table.notes if note.startswith("Rows of holm with axis-angle noise: ")]
    [proven] = [note for note in table.notes if note.startswith("Rows of holm with rotation noise: ")]
    assert "No robustness certificate" in unproven
    assert "probability" not in unproven
    assert "With probability at least 1 - 0.0001" in proven
    assert not [note for note in table.notes if note.startswith("Rows of holm: ")]


def test_other_models_are_refused(clouds, tmp_path):
    for models, got in [({"0.3": halves}, "'0.3'"), ({}, "none")]:
        with pytest.raises(InputError, match=f"rotation has the models 0.5-normals, but got {got}"):
            reproduce(paper_table("rotation"), clouds, models=models, out=tmp_path / "out")


def test_tables_of_clouds_take_no_images(tmp_path):
    images = load(f"folder:{trees.folder(tmp_path / 'images')}")
    with pytest.raises(InputError, match=r"table2 is of clouds, but .* holds inputs of shape \(3, "):
        reproduce(paper_table("table2"), lambda normals: images, models={"0.5": halves}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_does_not_fit_is_refused_before_any_is_evaluated(clouds, tmp_path):
    models = {"0.25": halves, "0.5-normals": lambda: PointNet2(normals=False).eval()}
    with pytest.raises(
        InputError, match=r"the model 0.5-normals on shapenet/test Airplane.*takes clouds \(B, points, 4"
    ):
        reproduce(paper_table("table2"), clouds, models=models, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
