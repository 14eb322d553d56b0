"""`segcertify reproduce`; the tables are tested in tests/reproduce."""

import pytest
import trees

from segcertify.cli import reproduce
from segcertify.reproduce.paper_tables import CLOUDS, IMAGES

GREY = """
import torch
def make():
    return lambda batch: torch.stack([0.5 - batch.mean(1), batch.mean(1) - 0.5], 1)
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
    assert shown[1].startswith('0.25,"sigma=0.25, n=300, tau=0.75",0.168,')


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
