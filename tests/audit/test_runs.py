"""Audits of evaluations: true runs pass, votes that a broken sampler made do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import segcertify as sc
from segcertify.audit import audit_run
from segcertify.data import load
from segcertify.evaluation import Setting
from segcertify.records import MetricSettings, RunFolder

SETTINGS = [Setting(0.25, 200, 0.7), Setting(0.25, 100, 0.75)]


def bright(batch):
    """Logits by a pixel's brightness: the boundary is |1/2 - brightness| sqrt(3) away."""
    grey = 10 * batch.mean(1)
    return torch.stack([5 - grey, grey - 5, torch.full_like(grey, -90.0)], 1)


@pytest.fixture
def data(tmp_path):
    """Three photos, dark on the left and light on the right, in the pets layout."""
    for folder in ("images", "labels"):
        (tmp_path / "pets" / folder).mkdir(parents=True)
    for i, name in enumerate("abc"):
        ramp = np.linspace(60 + 9 * i, 200, 16).astype(np.uint8)
        pixels = np.broadcast_to(ramp[None, :, None], (8, 16, 3)).copy()
        Image.fromarray(pixels).save(tmp_path / "pets" / "images" / f"{name}.jpg", quality=95)
        Image.fromarray((pixels[..., 0] > 127).astype(np.uint8)).save(tmp_path / "pets" / "labels" / f"{name}.png")
    return load(f"pets:{tmp_path / 'pets'}")


@pytest.fixture
def run(tmp_path, data):
    sc.evaluate(bright, data, out=tmp_path / "run", settings=SETTINGS, save_votes=True, seed=0)
    return tmp_path / "run"


def test_a_true_run_passes(run, data):
    for setting in (None, SETTINGS[1]):
        audit = audit_run(bright, data, run, setting=setting, n=300, steps=4, seed=0)
        assert len(audit.findings) == 3
        assert min(finding.certificate.certified for finding in audit.findings) > 20
        assert (audit.refuted, audit.p_value) == (0, 1.0), audit.verdict
    assert audit.findings[0].certificate.tau == 0.75


def test_wrong_votes_are_caught(run, data):
    """Every draw agreed, say the votes of two scenes: pixels on the edge are then certified."""
    for path in sorted((run / "votes").iterdir())[:2]:
        votes = sc.Votes.load(path)
        replace(votes, agree=np.full_like(votes.agree, votes.n), earlier={}).save(path)
    audit = audit_run(bright, data, run, n=2000, steps=10, seed=0)
    assert audit.refuted == 2
    assert audit.p_value == pytest.approx(3 * 0.001001**2, rel=1e-2)
    assert "2 of 3 inputs have a violation" in audit.verdict


def test_a_run_with_looks(data, tmp_path):
    """True votes of it pass. Votes that say nothing of its looks would be tested at alpha, and are refused."""
    out = tmp_path / "looked"
    sc.evaluate(
        bright, data, out=out, settings=[(0.25, 300, 0.7)], looks=3, until=0.2, save_votes=True, seed=0
    )  # fmt: skip
    audit = audit_run(bright, data, out, n=300, steps=4, seed=0)
    assert audit.refuted == 0 < min(finding.certificate.saved for finding in audit.findings)
    path = min((out / "votes").iterdir())
    votes = sc.Votes.load(path)
    replace(votes, looks=(), earlier={}).save(path)
    with pytest.raises(sc.InputError, match=r"the votes of scene 'a' have looks \(\), which .* does not have"):
        audit_run(bright, data, out, n=300, steps=4, seed=0)


def test_what_is_not_there_is_refused(run, data, tmp_path):
    with pytest.raises(sc.InputError, match="the run has no setting"):
        audit_run(bright, data, run, setting=Setting(0.5, 100, 0.75), seed=0)
    with pytest.raises(sc.InputError, match="the run has no correction 'bonferroni', only holm"):
        audit_run(bright, data, run, correction="bonferroni", seed=0)
    next(iter((run / "votes").iterdir())).unlink()
    with pytest.raises(sc.InputError, match="no votes of 1 of 3 scenes"):
        audit_run(bright, data, run, seed=0)
    with pytest.raises(sc.InputError, match=r"it has no config\.json"):
        audit_run(bright, data, tmp_path, seed=0)


def test_other_inputs_are_refused(run, data, tmp_path):
    Image.new("RGB", (16, 8)).save(tmp_path / "pets" / "images" / "a.jpg")
    with pytest.raises(sc.InputError, match="scene 'a' is not the input"):
        audit_run(bright, load(f"pets:{tmp_path / 'pets'}"), run, n=300, steps=2, seed=0)


def test_another_network_is_refused(data, tmp_path):
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 3, 1).eval()
    settings = {"settings": SETTINGS[:1], "corrections": ["bh", "holm"], "save_votes": True, "seed": 0}
    sc.evaluate(network, data, out=tmp_path / "network", **settings)
    audit = audit_run(network, data, tmp_path / "network", correction="holm", n=300, steps=2, seed=0)
    assert audit.refuted == 0, audit.verdict
    with torch.no_grad():
        network.bias[0] += 1e-3
    with pytest.raises(sc.InputError, match=r"the model is not the one that .*network certified \(Conv2d\)"):
        audit_run(network, data, tmp_path / "network", correction="holm", seed=0)


def test_the_sets_of_a_run(tmp_path, data):
    sc.evaluate(bright, data, out=tmp_path / "sets", settings=SETTINGS, save_votes=True, seed=0, sets=True)
    for setting in SETTINGS:
        audit = audit_run(bright, data, tmp_path / "sets", setting=setting, sets=True, n=300, seed=0)
        assert (len(audit.findings), audit.refuted) == (3, 0)
        assert audit.verdict.startswith("384 sets in 3 inputs, 1,536 tests with fresh draws")
    path = sorted((tmp_path / "sets" / "votes").iterdir())[0]
    votes = sc.Votes.load(path)
    turned = votes.counts[[1, 0, 2]]  # what was dark counts as light
    agree = np.take_along_axis(turned, votes.candidate[None].astype(int), 0)[0]
    wrong = replace(votes, counts=turned, agree=agree, earlier={}, earlier_counts={}, pilot_counts=None)
    wrong.save(path)
    audit = audit_run(bright, data, tmp_path / "sets", sets=True, n=300, seed=0)
    assert audit.refuted == 1
    sc.evaluate(bright, data, out=tmp_path / "run", settings=SETTINGS, save_votes=True, seed=0)
    with pytest.raises(sc.InputError, match="has no sets: evaluate again with --sets"):
        audit_run(bright, data, tmp_path / "run", sets=True, n=300, seed=0)


@pytest.fixture
def measured(tmp_path, data):
    """A run that bounds two metrics within two radii."""
    metrics = MetricSettings(("accuracy", "area:cat"), radii=(0.05, 0.1))
    out = tmp_path / "measured"
    sc.evaluate(bright, data, out=out, settings=SETTINGS, save_votes=True, seed=0, metrics=metrics)
    return out


def test_the_metrics_of_a_run(measured, data):
    """The level of each scene's audit is 1e-6: a false alarm of this test has probability 9 (alpha + 1e-6) at most."""
    for metric, radius in (("accuracy", None), ("accuracy", 0.1), ("area:cat", None)):
        audit = audit_run(bright, data, measured, metric=metric, radius=radius, n=200, steps=3, seed=0)
        assert (len(audit.findings), audit.refuted) == (3, 0), audit.verdict
        assert {finding.certificate.radius for finding in audit.findings} == {radius or 0.05}
        assert "3 bounds in 3 inputs" in audit.verdict
        assert "keep the bound; 50% are claimed" in audit.verdict
    assert all(finding.certificate.upper is not None for finding in audit.findings)


def test_a_bound_that_the_draws_do_not_prove_is_caught(measured, data, monkeypatch):
    records = RunFolder.records

    def raised(folder):
        """The accuracies of the first scene, each replaced by the best of them, and a little more."""
        return [
            replace(each, values=[max(each.values) + 0.01] * len(each.values))
            if (each.id, each.metric) == ("a", "accuracy") else each
            for each in records(folder)
        ]  # fmt: skip

    monkeypatch.setattr(RunFolder, "records", raised)
    audit = audit_run(bright, data, measured, metric="accuracy", n=200, steps=3, seed=0)
    assert [finding.refuted for finding in audit.findings] == [True, False, False]


def test_metrics_that_a_run_does_not_have_are_refused(measured, run, data):
    with pytest.raises(sc.InputError, match="has no metrics: evaluate again with --metric"):
        audit_run(bright, data, run, metric="accuracy", seed=0)
    with pytest.raises(sc.InputError, match="miou"):
        audit_run(bright, data, measured, metric="miou", seed=0)
    with pytest.raises(sc.InputError, match=r"within the radii \[0.05, 0.1\], but got 0.3"):
        audit_run(bright, data, measured, metric="accuracy", radius=0.3, seed=0)
    with pytest.raises(sc.InputError, match=r"the radius 0\.1 is for a metric"):
        audit_run(bright, data, measured, radius=0.1, seed=0)
    with pytest.raises(sc.InputError, match="audit the sets or a metric"):
        audit_run(bright, data, measured, metric="accuracy", sets=True, seed=0)


def test_scenes_without_records_are_refused(measured, data):
    """A kill between the votes of a scene and its records leaves the one without the other."""
    lines = (measured / "records.jsonl").read_text().splitlines(keepends=True)
    (measured / "records.jsonl").write_text("".join(lines[: 2 * len(lines) // 3]))
    with pytest.raises(sc.InputError, match=r"has no record of scene 'c' yet: finish the evaluation"):
        audit_run(bright, data, measured, metric="accuracy", n=200, steps=0, seed=0)
    audit = audit_run(bright, data.limit(2), measured, metric="accuracy", n=200, steps=0, seed=0)
    assert len(audit.findings) == 2


def test_other_ground_truth_is_refused(measured, data, tmp_path):
    """It would be another claim, and refuted though that of the run is true. Areas have no ground truth."""
    Image.new("L", (16, 8), 2).save(tmp_path / "pets" / "labels" / "b.png")
    other = load(f"pets:{tmp_path / 'pets'}")
    with pytest.raises(sc.InputError, match=r"the ground truth of scene 'b' is not what .* measured: give its data"):
        audit_run(bright, other, measured, metric="accuracy", n=200, steps=0, seed=0)
    assert audit_run(bright, other, measured, metric="area:cat", n=200, steps=0, seed=0).refuted == 0
