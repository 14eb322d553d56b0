"""The page on what the same draws certify: from sampling over JSON to Markdown."""

import json
from pathlib import Path

import numpy as np
import pytest
import same_draws
import torch
import trees
from page import FILE, PAGE

import segcertify as sc
from segcertify.data import load
from segcertify.errors import InputError
from segcertify.metrics import from_plain

SETTINGS = ((40, 0.6), (60, 0.6))


def halves(batch):
    """Class 1 where a pixel is bright, class 2 at a few places: uncertain at many of them."""
    return torch.where(batch[:, 0] > 0.8, 2, (batch[:, 1] > 0.5).long())


@pytest.fixture
def small(monkeypatch):
    """Few draws, at a tau at which they certify."""
    monkeypatch.setattr(same_draws, "SETTINGS", SETTINGS)
    monkeypatch.setattr(same_draws, "METRIC_RADII", ((40, 0.6), (60, 0.6), (80, 0.6)))
    monkeypatch.setattr(same_draws, "N", 80)
    monkeypatch.setattr(same_draws, "ALPHA", 0.1)
    monkeypatch.setattr(same_draws, "BUDGET", 20)


@pytest.fixture
def data(tmp_path):
    return load(f"pets:{trees.pets(tmp_path / 'pets')}")


def test_every_row_is_what_the_library_gives_for_draws_of_its_own(small, data):
    """Labels and counts of the first n of N draws are those of a run of n draws, and so are the certificates."""
    smooth, scene = sc.Smooth(halves, sigma=0.25, seed=0), data[0]
    found = same_draws.of_scene(smooth, scene, 3)
    for n, tau in SETTINGS:
        votes = smooth.votes(scene.x, n=n, n0=same_draws.N0, input_id=scene.id, counts=True, classes=3)
        labels = sc.certify_votes(votes, tau=tau, alpha=0.1)
        right = int(((labels.labels == scene.target) & scene.valid).sum())
        assert 0 < np.trace(from_plain(found[str(n)]["labels"])) == right
        sets = sc.certify_sets(votes, tau=tau, alpha=0.1)
        assert found[str(n)]["sets"]["certified"] == int(((sets.labels >= 0) & scene.valid).sum())
        assert found[str(n)]["sets"]["of_size"][1] == int(((sets.sizes <= 2) & scene.valid).sum())
        assert found[str(n)]["map"] <= found[str(n)]["capped map"] <= right


def test_looks_are_those_of_a_run_that_stops(small, data):
    smooth, scene = sc.Smooth(halves, sigma=0.25, seed=0), data[0]
    found = same_draws.of_scene(smooth, scene, 3)["looks"]
    ended = smooth.certify(scene.x, tau=0.75, n=80, n0=10, alpha=0.1, input_id=scene.id, looks=4, until=0.9)
    right = int(((ended.labels == scene.target) & scene.valid).sum())
    assert found["looks, until 90 %"]["draws"] == ended.n
    assert np.trace(from_plain(found["looks, until 90 %"]["matrix"])) == right


def test_from_scenes_to_the_page(small, data, tmp_path, monkeypatch):
    monkeypatch.setattr(sc.models, "load", lambda spec: halves)
    arguments = [
        "--data",
        f"pets:{tmp_path / 'pets'}",
        "--limit",
        "2",
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
    ]
    same_draws.main(arguments)
    results, text = json.loads((tmp_path / "out" / FILE).read_text()), (tmp_path / "out" / PAGE).read_text()
    assert len(results["scenes"]) == 2
    for head in ("### Labels", "### Sets", "### Looks in 90 runs", "### Metrics"):
        assert head in text
    assert text.count("| sets, no pilot |") == len(SETTINGS)
    assert "holds with probability at least 0.8" in text
    assert str(tmp_path) not in text
    monkeypatch.setattr(same_draws, "of_scene", None)  # the same call again takes what is there
    same_draws.main(arguments)
    same_draws.main(["--render", str(tmp_path / "out")])
    assert (tmp_path / "out" / PAGE).read_text() == text
    with pytest.raises(InputError, match="is of another run"):
        same_draws.main([*arguments, "--seed", "1"])


@pytest.mark.parametrize("name", ["camvid", "pets"])
def test_committed_pages_are_what_the_results_give(name, tmp_path):
    folder = Path(__file__).parents[2] / "results" / "power" / name
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes())
    same_draws.main(["--render", str(tmp_path)])
    assert (tmp_path / PAGE).read_text() == (folder / PAGE).read_text()


def test_bad_options():
    with pytest.raises(InputError, match="name scenes and a folder"):
        same_draws.main([])
