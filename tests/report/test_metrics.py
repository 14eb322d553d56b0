"""Metrics of an evaluation: records, tables and curves against single certificates; resuming and refusing."""

import evaluated
import numpy as np
import pytest
import torch
from PIL import Image

import segcertify as sc
from segcertify.data import load
from segcertify.evaluation import MetricSettings, evaluate
from segcertify.records import read_records
from segcertify.report.files import write_report
from segcertify.report.metrics import metric_curves, metric_rows

SETTINGS = [(0.1, 60, 0.75), (0.1, 120, 0.9), (0.3, 60, 0.95)]
METRICS = MetricSettings(("accuracy", "recall:cat", "agreement", "area:cat"))


def brightness(batch):
    grey = batch.mean(1)
    return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)


@pytest.fixture
def data(tmp_path):
    return load(f"pets:{evaluated.pets(tmp_path / 'pets')}").limit(2)


def made(data, out, **changes):
    return evaluate(brightness, data, out=out, **{"settings": SETTINGS, "metrics": METRICS, "seed": 3} | changes)


def test_bounds_are_those_of_single_certificates(data, tmp_path):
    run = made(data, tmp_path / "run")
    plain = evaluate(brightness, data, out=tmp_path / "plain", settings=SETTINGS, seed=3)
    assert evaluated.plain(r for r in run.records if r.kind != "metric") == evaluated.plain(plain.records)
    rows = metric_rows(run.records, run.configuration, run._noise_of)
    assert len(rows) == len(METRICS.names) * len(SETTINGS)
    for row in rows:
        found = []
        for scene in data:
            shown = brightness(torch.from_numpy(scene.x)[None]).argmax(1)[0].numpy()
            metric = {
                "accuracy": sc.metrics.overall_accuracy(scene.labels),
                "recall:cat": sc.metrics.recall(scene.labels, 1),
                "agreement": sc.metrics.agreement(shown),
                "area:cat": sc.metrics.area(1),
            }[row.metric]
            values = sc.certify_metric(
                brightness, scene.x, metric, sigma=row.sigma, radius=0.0, n=row.n, seed=3, input_id=scene.id
            ).values
            noise, both = sc.Gaussian(row.sigma), row.metric == "area:cat"
            found.append(sc.MetricCertificate("m", values, row.radius, 0.5, 0.001, noise, two_sided=both))
        if found[0].bound is None:
            assert row.bound is row.lowest is row.upper is None
            continue
        assert row.bound == pytest.approx(np.mean([each.bound for each in found]))
        assert row.lowest == min(each.bound for each in found)
        assert row.upper == (pytest.approx(np.mean([each.upper for each in found])) if both else None)
    assert sum(row.bound is None for row in rows) == 4  # n = 60 at tau = 0.95 is too few for any


def test_tables_curves_and_figures(data, tmp_path):
    run = made(data, tmp_path / "run", metrics=MetricSettings(("accuracy", "area:cat"), share=0.6, radii=(0.05, 0.02)))
    table = run.metric_table()
    assert [row[2] for row in table.rows[:2]] == ["0.02", "0.05"]
    notes = " ".join(table.notes)
    assert "at least 60% of the noisy runs have the metric at or above that scene's bound" in notes
    assert "not about the voted map" in notes
    assert "it holds for all 2 together with probability at least 0.998" in notes
    curves = metric_curves(run.records, run.configuration, run._noise_of)
    assert [(curve.metric, curve.sigma) for curve in curves] == [("accuracy", 0.1), ("accuracy", 0.3)]
    for curve in curves:
        assert curve.radii[0] == 0
        assert (np.diff(curve.bounds) <= 0).all()
        rows = metric_rows(run.records, run.configuration, run._noise_of)
        row = next(row for row in rows if (row.metric, row.sigma, row.n) == ("accuracy", curve.sigma, curve.n))
        assert np.interp(row.radius, curve.radii, curve.bounds) == pytest.approx(row.bound, abs=0.02)
    names = {file.name for file in write_report(run, tmp_path / "report")}
    assert {"metrics.md", "metrics.csv", "metrics.tex", "metrics.png"} <= names


def test_a_run_that_was_stopped_gives_the_same_records(data, tmp_path):
    """Stopped within a scene's draws: those that were counted before are made again for the metrics."""
    calls = []

    def mortal(batch):
        calls.append(1)
        if len(calls) == 25:
            raise KeyboardInterrupt
        return brightness(batch)

    options = {"settings": SETTINGS[:2], "metrics": METRICS, "seed": 3, "batch_size": 10}
    with pytest.raises(KeyboardInterrupt):
        evaluate(mortal, data, out=tmp_path / "run", name="m", **options)
    evaluate(mortal, data, out=tmp_path / "run", name="m", **options)
    whole = evaluate(brightness, data, out=tmp_path / "whole", name="m", **options)
    assert evaluated.without_times(tmp_path / "run" / "records.jsonl") == evaluated.plain(whole.records)
    assert read_records(tmp_path / "run" / "records.jsonl")


def test_a_scene_without_ground_truth_is_refused_before_the_work(tmp_path):
    """Metrics that compare with nothing else take it, and so do labels."""
    root = evaluated.pets(tmp_path / "pets")
    Image.new("L", (16, 12), 255).save(root / "labels" / "b.png")
    data, out = load(f"pets:{root}").limit(2), tmp_path / "run"
    with pytest.raises(sc.InputError, match=r"scene 'b': nothing in it has ground truth, .*\(--skip-broken\)"):
        made(data, out)
    assert not out.exists()
    run = made(data, out, skip_broken=True)
    assert [record.id for record in run.records if record.kind == "skipped"] == ["b"]
    apart = made(data, tmp_path / "apart", metrics=MetricSettings(("agreement", "area:cat")))
    assert {record.id for record in apart.records if record.kind == "metric"} == {"a", "b"}


def test_bad_settings(data, tmp_path):
    made(data, tmp_path / "run")
    for changes, message in [
        ({"metrics": MetricSettings(("accuracy",))}, "belongs to another run: its metrics"),
        ({"metrics": None}, "belongs to another run: its metrics"),
        ({"metrics": MetricSettings(("dice:bird",))}, "unknown class 'bird'"),
        ({"noise": type("Own", (sc.Gaussian,), {})}, "knows no proof"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            made(data, tmp_path / "run", **changes)
    for wrong, message in [
        (lambda: MetricSettings(()), "different and at least one"),
        (lambda: MetricSettings(("miou", "miou")), "different and at least one"),
        (lambda: MetricSettings(("miou",), share=1), "share must lie in"),
        (lambda: MetricSettings(("miou",), radii=(0,)), "must be positive"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            wrong()
