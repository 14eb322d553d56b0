"""The paper's tables on images: typed right, and runnable."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from segcertify import InputError
from segcertify.data import load
from segcertify.models import MultiScale
from segcertify.noise import Gaussian
from segcertify.report.run import Run
from segcertify.reproduce.comparison import reproduce
from segcertify.reproduce.paper_tables import IMAGES, paper_table

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "scalable-certified-segmentation.tex"
LABELS = {
    "table1": "tab:semanticsegmentation",
    "table1-extended": "tab:semanticsegmentation_extended",
    "bonferroni": "tab:semanticsegmentation_bon",
    "consistency": "tab:semanticsegmentation_consistency",
}


@pytest.mark.parametrize(
    ("name", "rows", "scales"),
    [
        ("table1", 21, ("0.25", "0.5", "1", "multi")),
        ("table1-extended", 44, ("0.25", "0.5", "0.75", "1", "multi")),
        ("bonferroni", 11, ("0.25", "0.5", "1", "multi")),
        ("consistency", 12, ("0.25", "0.5", "1")),
        ("tau-sweep", 21, ("0.25",)),
    ],
)
def test_every_row_is_there(name, rows, scales):
    table = paper_table(name)
    assert len(table.rows) == rows
    assert table.heads == scales
    assert (table.n0, table.alpha) == (10, 0.001)


def test_every_table_is_tested_and_unknown_ones_are_refused():
    assert set(IMAGES) == {*LABELS, "tau-sweep"}
    with pytest.raises(InputError, match="unknown table 'table9': use one of table1"):
        paper_table("table9")


def test_headline_rows():
    """A few numbers as the paper's abstract and text give them."""
    rows = {(row.head, row.label): row.paper for row in paper_table("table1").rows}
    best = rows["1", "sigma=0.25, n=100, tau=0.75"]
    assert best["cityscapes"] == {"acc": 0.88, "miou": 0.59, "abstain": 0.11, "t": 92.75}
    assert best["pascal-context"]["acc"] == 0.55
    assert rows["multi", "non-robust model"]["cityscapes"]["acc"] == 0.97


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not beside the repository")
@pytest.mark.parametrize("name", LABELS)
def test_numbers_are_the_papers(name):
    """All decimal numbers of the paper's table, in its order, are ours (R aside, which follows from sigma and tau)."""
    text = PAPER.read_text(encoding="utf-8")
    body = text[text.index(f"\\label{{{LABELS[name]}}}") :]
    body = body[body.index("\\midrule") : body.index("\\bottomrule")]
    body = re.sub(r"\\\\\[[^\]]*\]|\\shortstack\[l\]|n=\d+,\\tau=[\d.]+|\$[\d.]+\$", " ", body)
    theirs = [float(number) for number in re.findall(r"-?\d+\.\d+", body)]
    ours = []
    for row in paper_table(name).rows:
        numbers = [list(row.paper[data].values()) for data in ("cityscapes", "pascal-context") if data in row.paper]
        if row.setting is not None:
            radius = theirs[len(ours) + 1]
            slip = (row.setting.sigma, row.setting.tau) == (0.33, 0.95) or (name, row.setting.n) == ("bonferroni", 300)
            assert slip or round(float(Gaussian(row.setting.sigma).radius(row.setting.tau)), 2) == pytest.approx(
                radius, abs=0.011
            )
            ours += [row.setting.sigma, radius]
        ours += [number for group in numbers for number in group]
    assert ours == theirs


class Grey(torch.nn.Module):
    """Three classes by brightness."""

    def __init__(self, shift=0.0):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.tensor(shift), requires_grad=False)

    def forward(self, batch):
        grey = batch.mean(1) + self.shift
        return torch.stack([0.5 - grey, grey - 0.5, grey - 4], 1)


@pytest.fixture
def scenes(tmp_path):
    rng = np.random.default_rng(0)
    for folder in ("images", "labels"):
        (tmp_path / "pets" / folder).mkdir(parents=True)
    for name in "ab":
        bright = np.kron(rng.random((3, 4)) < 0.5, np.ones((8, 8), bool))
        pixels = np.where(bright[..., None], 220, 40) + rng.integers(-20, 20, (24, 32, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "pets" / "images" / f"{name}.png")
        Image.fromarray(bright.astype(np.uint8)).save(tmp_path / "pets" / "labels" / f"{name}.png")
    return load(f"pets:{tmp_path / 'pets'}")


def test_a_table_runs_with_the_papers_numbers_beside(scenes, tmp_path):
    made = []

    def at(scale):
        made.append(scale)
        return MultiScale(Grey().eval(), [float(scale)]).eval()

    models = {f"{kind}-scale{scale}": partial(at, scale) for kind in ("base", "non-robust") for scale in ("0.25", "1")}
    table = reproduce(
        paper_table("table1"), lambda normals: scenes, models=models, out=tmp_path / "out", heads=["0.25", "1"]
    )
    assert made == ["0.25", "0.25", "1", "1"] * 2  # all are tried before the first is evaluated
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(models)
    assert len(table.rows) == 13
    assert table.heads[:5] == ("scale", "setting", "R", "acc", "paper acc")
    base = next(row for row in table.rows if row[1] == "base model")
    assert float(base[3]) > 0.9
    certified = next(row for row in table.rows if row[1] == "sigma=0.25, n=100, tau=0.75")
    assert certified[2] == "0.168"
    assert certified[4] == ""  # pets is not in the paper
    assert "| 0.25 |" in table.markdown()


def test_tables_of_images_take_no_clouds(tmp_path):
    clouds, models = load("shapes:?count=1&points=64"), {"base-scale0.25": lambda: Grey().eval()}
    with pytest.raises(InputError, match=r"table1 is of images, but .* holds inputs of shape \(64, 3\)"):
        reproduce(paper_table("table1"), lambda normals: clouds, models=models, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_papers_numbers_show_for_its_data_sets(scenes, tmp_path):
    from dataclasses import replace

    renamed = replace(scenes.limit(1), name="cityscapes/val")
    table = reproduce(
        paper_table("bonferroni"),
        lambda normals: renamed,
        models={"base-scale0.25": lambda: Grey().eval()},
        out=tmp_path / "out",
        heads=["0.25"],
    )
    assert [row[4] for row in table.rows] == ["-0.0008", "-0.0014", "-0.0021"]
    for row in table.rows:
        assert float(row[3]) <= 0 <= float(row[7])  # Bonferroni never certifies more


def test_rows_that_the_paper_leaves_empty_are_skipped():
    """At n = 10000 Table 1 has numbers of Pascal Context alone; the Bonferroni table has none of Pascal Context."""
    table = paper_table("table1-extended")
    kept = table.on("cityscapes").rows
    skipped = [row for row in table.rows if row not in kept]
    assert {(row.head, row.setting.n) for row in skipped} == {("0.25", 10_000)}
    assert len(skipped) == 3
    assert table.on("pascal-context") == table.on("pets") == table
    assert paper_table("bonferroni").on("pascal-context") == paper_table("bonferroni")


def test_skipped_rows_are_not_evaluated(scenes, tmp_path):
    from dataclasses import replace

    renamed = replace(scenes.limit(1), name="cityscapes/val")
    table = replace(paper_table("table1-extended"), rows=paper_table("table1-extended").rows[10:14])
    shown = reproduce(
        table, lambda normals: renamed, models={"base-scale0.25": lambda: Grey().eval()}, out=tmp_path / "out"
    )
    assert [row[1] for row in shown.rows] == ["sigma=0.5, n=500, tau=0.95"]
    assert (
        max(setting["n"] for setting in Run.load(tmp_path / "out" / "base-scale0.25").configuration["settings"]) == 500
    )
