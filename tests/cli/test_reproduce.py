"""`segcertify reproduce`; the tables are tested in tests/reproduce."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest
import trees
from rich.console import Console

from segcertify.claims import Claim
from segcertify.cli import printing, reproduce
from segcertify.noise import Gaussian
from segcertify.report.summary import Row
from segcertify.reproduce.comparison import _beside
from segcertify.reproduce.paper_tables import CLOUDS, IMAGES, paper_table

GREY = """
import torch
def make():
    return lambda batch: torch.stack([0.5 - batch.mean(1), batch.mean(1) - 0.5], 1)
"""
SIZES = """
from pathlib import Path
import torch
seen = set()
def make():
    def model(batch):
        seen.add(f"{batch.shape[2]}x{batch.shape[3]}")
        Path("sizes.txt").write_text(" ".join(sorted(seen)))
        return torch.stack([batch.mean(1), batch.mean(1) - 9], 1)
    return model
"""
HALVES = "def make():\n    return lambda batch: (batch[..., 0] > 0).long()\n"


def test_toy_quick(segcertify, folder):
    assert "text" in segcertify("reproduce", "toy", "--quick", "--out", "toy").text
    assert list((folder / "toy").glob("*.png"))


def test_the_command_line_has_every_table():
    assert tuple(reproduce.IMAGES) == IMAGES
    assert tuple(reproduce.CLOUDS) == CLOUDS


@pytest.fixture
def images(segcertify, folder):
    """A function that runs a table of images."""
    (folder / "grey_model.py").write_text(GREY)
    trees.pets(folder / "pets")
    options = ["--data", "pets:pets", "--model", "python:grey_model:make", "--device", "cpu", "--limit", "1"]
    return lambda *arguments, code=0: segcertify("reproduce", *arguments, *options, code=code)


def test_figure_3(images, folder):
    images("tau-sweep")
    out = folder / "reproduce" / "tau-sweep"
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"base-scale0.25"}
    assert {path.suffix for path in out.iterdir() if path.is_file()} == {".md", ".tex", ".csv", ".png"}
    shown = (out / "tau-sweep.csv").read_text().splitlines()
    assert shown[1].startswith('0.25,"sigma=0.25, n=300, tau=0.5",0,')


def test_rows_can_be_chosen(images, folder):
    images("bonferroni", "--rows", "sigma=0.25", "--rows", "sigma=0.5,tau=0.75", "--scale", "0.25")
    out = folder / "reproduce" / "bonferroni-sigma=0.25-sigma=0.5,tau=0.75"
    rows = (out / "bonferroni.csv").read_text().splitlines()[1:]
    assert [row.split('"')[1] for row in rows] == ["sigma=0.25, n=100, tau=0.75", "sigma=0.5, n=100, tau=0.75"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("sigma=0.3", "unknown sigma '0.3' of table1: did you mean '0.33'? Use 0.25, 0.33 or 0.5"),
        ("n=500,tau=0.75", "no row of table1 has n=500,tau=0.75: leave one of these values out"),
        ("scale=1", "unknown name 'scale' in --rows scale=1: use sigma, n or tau"),
        ("n=many", "--rows n=many holds no number"),
    ],
)
def test_rows_that_the_table_does_not_have_are_refused(images, rows, message):
    assert message in images("table1", "--rows", rows, code=2).text


def test_json_has_the_papers_numbers_by_name(clouds):
    model = "0.25=python:halves_model:make"
    shown = clouds("table2-bonferroni", "--named-model", model, "--rows", "n=1000,sigma=0.25", "--json")
    first = shown.json["table"][0]
    assert (first["setting"], first["paper acc"]) == ("sigma=0.25, n=1000, tau=0.75", -0.0012)
    assert first["paper abstained"] == 0.0019


@pytest.mark.parametrize("name", [*IMAGES, *CLOUDS])
def test_eighty_columns_break_no_number(name, monkeypatch, capsys):
    """Every cell of every table of the paper, with wide numbers of ours, stands whole on a line of 80 columns."""
    table = paper_table(name)
    row = Row(**dict.fromkeys(Row.__dataclass_fields__, 0.1234) | dict.fromkeys(("n", "scenes"), 10000))
    claim = Claim.named("holm", 0.001, Gaussian(0.25))
    row = replace(row, radius=0.168622, sampling_seconds=1040.55, testing_seconds=0.0, categories=(), claim=claim)
    ours = {(each.model, each.noise, each.setting): [row, row] for each in table.rows}
    shown = _beside(table, table.rows, ours, {"cityscapes/val": 100})
    monkeypatch.setattr(printing, "console", Console(width=80))
    printing.print_table(replace(shown, notes=()))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    words = Counter(word for line in lines for word in re.split(r"[\s│┃]+", line))
    wanted = Counter(word for cells in shown.rows for cell in cells for word in cell.split())
    assert {word: words[word] for word in wanted if words[word] < wanted[word]} == {}


def test_pascal_context_is_as_released(segcertify, folder):
    """The images are every 51st of the annotations; the network gets 520 x 0.25 = 130 pixels of each 480 x 480."""
    (folder / "sizes_model.py").write_text(SIZES)
    trees.pascal_context(folder / "pascal")
    names = ["2010_006086", "2008_000026", "2008_000008"]
    trees.pascal_in_detail(folder / "pascal", dict.fromkeys(names, "val"))
    command = ["reproduce", "table1", "--model", "python:sizes_model:make", "--scale", "0.25", "--device", "cpu"]
    chosen = ["--rows", "n=100,sigma=0.25", "--limit", "1", "--out", "out"]
    shown = segcertify(*command, *chosen, "--data", "pascal-context:pascal").text
    assert "1 scene of pascal-context/val in the order of trainval_merged.json" in " ".join(shown.split())
    records = [json.loads(line) for line in (folder / "out/base-scale0.25/records.jsonl").read_text().splitlines()]
    assert {record["id"] for record in records} == {names[0]}
    assert (folder / "sizes.txt").read_text().split() == ["130x130"]
    assert reproduce._scenes("pascal-context:pascal", False, every=2, limit=None).ids == (names[0], names[2])
    (folder / "pascal/VOCdevkit/VOC2010/trainval_merged.json").unlink()
    refused = segcertify(*command, "--data", "pascal-context:pascal", code=2).text
    assert "write order=list for the order of the lists" in " ".join(refused.split())


def test_unknown_scales_are_refused(images):
    assert "unknown scale '3' of bonferroni" in images("bonferroni", "--scale", "3", code=2).text


@pytest.fixture
def clouds(segcertify, folder):
    """A function that runs a table of clouds."""
    (folder / "halves_model.py").write_text(HALVES)
    trees.shapenet(folder / "shapenet")

    def run(*arguments, data="shapenet:shapenet?points=16", code=0):
        return segcertify("reproduce", *arguments, "--data", data, "--limit", "1", code=code)

    return run


def test_figure_4(clouds, folder):
    clouds("tau-sweep-clouds", "--named-model", "0.25-normals=python:halves_model:make")
    out = folder / "reproduce" / "tau-sweep-clouds"
    assert {path.suffix for path in out.iterdir() if path.is_file()} == {".md", ".tex", ".csv", ".png"}
    shown = (out / "tau-sweep-clouds.csv").read_text().splitlines()
    assert shown[1].startswith('0.25-normals,"sigma=0.25, n=10000, tau=0.5",0,')
    assert "0.87" in shown[1]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["pointnet2:x.pth"], "takes NAME=SPEC"),
        (["pointnet2:x.pth?runs=1"], "takes NAME=SPEC"),
        (["0.5=pointnet2:a", "0.5=pointnet2:b"], "names a model twice"),
    ],
)
def test_bad_models(clouds, models, message):
    arguments = [part for text in models for part in ("--named-model", text)]
    assert message in clouds("table2", *arguments, code=2).text


NORMALS = ("rotation", "--named-model", "0.5-normals=python:halves_model:make")


def test_the_models_say_whether_there_are_normals(clouds):
    shown = clouds(*NORMALS, data="shapenet:shapenet?normals=true", code=2).text
    assert "leave normals out of 'shapenet:shapenet?normals=true'" in shown


def test_every_0th_cloud_is_refused(clouds):
    assert "but got 0" in clouds(*NORMALS, "--every", "0", code=2).text


def test_a_table_shows_the_numbers_of_a_file_of_results(segcertify, folder):
    row = dict.fromkeys(("sigma", "n", "tau", "correction", "radius"))
    row |= dict.fromkeys(("miou_per_image", "miou_pooled", "miou_worst_case", "abstained", "abstained_all"), 0.0)
    row |= {"scenes": 6, "accuracy": 0.7654, "sampling_seconds": 1.0, "testing_seconds": 0.0, "categories": []}
    run = {"noise": "gaussian", "n0": 100, "alpha": 0.001, "rows": [row]}
    model = {"name": "non-robust", "data": "shapenet/val", "scenes": 6, "runs": [run]}
    (folder / "results.json").write_text(json.dumps({"models": [model]}))
    shown = segcertify("reproduce", "table2", "--results", "results.json").text
    assert "0.7654" in shown
    assert "not the same test" in " ".join(shown.split())
    assert not (folder / "reproduce").exists()
    assert not (folder / "reproduce").exists()
    written = segcertify("reproduce", "table2", "--results", "results.json", "--out", "tables", "--json").json["files"]
    assert (folder / "tables" / "table2.md").is_file()
    assert "tables/table2.md" in written
    assert "no file of results at none.json" in segcertify("reproduce", "table2", "--results", "none.json", code=2).text
    (folder / "results.json").write_text("{}")
    assert "holds no results" in segcertify("reproduce", "rotation", "--results", "results.json", code=2).text
    assert "--named-model, or --results" in segcertify("reproduce", "table2", code=2).text
