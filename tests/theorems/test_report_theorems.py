"""What reports say of false discovery rates, beside what such labels do: replicates of known probabilities."""

import re

import numpy as np
import pytest

import segcertify as sc
from segcertify import metrics
from segcertify.records import Record
from segcertify.report.charts import charts
from segcertify.report.figures import attacked_figure, radius_figure
from segcertify.report.run import Run

pytestmark = pytest.mark.statistical

TAU, ALPHA, REPLICATES, N, DRAWS = 0.75, 0.01, 60, 4000, 200
FAMILY_WISE = re.compile(r"with probability at least|lower bound|hold together|hold for all|all keep", re.IGNORECASE)
"""Words that only a family-wise guarantee of a proven noise may have."""


def replicates(correction, *, k=None):
    """Certificates of 60 draws of the counts: half of the components have p just below tau, the others 0.9."""
    rng = np.random.default_rng(0)
    p = np.repeat([TAU - 1e-9, 0.9], N // 2)
    for _ in range(REPLICATES):
        votes = sc.Votes(np.zeros(N, int), rng.binomial(DRAWS, p), n=DRAWS, n0=1, noise=sc.Gaussian(0.25))
        yield votes, sc.certify_votes(votes, tau=TAU, alpha=ALPHA, correction=correction, k=k)


def false_labels(certificate):
    """How many labels are certified whose probability is below tau: moved by R, a half-space's falls below 1/2."""
    return int((certificate.labels[: N // 2] == 0).sum())


def test_what_labels_of_a_false_discovery_rate_do(rate_exceeds):
    """Replicates in which every certified label holds: nearly all by Holm, hardly one by BH.

    Holm may fail in a share alpha of the replicates, with false alarms of 1e-6. A family-wise guarantee would make 10
    or more failures of 60 a chance of C(60, 10) 0.01^10 < 1e-9, so that BH and BY plainly give none.
    """
    held = {name: sum(not false_labels(each) for _, each in replicates(name)) for name in ("holm", "bh", "by")}
    assert not rate_exceeds(REPLICATES - held["holm"], REPLICATES, ALPHA), held
    assert held["bh"] <= 6, held
    assert held["by"] <= 50, held
    fewest = sum(false_labels(each) < 3 for _, each in replicates("k-fwer", k=3))
    assert not rate_exceeds(REPLICATES - fewest, REPLICATES, ALPHA), fewest


def run_of(*corrections, noise="gaussian"):
    """An evaluation of 60 scenes, each a replicate, under attack at half the radius."""
    records, valid = [], np.ones(N, bool)
    target = np.zeros(N, int)
    made = [replicates(name, k=3 if name == "k-fwer" else None) for name in corrections]
    for i, found in enumerate(zip(*made, strict=True)):
        about = {"id": str(i), "components": N, "valid": N}
        right = metrics.to_plain(metrics.confusion(target, target, valid, classes=2))
        votes, certificate = found[0]
        records.append(Record(kind="base", confusion=right, **about))
        records.append(Record(kind="attacked", confusion=right, radius=certificate.radius / 2, **about))
        counts = metrics.radius_counts(votes, target, valid).tolist()
        records.append(Record(kind="radius", sigma=0.25, n=DRAWS, N=N, correct=counts, **about))
        for name, (_, each) in zip(corrections, found, strict=True):
            matrix = metrics.to_plain(metrics.confusion(each.labels, target, valid, classes=2))
            setting = {"sigma": 0.25, "n": DRAWS, "tau": TAU, "correction": name, "radius": each.radius, "N": N}
            records.append(Record(kind="certified", confusion=matrix, abstained=N - each.certified, **about, **setting))
    configuration = {
        "model": "m", "data": "d", "scenes": "", "classes": ["a", "b"], "categories": {}, "alpha": ALPHA,
        "corrections": corrections, "noise": noise, "preprocessing": None, "seed_given": False,
        "k": 3 if "k-fwer" in corrections else None, "looks": None, "cap": None, "metrics": None,
        "settings": [{"sigma": 0.25, "n": DRAWS, "tau": TAU}],
        "attack": {"loss": "cross-entropy", "steps": 1, "restarts": 1, "smoothed": 0, "radii": []},
    }  # fmt: skip
    return Run(configuration, tuple(records))


def dots(figure):
    """The certificates that a figure shows."""
    return [line for line in figure.axes[0].lines if line.get_marker() == "o"]


def certified(attacked, row):
    """What a row of the table under attack says is certified: accuracy, IoU, and by what."""
    return tuple(cell for head, cell in zip(attacked.heads, row, strict=True) if head.startswith("certified"))


@pytest.mark.parametrize("correction", ["bh", "by"])
def test_no_row_of_a_false_discovery_rate_gets_its_words(correction):
    """Neither in tables nor in figures: no place among certificates, no worst case, no certified accuracy."""
    run = run_of(correction)
    table, attacked = run.table(), run.attacked_table()
    row = dict(zip(table.heads, table.rows[1], strict=True))
    assert (row["certified accuracy"], row["mIoU worst case"]) == ("-", "-")
    assert any("No robustness certificate" in note for note in table.notes)
    assert not FAMILY_WISE.search(table.markdown()), FAMILY_WISE.findall(table.markdown())
    assert not FAMILY_WISE.search(attacked.markdown()), FAMILY_WISE.findall(attacked.markdown())
    assert {certified(attacked, row) for row in attacked.rows} == {("-", "-", "-")}
    assert not dots(radius_figure([], run.rows, title=""))
    assert not dots(radius_figure(run.curves(), run.rows, title=""))
    assert not dots(attacked_figure(run.attacked_rows, run.curves(), run.rows, title=""))


def test_rows_with_an_error_budget_subtract_it():
    """At most 2 labels a scene are false, so that 120 are taken from the scores: what holds under attack is no less."""
    run = run_of("k-fwer")
    row, table = run.rows[1], run.table()
    found = [certificate for _, certificate in replicates("k-fwer", k=3)]
    holds = sum(each.certified - false_labels(each) for each in found) / (REPLICATES * N)
    assert row.certified_accuracy <= holds <= row.accuracy
    assert row.certified_accuracy == pytest.approx(row.accuracy - 2 / N)
    assert row.miou_worst_case <= row.certified_accuracy + 1e-12
    assert any("this budget is subtracted, 2 labels a scene and 120 in all" in note for note in table.notes)
    assert any("no single one is certified" in note for note in table.notes)
    [dot] = dots(radius_figure(run.curves(), run.rows, title=""))
    assert dot.get_ydata()[0] == row.certified_accuracy
    attacked = run.attacked_table()
    said = dict(zip(table.heads, table.rows[1], strict=True))["certified accuracy"]
    assert certified(attacked, attacked.rows[1])[0] == said


def test_rows_of_both_kinds_are_told_apart():
    run = run_of("holm", "bh", "k-fwer")
    _, holm, bh, k_fwer = run.rows
    notes, so_far = [], ""
    for note in run.table().notes:  # an exact claim stands below the plain words of its rows
        so_far = note if note.startswith("Rows of") else so_far
        notes.append(f"{so_far} {note}" if note.startswith("Exactly") else note)
    by_words = [note for note in notes if FAMILY_WISE.search(note) and "all but at most" not in note]
    assert len(by_words) == 2
    assert all("holm" in note and "bh" not in note and "k-fwer" not in note for note in by_words)
    assert [row.claim.family_wise for row in (holm, bh, k_fwer)] == [True, False, False]
    shown = [dot.get_ydata()[0] for dot in dots(radius_figure(run.curves(), run.rows, title=""))]
    assert shown == [holm.accuracy, k_fwer.certified_accuracy]


def test_a_dot_with_an_error_budget_says_so():
    """It is hollow, and the legend and the page say that all labels but a few hold; other dots are full."""
    run = run_of("holm", "bh", "k-fwer")
    words = "k-fwer: all but at most 2 labels a scene, which are subtracted"
    for figure in (
        radius_figure(run.curves(), run.rows, title=""),
        attacked_figure(run.attacked_rows, run.curves(), run.rows, title=""),
    ):
        holm, k_fwer = dots(figure)
        assert holm.get_markerfacecolor() != "white"
        assert k_fwer.get_markerfacecolor() == "white"
        assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()].count(words) == 1
    assert f"{words}." in charts(run)[0]["words"][-1]
    assert "all but" not in " ".join(charts(run_of("holm", "bh"))[0]["words"])
