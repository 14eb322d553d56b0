"""Looks in an evaluation: records are what single calls give, times are settings, and what is not proven is refused."""

import json
from types import SimpleNamespace

import evaluated
import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.data import load
from segcertify.evaluation.looks import enough_for_all, look_settings
from segcertify.records import LookSettings, MetricSettings, Setting, read_records
from segcertify.report.run import Run
from segcertify.stats.correction import procedure
from segcertify.storage.plain_values import digest_of

SETTINGS = [(0.25, 300, 0.75), (0.25, 300, 0.6)]
RUN = {"settings": SETTINGS, "looks": 3, "until": 0.6, "n0": 5, "seed": 4}


def brightness(batch):
    grey = batch.mean(1)
    return torch.stack([1 - grey, grey, torch.zeros_like(grey)], 1)


@pytest.fixture
def pets(tmp_path):
    return load(f"pets:{evaluated.pets(tmp_path / 'pets')}").limit(3)


def test_records_are_what_single_calls_give(pets, tmp_path):
    """Labels, draws used and saved; the stricter tau ends the draws, and another one takes the same draws."""
    run = sc.evaluate(brightness, pets, out=tmp_path / "run", save_votes=True, **RUN)
    times = tuple(json.loads((tmp_path / "run" / "config.json").read_text())["looks"]["times"]["0.25"])
    assert len(times) == 3
    assert times[-1] == 300
    for scene in pets:
        strict, lax = [r for r in run.records if (r.id, r.kind) == (scene.id, "certified")]
        alone = sc.certify(
            brightness, scene.x, sigma=0.25, tau=0.75, n=300, n0=5, seed=4, input_id=scene.id, looks=times, until=0.6
        )
        assert (strict.used, strict.saved, strict.n) == (alone.n, 300 - alone.n, 300)
        assert strict.abstained == int(alone.abstained.sum())
        assert lax.used == strict.used
        assert lax.abstained < strict.abstained
    assert run.rows[1].saved == sum(r.saved for r in run.records if r.tau == 0.75) > 0


def test_curves_take_the_level_of_a_look(pets, tmp_path):
    """As `radius_map` does with the votes: bounds at alpha / (L N), from the draws that a scene used."""
    run = sc.evaluate(brightness, pets, out=tmp_path / "run", save_votes=True, **RUN)
    [curve] = run.curves()
    right, total = [], 0
    for scene, path in zip(pets, sorted((tmp_path / "run" / "votes").iterdir()), strict=True):
        votes = sc.Votes.load(path)
        radii = sc.radius_map(votes, alpha=0.001)
        right.append(np.where(scene.valid & (votes.candidate == scene.target), radii, 0)[scene.valid])
        total += int(scene.valid.sum())
    radii = np.concatenate(right)
    for radius in (0.01, 0.1, 0.15, 0.2):
        assert curve.certified(radius) == pytest.approx(np.count_nonzero(radii >= radius) / total)
    assert "Looks after" in curve.claim.over(3)
    assert "each at alpha / 3" in curve.claim.over(3)


@pytest.mark.parametrize("looks", [{}, {"looks": 3, "until": 0.6}])
def test_capped_curves_are_those_of_capped_maps(pets, tmp_path, looks):
    """With and without looks; the cap is a setting, and levels count all tested components, also the wrong ones."""
    settings = {"settings": [(0.25, 300, 0.75)], "n0": 5, "seed": 4, "cap": 0.9, **looks}
    [curve] = sc.evaluate(brightness, pets, out=tmp_path / "run", save_votes=True, **settings).curves()
    radii, total = [], 0
    for scene, path in zip(pets, sorted((tmp_path / "run" / "votes").iterdir()), strict=True):
        votes = sc.Votes.load(path)
        found = sc.radius_map(votes, alpha=0.001, cap=0.9)
        radii.append(np.where(scene.valid & (votes.candidate == scene.target), found, 0)[scene.valid])
        total += int(scene.valid.sum())
    right = np.concatenate(radii)
    for radius in (0.01, 0.15, 0.2, *np.unique(right)[1:]):
        assert curve.certified(radius) == pytest.approx(np.count_nonzero(right >= radius) / total)
    assert curve.certified(sc.Gaussian(0.25).radius(0.9) * 1.001) == 0
    assert curve.words.endswith("No radius exceeds that of the cap 0.9, which was chosen before sampling.")
    with pytest.raises(sc.InputError, match=r"its cap is 0\.9, now it is 0\.8"):
        sc.evaluate(brightness, pets, out=tmp_path / "run", save_votes=True, **settings | {"cap": 0.8})
    with pytest.raises(sc.InputError, match="cap must lie in"):
        sc.evaluate(brightness, pets, out=tmp_path / "other", **settings | {"cap": 0.5})


def test_the_table_counts_draws_and_its_claim_says_looks(pets, tmp_path):
    table = sc.evaluate(brightness, pets, out=tmp_path / "run", **RUN).table()
    cells = dict(zip(table.heads, table.rows[1], strict=True))
    assert int(cells["draws used, all"]) + int(cells["draws saved, all"]) == 3 * 300
    assert float(cells["draws used, mean"]) + float(cells["draws saved, mean"]) == pytest.approx(300)
    assert table.rows[0][table.heads.index("draws used, all")] == "-"
    assert any("fixed before sampling, each at alpha / 3" in note for note in table.notes)


def test_a_stopped_run_resumes_and_other_looks_are_another_run(pets, tmp_path):
    """A model that fails in the second scene: the rest is done by a second call, to the same records."""
    calls = {"left": 40}

    def failing(batch):
        calls["left"] -= len(batch) > 1
        if calls["left"] == 0:
            calls["left"] = -1
            raise RuntimeError("out of order")
        return brightness(batch)

    settings = RUN | {"batch_size": 8}
    sc.evaluate(brightness, pets, out=tmp_path / "whole", **settings)
    with pytest.raises(sc.InputError, match="out of order"):
        sc.evaluate(failing, pets, out=tmp_path / "run", name="function", **settings)
    done = len(read_records(tmp_path / "run" / "records.jsonl", per_scene=4))
    assert done in (4, 8)
    sc.evaluate(failing, pets, out=tmp_path / "run", name="function", **settings)
    records = evaluated.without_times(tmp_path / "run" / "records.jsonl")
    assert records == evaluated.without_times(tmp_path / "whole" / "records.jsonl")
    for other in ({"looks": 2}, {"until": 0.7}, {"looks": (), "until": None}):
        with pytest.raises(sc.InputError, match="looks"):
            sc.evaluate(brightness, pets, out=tmp_path / "whole", **settings | other)


def test_a_changed_record_of_draws_is_refused(pets, tmp_path):
    sc.evaluate(brightness, pets, out=tmp_path / "run", **RUN)
    file = tmp_path / "run" / "records.jsonl"
    file.write_text(file.read_text().replace('"saved": ', '"saved": 1'))
    with pytest.raises(sc.InputError, match="cannot be used and"):
        Run.load(tmp_path / "run")


@pytest.mark.parametrize(
    "looks",
    [
        {"times": {"0.25": [100, 200]}, "until": 0.6}, {"times": {"0.5": [100, 300]}, "until": 0.6}, {"until": 1.0},
        {"times": [300], "until": 0.6}, {"times": {"0.25": "abc"}, "until": 0.6}, {"times": {"0.25": []}, "until": 0.6},
        {"times": {"0.25": [300, 300]}, "until": 0.6}, {"times": {"0.25": [300]}, "until": 2}, [300],
    ],
)  # fmt: skip
def test_stored_looks_that_cannot_be(pets, tmp_path, looks):
    sc.evaluate(brightness, pets.limit(1), out=tmp_path / "run", **RUN)
    file = tmp_path / "run" / "config.json"
    stored = {key: value for key, value in json.loads(file.read_text()).items() if key != "digest"} | {"looks": looks}
    file.write_text(json.dumps(stored | {"digest": digest_of(stored)}))
    with pytest.raises(sc.InputError, match="is no evaluation's configuration"):
        Run.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corrections": ["bh"]}, "the correction 'bh' is not proven for votes with looks"),
        ({"corrections": ["holm", "by"]}, "the correction 'by' is not proven for votes with looks"),
        ({"corrections": ["k-fwer"], "b": 3}, "the correction 'k-fwer' is not proven for votes with looks"),
        ({"settings": [(0.25, 300, 0.75), (0.25, 100, 0.75)]}, "looks need one n for each sigma"),
        ({"metrics": MetricSettings(("agreement",))}, "metrics need all n draws, but looks may stop earlier"),
        ({"looks": ()}, "until is asked at looks"),
        ({"looks": (100, 200)}, "looks must be rising numbers of draws, the last of them n=300"),
        ({"until": 1.5}, "until must be a share of components, above 0 and at most 1, but got 1.5"),
        ({"until": len}, "until must be a share of components, which a run can record"),
        ({"n0": 0}, "n0"),
    ],
)
def test_what_is_not_proven_is_refused(pets, tmp_path, changes, message):
    with pytest.raises(sc.InputError, match=message):
        sc.evaluate(brightness, pets, out=tmp_path / "run", **RUN | changes)
    assert not (tmp_path / "run" / "config.json").exists()


def test_the_times_of_a_number_of_looks_begin_where_something_can_be_certified():
    settings = {"n0": 10, "alpha": 0.001, "N": 192, "metrics": False}
    found = look_settings(3, None, [Setting(0.25, 300, 0.75)], [procedure("holm")], **settings)
    assert found.times["0.25"][0] == sc.plan(192, 0.75, alpha=0.001 / 3).n_min
    assert found.until == 1.0
    with pytest.raises(sc.InputError, match="looks are not proven for the counts of all classes"):
        look_settings(
            3, None, [Setting(0.25, 300, 0.75)], [procedure("holm")], **settings, counts=True
        )  # fmt: skip


def test_all_claims_must_have_enough():
    votes = sc.Votes(
        np.zeros(10, int), np.full(10, 70), n=100, n0=10, noise=sc.Gaussian(0.25), looks=(50, 100, 2000),
        earlier={50: np.full(10, 35)},
    )  # fmt: skip
    looks = LookSettings({"0.25": (50, 100, 2000)}, 0.9)
    for taus, stops in (((0.5,), True), ((0.5, 0.65), False)):
        claims = tuple(Setting(0.25, 2000, tau) for tau in taus)
        run = SimpleNamespace(settings=claims, corrections=("holm",), alpha=0.3, looks=looks)
        assert enough_for_all(run, 0.25)(votes) is stops, taus
