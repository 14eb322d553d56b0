"""Sets in evaluations: their records against single calls, resuming, baselines, tables and pictures."""

import json
from dataclasses import replace

import evaluated
import numpy as np
import pytest
import torch
import trees

import segcertify as sc
from segcertify import metrics
from segcertify.data import load
from segcertify.evaluation import Setting, evaluate
from segcertify.evaluation.sets import set_methods
from segcertify.records import SETS, RunFolder
from segcertify.report.run import Run
from segcertify.sets.class_trees import TREES, tree_levels
from segcertify.sets.groups import certify_by_gap, certify_groups

SETTINGS = [Setting(0.1, 60, 0.75), Setting(0.1, 120, 0.75), Setting(0.3, 150, 0.9)]


def brightness(batch):
    """Dark is background; whether light is cat or dog depends on the noise."""
    grey, side = batch.mean(1), 0.1 * (batch[:, 0] - batch[:, 1])
    return torch.stack([0.5 - grey, grey - 0.5 + side, grey - 0.5 - side], 1)


def labels_only(batch):
    return brightness(batch).argmax(1)


@pytest.fixture
def pets(tmp_path):
    return load(f"pets:{evaluated.pets(tmp_path / 'pets')}")


@pytest.mark.filterwarnings("ignore:n=150 can certify nothing")
def test_records_are_what_single_calls_give(pets, tmp_path):
    run = evaluate(brightness, pets, out=tmp_path / "run", settings=SETTINGS, seed=3, sets=True)
    plain = evaluate(brightness, pets, out=tmp_path / "plain", settings=SETTINGS, seed=3)
    records = [record for record in run.records if record.kind == "sets"]
    assert len(records) == 5 * len(SETTINGS) * len(SETS)
    assert evaluated.plain(plain.records) == evaluated.plain(r for r in run.records if r.kind != "sets")
    levels = tree_levels(TREES["pets"], pets.classes)
    for scene in pets:
        for setting in SETTINGS:
            votes = sc.sample(
                brightness, scene.x, noise=sc.Gaussian(setting.sigma), n=setting.n, seed=3, input_id=scene.id,
                counts=True,
            )  # fmt: skip
            of_sets = sc.certify_sets(votes, tau=setting.tau, alpha=0.001)
            expected = {
                "exclusion": of_sets,
                "nested groups": certify_groups(votes, levels, tau=setting.tau, alpha=0.001),
                "posterior gap": certify_by_gap(votes, levels, tau=setting.tau, alpha=0.001),
            }
            for method, certificate in expected.items():
                key = (scene.id, setting.sigma, setting.n, setting.tau, method)
                [record] = [r for r in records if (r.id, r.sigma, r.n, r.tau, r.method) == key]
                counts = metrics.set_counts(certificate, scene.target, scene.valid, classes=3)
                assert record.sets == metrics.sets_to_plain(counts)
                assert (record.radius, record.N, record.abstained) == (of_sets.radius, 192, (
                    certificate.labels < 0).sum())  # fmt: skip


def test_scores_of_all_scenes_are_pooled(pets, tmp_path):
    run = evaluate(brightness, pets, out=tmp_path / "run", settings=SETTINGS, seed=3, sets=True)
    by_hand = None
    for record in run.records:
        if (record.kind, record.method, record.n) == ("sets", "exclusion", 120):
            counts = metrics.sets_from_plain(record.sets)
            by_hand = counts if by_hand is None else by_hand + counts
    [row] = [row for row in run.set_rows if (row.method, row.n) == ("exclusion", 120)]
    assert row.scores == metrics.set_scores(by_hand)
    assert row.scenes == 5
    assert 0 < row.scores.certified < row.scores.at_most_2


def test_the_tables(pets, tmp_path):
    run = evaluate(brightness, pets, out=tmp_path / "run", settings=SETTINGS[1:2], seed=3, sets=True)
    table = run.set_table()
    assert table.title == "Sets, majority or nothing: function on pets/trainval"
    together = (
        "certified label", "at most 1 label", "at most 2", "at most 3", "truth in set", "information gain",
        "mIoU worst case, majority or nothing",
    )  # fmt: skip
    assert set(together) <= set(table.heads)
    assert [row[1] for row in table.rows] == list(SETS)
    [claim] = [note for note in table.notes if note.startswith("With probability")]
    assert claim.startswith("With probability at least 0.995 over the noise draws, for all tested components of all 5")
    worst = float(table.rows[0][table.heads.index(together[-1])])
    assert worst <= run.set_rows[0].scores.worst_case_miou < worst + 1e-4
    assert [row[0] for row in run.set_class_table().rows] == ["background", "cat", "dog"]
    named = run.named_set_table()
    assert "animal" in [row[1] for row in named.rows]  # cat or dog
    assert run.set_table() is not None
    for made in (table, run.set_class_table(), named):
        assert len({len(row) for row in (made.heads, *made.rows)}) == 1


def test_a_run_without_sets_has_no_table_of_them(pets, tmp_path):
    run = evaluate(brightness, pets.limit(1), out=tmp_path / "run", settings=SETTINGS[:1], seed=3)
    assert (run.set_rows, run.set_table(), run.set_class_table(), run.named_set_table()) == ([], None, None, None)
    with pytest.raises(sc.InputError, match="sets"):
        evaluate(brightness, pets.limit(1), out=tmp_path / "run", settings=SETTINGS[:1], seed=3, sets=True)


def test_a_killed_run_resumes_to_the_same_records(pets, tmp_path):
    """In the middle of a scene's draws, with counts at several n."""
    calls, options = [], {"settings": SETTINGS, "seed": 3, "sets": True, "batch_size": 8}

    def mortal(batch):
        calls.append(len(batch))
        if len(calls) == 60:
            raise KeyboardInterrupt
        return brightness(batch)

    whole = evaluate(brightness, pets.limit(2), out=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        evaluate(mortal, pets.limit(2), out=tmp_path / "run", **options)
    resumed = evaluate(mortal, pets.limit(2), out=tmp_path / "run", **options)
    assert evaluated.plain(resumed.records) == evaluated.plain(whole.records)


def test_methods_need_a_tree(pets, tmp_path):
    unknown = replace(pets, classes=("a", "b", "c"))
    assert set_methods(pets, wanted=True) == SETS
    assert set_methods(pets, wanted=False) == ()
    assert set_methods(unknown, wanted=True) == ("exclusion",)
    run = evaluate(brightness, unknown.limit(1), out=tmp_path / "run", settings=SETTINGS[1:2], seed=3, sets=True)
    assert [row.method for row in run.set_rows] == ["exclusion"]
    assert all("or" in row[1] or row[1] == "any" for row in run.named_set_table().rows)


def test_a_model_that_gives_labels(pets, tmp_path):
    """Its number of classes is not known, and some never came up: sets of those are excluded, groups hold them."""
    run = evaluate(labels_only, pets.limit(2), out=tmp_path / "run", settings=SETTINGS[1:2], seed=3, sets=True)
    known = evaluate(brightness, pets.limit(2), out=tmp_path / "known", settings=SETTINGS[1:2], seed=3, sets=True)
    for row, other in zip(run.set_rows, known.set_rows, strict=True):
        assert row.scores.certified == other.scores.certified
        assert row.scores.at_most_2 <= other.scores.at_most_2  # m is not cut at 3 classes


@pytest.mark.filterwarnings("ignore:n=60 can certify nothing")
def test_too_few_draws_are_full_sets(pets, tmp_path):
    run = evaluate(brightness, pets.limit(1), out=tmp_path / "run", settings=[(0.1, 60, 0.95)], seed=3, sets=True)
    for row in run.set_rows:
        assert (row.scores.certified, row.scores.at_most_2, row.scores.truth_in_set) == (0.0, 0.0, 1.0)
        assert row.scores.information_gain == 0.0
    assert run.named_set_table().rows[0][1] == "any"


def test_sets_of_clouds(tmp_path):
    shapes = load(f"shapenet:{trees.shapenet(tmp_path / 'shapenet')}?points=64&normals=true")

    def halves(batch):
        return (batch[..., 0] < 0).long()

    run = evaluate(
        halves, shapes.limit(1), out=tmp_path / "run", settings=[(0.1, 80, 0.75)], seed=3, sets=True, save_pictures=True
    )
    [row] = run.set_rows
    assert (row.method, row.counts.valid) == ("exclusion", 64)
    assert not list((tmp_path / "run" / "certified").glob("*sets*"))


def test_pictures_and_votes(pets, tmp_path):
    evaluate(
        brightness, pets.limit(1), out=tmp_path / "run", settings=SETTINGS, seed=3, sets=True, save_pictures=True,
        save_votes=True,
    )  # fmt: skip
    folder = RunFolder(tmp_path / "run", pets.limit(1).ids)
    for setting in SETTINGS:
        assert (
            folder.pictures("a", setting, "sets")
            .with_name(f"{folder.pictures('a', setting, 'sets').name}.png")
            .is_file()
        )
    votes = sc.Votes.load(folder.votes("a", 0.1))
    assert votes.at(60).counts is not None
    assert votes.at(60).pilot_counts is not None


def test_damaged_records_are_refused(pets, tmp_path):
    run = evaluate(brightness, pets.limit(1), out=tmp_path / "run", settings=SETTINGS[:1], seed=3, sets=True)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["sets"] == list(SETS)
    [first, *_] = [record for record in run.records if record.kind == "sets"]
    others = tuple(record for record in run.records if record.kind != "sets")
    for sets in (first.sets | {"valid": -3}, first.sets | {"truth": [1, 2]}, {"classes": 3}):
        with pytest.raises(sc.InputError, match="not counts of sets"):
            _ = Run(run.configuration, (*others, replace(first, sets=sets))).set_rows
    with pytest.raises(sc.InputError, match="lack their setting"):
        _ = Run(run.configuration, (*others, replace(first, tau=None))).set_rows
    far = replace(first, radius=9.0)
    with pytest.raises(sc.InputError, match="have the radii"):
        _ = Run(run.configuration, (*others, far)).set_rows


def test_bounds_are_dashes_where_no_radius_is_proven(pets, tmp_path):
    run = evaluate(brightness, pets.limit(1), out=tmp_path / "run", settings=SETTINGS[1:2], seed=3, sets=True)
    unknown = Run(run.configuration | {"noises": None, "noise": "my noise"}, run.records)
    table = unknown.set_table()
    for head in ("R", "certified and right", "mIoU worst case, majority or nothing"):
        assert {row[table.heads.index(head)] for row in table.rows} == {"-"}
    assert any(note.startswith("No robustness certificate") for note in table.notes)
    assert np.isfinite(unknown.set_rows[0].scores.worst_case_miou)
