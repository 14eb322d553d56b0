"""Which claim stands beside an attack, by hand."""

from pathlib import Path

import numpy as np
import pytest

from segcertify import metrics
from segcertify.claims import Claim
from segcertify.noise import Gaussian
from segcertify.records import Record
from segcertify.report.attacked import attacked_rows, attacked_table
from segcertify.report.figures import attacked_figure
from segcertify.report.run import Run
from segcertify.report.summary import summarize


def record(kind, right, **fields):
    """Ten components of class 0, of which some are right and the others of class 1."""
    labels = np.where(np.arange(10) < right, 0, 1)
    matrix = metrics.confusion(labels, np.zeros(10, int), np.ones(10, bool), classes=2)
    return Record("a", kind, components=10, valid=10, confusion=metrics.to_plain(matrix), **fields)


def certified(sigma, n, tau, *, radius, right, correction="holm"):
    return record("certified", right, sigma=sigma, n=n, tau=tau, radius=radius, correction=correction)


RECORDS = [
    record("base", 9),
    *(record("attacked", right, radius=radius) for radius, right in [(0.2, 7), (0.3, 5), (0.9, 0)]),
    *(
        record("attacked", right, sigma=0.5, n=50, radius=radius)
        for radius, right in [(0, 8), (0.2, 8), (0.3, 7), (0.9, 4)]
    ),
    certified(0.25, 100, 0.75, radius=0.2, right=8, correction="bh"),
    certified(0.25, 100, 0.75, radius=0.2, right=6),
    certified(0.25, 300, 0.75, radius=0.2, right=5),  # the better claim by its settings, the worse by its result
    certified(0.25, 300, 0.95, radius=0.4, right=4),
    certified(0.5, 100, 0.75, radius=0.3, right=3, correction="by"),
]
ATTACK = {"loss": "segpgd", "steps": 20, "restarts": 3, "smoothed": 50}


def claim_of(sigma, correction):
    return Claim.named(correction, 0.001, Gaussian(1.0))


@pytest.fixture
def rows():
    return summarize(RECORDS, {}, claim_of)


def test_claims_are_chosen_by_their_settings(rows):
    assert len(rows) == 6  # attacks are no settings
    found = attacked_rows(RECORDS, rows, {})
    assert [(s.radius, s.sigma) for s in found] == [(r, s) for r in (0, 0.2, 0.3, 0.9) for s in (0.25, 0.5)]
    assert [s.base.accuracy for s in found[::2]] == [0.9, 0.7, 0.5, 0.0]
    assert [s.certified and s.certified.accuracy for s in found[::2]] == [0.5, 0.5, 0.4, None]
    assert {s.certified for s in found[1::2]} == {None}  # a false discovery rate bounds nothing
    assert {s.smoothed for s in found[::2]} == {None}
    assert [s.smoothed.accuracy for s in found[1::2]] == [0.8, 0.8, 0.7, 0.4]
    assert attacked_rows([RECORDS[0]], rows, {}) == []


def test_table_and_figure_of_two_sigmas(rows):
    found = attacked_rows(RECORDS, rows, {})
    table = attacked_table(found, title="t", attack=ATTACK)
    assert table.rows[2] == ("0.2", "0.25", "0.5000", "0.5000", "n=300, tau=0.75, holm", "-", "-", "0.7000", "0.7000")
    assert table.rows[3] == ("0.2", "0.5", "-", "-", "-", "0.8000", "0.8000", "0.7000", "0.7000")
    assert "20 steps, 3 random starts" in table.notes[0]
    axes = attacked_figure(found, [], rows, title="t").axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert labels[:2] == ["base model under attack", "sigma = 0.5: smoothed model under attack"]
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [(0.2, 0.6), (0.2, 0.5), (0.4, 0.4)]


def test_radii_are_exact(rows):
    """A lower radius would be wrong beside the upper bounds, and a higher one beside the lower."""
    radius = Gaussian(0.25).radius(0.75)
    records = [RECORDS[0], record("attacked", 7, radius=radius)]
    table = attacked_table(attacked_rows(records, rows[:1], {}), title="t", attack=ATTACK)
    assert [float(row[0]) for row in table.rows] == [0, radius]


def test_the_base_model_alone():
    records = [RECORDS[0], *RECORDS[1:4]]
    found = attacked_rows(records, summarize(records, {}, claim_of), {})
    table = attacked_table(found, title="t", attack=ATTACK | {"smoothed": 0})
    assert table.heads[2:] == ("certified accuracy", "certified mIoU", "certified by", "base accuracy", "base mIoU")
    assert table.rows[1] == ("0.2", "-", "-", "-", "-", "0.7000", "0.7000")
    assert "lower bound" not in table.markdown()
    assert "fresh draws" not in table.markdown()


RUNS = sorted((Path(__file__).parents[2] / "results" / "attacks" / "evaluations").glob("*/config.json"))


@pytest.mark.parametrize("run", [path.parent for path in RUNS], ids=lambda run: run.name)
def test_committed_tables_are_what_the_records_give(run):
    assert (run / "report" / "attacked.md").read_text(encoding="utf-8") == Run.load(run).attacked_table().markdown()


def test_the_bundled_models_were_attacked():
    assert [path.parent.name for path in RUNS] == ["camvid-large", "camvid-large-non-robust", "pets", "pets-non-robust"]
