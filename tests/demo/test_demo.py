"""The demo: one run of the command, what it prints, writes and proves."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from browser import data_of
from PIL import Image

import segcertify as sc
from segcertify.demo import Cat, Demo, photograph
from segcertify.figures.image import steps_figure
from segcertify.sampling.segmenter import predict

CAT = 1
COLOURS = np.array([[0.2, 0.2, 0.2], [0.9, 0.5, 0.2], [0.0, 0.4, 0.7]])
NAMES = ("background", "cat", "dog")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The folder that the command wrote, and its words. One thread, as in these tests, for the same rounding."""
    folder = tmp_path_factory.mktemp("demo")
    arguments = [sys.executable, "-c", "from segcertify.cli import main; main()", "demo", "--out", "out"]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "out", " ".join(result.stdout.split())


@pytest.fixture(scope="module")
def certificate(command):
    return sc.Certificate.load(command[0] / "certificate.safetensors")


@pytest.fixture(scope="module")
def model():
    return sc.models.load("pets")


def test_the_photograph():
    x = photograph()
    assert tuple(x.shape) == (3, 160, 241)
    assert 0 <= x.min() < 0.1
    assert 0.8 < x.max() <= 1


def test_most_of_the_cat_is_certified(certificate, model):
    """Over eight runs of independent noise, 85 to 91 % of the pixels were certified, 75 to 76 % as cat."""
    assert certificate.labels.shape == (160, 241)
    assert certificate.labels.size == certificate.N
    assert certificate.radius == pytest.approx(0.25 * 0.67449, rel=1e-4)
    assert certificate.guarantee == "fwer"
    assert set(np.unique(certificate.labels)) <= {sc.ABSTAIN, *range(len(sc.models.card_of(model).classes))}
    assert (certificate.labels == CAT).mean() > 0.7
    assert 0.8 < certificate.certified / certificate.N < 1


def test_the_same_seed_gives_the_same_certificate(certificate, model):
    again = sc.certify(model, photograph(), sigma=0.25, tau=0.75, n=100, n0=10, alpha=0.001, seed=0)
    np.testing.assert_array_equal(again.labels, certificate.labels)
    assert certificate.units in certificate.claim
    assert again.claim == replace(certificate, preprocessing=None).claim


def test_the_sentence_and_the_table_are_the_certificates(command, certificate, model):
    prediction = predict(model, photograph()[None])[0].numpy()
    demo = Demo(Cat(), certificate, prediction, files=())
    _, shown = command
    assert demo.sentence in shown
    share = certificate.certified / certificate.N
    assert f"Exactly: {certificate.claim}" in shown
    assert f"{certificate.certified:,} of 38,560 pixels at 160 x 241 ({share:.1%})" in demo.sentence
    for words in ("at least 99.9%", "up to 0.315 in l2 norm", "the file's 300 x 451 pixels", "80 of 255 steps"):
        assert words in demo.sentence
    rows = {row[0]: row[1:] for row in demo.table.rows}
    assert list(rows) == ["background", "cat", "abstained"]
    assert rows["cat"][0] == f"{(certificate.labels == CAT).sum():,} ({(certificate.labels == CAT).mean():.1%})"
    assert rows["cat"][1] == f"{(prediction == CAT).sum():,} ({(prediction == CAT).mean():.1%})"
    assert rows["abstained"][1] == "0 (0.0%)"
    for name, (certified, alone) in rows.items():
        assert re.search(rf"{name}\W+{re.escape(certified)}\W+{re.escape(alone)}", shown)


def test_it_says_what_it_wrote_and_how_long_it_took(command):
    folder, shown = command
    assert {file.name for file in folder.iterdir()} == {
        "certified.png", "certified.html", "certificate.safetensors",
    }  # fmt: skip
    assert "wrote out/certified.png wrote out/certified.html wrote out/certificate.safetensors" in shown
    data = data_of(folder / "certified.html")
    assert data["sentence"] in shown
    assert [part["name"] for part in data["parts"]] == ["background", "cat"]
    assert re.search(r"took \d+\.\d s on the CPU$", shown)
    with Image.open(folder / "certified.png") as picture:
        assert picture.size[0] == 1800
        assert len(picture.getcolors(maxcolors=2**20)) > 1000


@pytest.fixture
def figure():
    """Of an image whose left half is certified as cat, with a single dog for the model."""
    votes = sc.Votes(
        np.ones((20, 30), int), np.tile([100] * 15 + [50] * 15, (20, 1)), n=100, n0=1, noise=sc.Gaussian(0.25)
    )
    labels = np.ones((20, 30), int)
    labels[3, 4] = 2
    x = np.full((3, 20, 30), 0.5)
    cert = sc.certify_votes(votes, tau=0.75, alpha=0.001)
    return steps_figure(x, x + 1, labels, cert, colours=COLOURS, names=NAMES)


def test_the_panels(figure):
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["photograph, 20 x 30", "1 of 100 noisy copies", "the model's labels for it", "certified: 50.0%"]
    _, noisy, labels, certified = (axes.images[0].get_array() for axes in figure.axes)
    assert (noisy == 1).all()
    times = len(labels) // 20
    lines = certified[:, 15 * times :]
    assert set(np.unique(lines.round(6))) == {0.22, 0.85}  # a hatch on grey
    np.testing.assert_allclose(certified[0, 0], 0.7 * COLOURS[1] + 0.3 * 0.5)
    np.testing.assert_allclose(labels[3 * times, 4 * times], 0.7 * COLOURS[2] + 0.3 * 0.5)


def test_the_legend_names_what_is_to_be_seen(figure):
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cat", "dog", "abstained: nothing is promised"]
    assert "300 of 600 components (50.0%) all keep their label" in " ".join(figure.get_suptitle().split())
    assert "the coloured pixels all keep their label" in " ".join(figure.get_supxlabel().split())


def test_nothing_in_the_figure_overlaps(figure):
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    boxes = [figure._suptitle.get_window_extent(renderer), figure.legends[0].get_window_extent(renderer)]
    boxes += [axes.get_tightbbox(renderer) for axes in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
