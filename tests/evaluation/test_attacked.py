"""Evaluations under attack: linear segmenters whose accuracy is known at every radius, resuming, refusing, reports."""

import csv
import io
import json
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import evaluated
import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.attacks.gradient_ascent import GradientAscent
from segcertify.data import DataSet, Scene
from segcertify.data.domain import CLOUD
from segcertify.evaluation import AttackSettings, Setting, evaluate
from segcertify.evaluation.attacked import AttackedScenes
from segcertify.numerals import upper
from segcertify.records import read_records
from segcertify.report.figures import attacked_figure
from segcertify.report.run import Run

DISTANCE = np.array([-0.3, -0.3, 0.5, 0.5, 0.5, 1.4, 1.4, 1.4, 2.5, 2.5, -3.0, 0.5], np.float32).reshape(3, 4)
"""How far, in l2, an image of mean 1/2 is from where each pixel's label turns from 1 to 0."""
TARGET = np.array([1] * 10 + [0, 1]).reshape(3, 4)
VALID = np.array([True] * 11 + [False]).reshape(3, 4)
SETTING = Setting(0.25, 100, 0.75)
PROVED = sc.Gaussian(0.25).radius(0.75)
RADII = (PROVED, 1.0, 2.0)
RIGHT = {0.0: 9, PROVED: 9, 1.0: 6, 2.0: 3}
"""Of 11 valid pixels: those with target 1 that need more than R to change, and the one with target 0."""


class Given(DataSet):
    """Scenes from memory."""

    def __getitem__(self, index):
        return self.items[index]

    def check(self):
        pass


class GivenClouds(Given):
    domain: ClassVar = CLOUD


def scenes(kind, *found):
    return kind("given", ("dark", "bright"), np.zeros((2, 3), np.uint8), found)


def images():
    rng = np.random.default_rng(0)
    found = []
    for name in "abc":
        x = rng.uniform(-0.05, 0.05, (3, 3, 4))
        found.append(Scene(name, (0.5 + x - x.mean()).astype(np.float32), TARGET, VALID))
    return scenes(Given, *found)


def test_scenes_of_another_domain_than_their_data_set_are_refused(tmp_path):
    cloud = Scene("a", np.zeros((5, 6), np.float32), np.zeros(5, int), np.ones(5, bool))
    with pytest.raises(sc.InputError, match=r"domain cloud, but the data set says image.* set domain = CLOUD"):
        evaluate(mean_model, scenes(Given, cloud), out=tmp_path / "run", settings=[SETTING], seed=0)
    assert not (tmp_path / "run").exists()


def mean_model(batch):
    """Label 1 where the mean of all 36 numbers exceeds a pixel's threshold: a shift of norm R moves it by R / 6."""
    score = 40 * (batch.mean((1, 2, 3))[:, None, None] - 0.5 + torch.from_numpy(DISTANCE) / 6)
    return torch.stack([-score, score], 1)


def without_times(records):
    return [{k: v for k, v in asdict(record).items() if not k.endswith("_seconds")} for record in records]


def right_by_radius(records, sigma=None):
    """Right pixels of all scenes, by radius."""
    found = {}
    for record in records:
        if record.kind == "attacked" and record.sigma == sigma:
            right = sum(count for row, column, count in record.confusion["cells"] if row == column)
            found[record.radius] = found.get(record.radius, 0) + right
    return found


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The records and the folder of a run with everything."""
    out = tmp_path_factory.mktemp("attacked") / "run"
    attacker = AttackSettings("segpgd", RADII, steps=20, smoothed=81)
    return evaluate(mean_model, images(), out=out, settings=[SETTING], attack=attacker, seed=3).records, out


@pytest.mark.parametrize("loss", ["cross-entropy", "segpgd", "cospgd"])
def test_the_base_models_accuracy_is_the_one_known(tmp_path, loss):
    records = evaluate(
        mean_model, images(), out=tmp_path, settings=[], attack=AttackSettings(loss, RADII[::-1], steps=20), seed=0
    ).records
    assert [record.kind for record in records] == ["base", "attacked", "attacked", "attacked"] * 3
    assert right_by_radius(records) == {radius: 3 * RIGHT[radius] for radius in RADII}
    assert read_records(tmp_path / "records.jsonl") == list(records)


@pytest.mark.statistical
def test_the_smoothed_models_accuracy_is_the_one_known(attacked):
    """The same, for noise of mean 0. Each of 144 majorities is wrong with probability below 4e-11 (Hoeffding)."""
    records, _ = attacked
    assert right_by_radius(records, sigma=0.25) == {radius: 3 * right for radius, right in RIGHT.items()}
    assert {record.n for record in records if record.kind == "attacked" and record.sigma} == {81}


def test_what_is_certified_is_not_above_what_attacks_left(attacked):
    records, out = attacked
    for row in Run.load(out).attacked_rows:
        if row.certified is None:
            assert row.radius > PROVED
            continue
        assert 0 < row.certified.accuracy <= row.smoothed.accuracy
        assert 0 < row.certified.miou_worst_case <= row.smoothed.miou_worst_case
    assert len(records) == 3 * (1 + 3 + 4 + 1 + 1)


def test_default_radii(tmp_path):
    settings = [SETTING, Setting(0.5, 60, 0.75), Setting(0.5, 60, 0.5)]  # at tau = 1/2 nothing is certified
    out = tmp_path / "run"
    evaluate(mean_model, images().limit(1), out=out, settings=settings, attack=AttackSettings(steps=1), seed=0)
    stored = json.loads((out / "config.json").read_text())["attack"]
    larger = sc.Gaussian(0.5).radius(0.75)
    assert stored == asdict(AttackSettings(steps=1)) | {"radii": [PROVED, larger, 2 * larger, 4 * larger]}


def test_an_input_found_within_a_smaller_radius_counts_at_larger_ones(tmp_path, monkeypatch):
    """An attack that finds something at its smallest radius alone."""

    def lazy(self, model, x, labels, threat, **options):
        return SimpleNamespace(x=x - (threat.radius == 0.6) * 0.6 / 6)

    monkeypatch.setattr(GradientAscent, "__call__", lazy)
    run = evaluate(
        mean_model, images(), out=tmp_path, settings=[], attack=AttackSettings(radii=(0.6, 1.0, 2.0)), seed=0
    )
    assert right_by_radius(run.records) == {0.6: 18, 1.0: 18, 2.0: 18}


def test_a_clouds_normals_are_left_alone_and_its_coordinates_have_no_box(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.3, (12, 6)).astype(np.float32)
    x[:, :3] -= 4 + x[:, :3].mean()

    def model(batch):
        coordinates, normals = batch[..., :3].mean((1, 2)) + 4, batch[..., 3:].mean((1, 2)) - float(x[:, 3:].mean())
        score = 40 * ((coordinates + 100 * normals)[:, None] + torch.from_numpy(DISTANCE).flatten() / 6)
        return torch.stack([-score, score], 1)

    data = scenes(GivenClouds, Scene("a", x, TARGET.flatten(), VALID.flatten()))
    run = evaluate(model, data, out=tmp_path, settings=[], attack=AttackSettings(radii=RADII, steps=20), seed=0)
    assert right_by_radius(run.records) == {radius: RIGHT[radius] for radius in RADII}


@pytest.mark.parametrize("noise", ["rotation", "rotation:z"])
def test_rotations_turn_the_points_that_are_near_enough(tmp_path, noise):
    """Points in the plane at angles of 0.1 to 1.2, right while their y is positive."""
    angles = np.linspace(0.1, 1.2, 12)
    x = np.stack([np.cos(angles), np.sin(angles), 0 * angles], 1).astype(np.float32)

    def model(batch):
        return torch.stack([-5 * batch[..., 1], 5 * batch[..., 1]], 1)

    data = scenes(GivenClouds, Scene("a", x, np.ones(12, int), np.ones(12, bool)))
    attacker = AttackSettings(radii=(0.25, 0.55, 0.95), steps=20, restarts=2)
    run = evaluate(model, data, out=tmp_path / "run", settings=[], noise=noise, attack=attacker, seed=0)
    assert right_by_radius(run.records) == {0.25: 10, 0.55: 7, 0.95: 3}


def test_killed_in_an_attack_it_resumes_to_the_same_records(attacked, tmp_path):
    whole, _ = attacked
    attacker = AttackSettings("segpgd", RADII, steps=20, smoothed=81)
    calls = []

    def dying(batch):
        calls.append(1)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return mean_model(batch)

    arguments = {"out": tmp_path, "settings": [SETTING], "attack": attacker, "seed": 3, "name": "function"}
    with pytest.raises(KeyboardInterrupt):
        evaluate(dying, images(), **arguments)
    done = len(read_records(tmp_path / "records.jsonl"))
    assert 0 < done < len(whole)
    assert without_times(evaluate(dying, images(), **arguments).records) == without_times(whole)


def test_other_attacks_are_refused_and_older_runs_go_on(tmp_path):
    attacker = AttackSettings(radii=(1.0,), steps=2)
    data = images().limit(1)

    def run(out, attack):
        return evaluate(mean_model, data, out=tmp_path / out, settings=[SETTING], attack=attack, seed=0)

    first = run("attacked", attacker)
    assert run("attacked", attacker) == first
    for other in (None, replace(attacker, steps=3), replace(attacker, radii=(2.0,)), replace(attacker, loss="cospgd")):
        with pytest.raises(sc.InputError, match="belongs to another run: its attack"):
            run("attacked", other)
    first = run("plain", None)
    evaluated.make_older(tmp_path / "plain", "attack")
    assert run("plain", None) == first
    assert Run.load(tmp_path / "plain").attacked_table() is None
    with pytest.raises(sc.InputError, match="its attack is None"):
        run("plain", attacker)


def test_the_progress_bar_counts_what_is_done(attacked):
    done = []
    base = attacked[0][0]
    noises = {0.25: sc.Gaussian(0.25)}
    settings = AttackSettings("segpgd", RADII, 20, 2, 30)
    work = AttackedScenes(settings, noises[0.25], noises, 2, 0, None, torch.device("cpu"))
    assert len(list(work.records(mean_model, images()[0], base, done.append))) == 7
    assert sum(done) == work.work


@dataclass(frozen=True)
class OddNoise(sc.Gaussian):
    @property
    def norm(self):
        return "odd"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give the attack's radii"),
        ({"attack": AttackSettings(radii=(1.0,), smoothed=9)}, "but there are none: give a setting, or smoothed=0"),
        ({"model": lambda batch: (batch.mean(1) > 0.5).long(), "attack": AttackSettings(radii=(1.0,))}, "needs logits"),
        ({"noise": "rotation", "attack": AttackSettings(radii=(1.0,))}, r"\(3, 3, 4\)"),
        (
            {"noise": OddNoise, "attack": AttackSettings(radii=(1.0,))},
            "unknown norm of an attack 'odd': use l2, linf or l1",
        ),
    ],
)
def test_what_cannot_be_attacked_is_refused_before_the_folder_is_made(tmp_path, arguments, message):
    arguments = {"model": mean_model, "settings": [], "attack": AttackSettings(), "seed": 0} | arguments
    with pytest.raises(sc.InputError, match=message):
        evaluate(arguments.pop("model"), images(), out=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_no_rotation_is_beyond_pi(tmp_path):
    data = scenes(GivenClouds, Scene("a", np.ones((12, 3), np.float32), np.ones(12, int), np.ones(12, bool)))
    with pytest.raises(sc.InputError, match="no rotation is farther than pi, but the radius is 4"):
        evaluate(
            mean_model,
            data,
            out=tmp_path,
            settings=[],
            noise="rotation",
            attack=AttackSettings(radii=(1.0, 4.0)),
            seed=0,
        )


def test_the_table(attacked):
    table = Run.load(attacked[1]).attacked_table()
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [line["R"] for line in lines] == ["0", "0.16862239734629847", "1", "2"]
    for model in ("base", "smoothed"):  # 9, 9, 6 and 3 of 11 are right: upper bounds under attack, rounded up
        assert [line[f"{model} accuracy"] for line in lines] == ["0.8182", "0.8182", "0.5455", "0.2728"]
        assert lines[2][f"{model} mIoU"] == upper((5 / 10 + 1 / 6) / 2) == "0.3334"
    assert [line["certified accuracy"] for line in lines[:2]] == ["0.8181", "0.8181"]  # a lower bound, rounded down
    assert lines[1]["certified by"] == "n=100, tau=0.75, holm"
    for head in ("certified accuracy", "certified mIoU", "certified by"):
        assert [line[head] for line in lines[2:]] == ["-", "-"]
    text = table.markdown()
    assert "(segpgd, 20 steps, 1 random start)" in text
    assert "With probability at least 0.997" in text
    assert "the most frequent of 81 fresh draws" in text


def test_the_figure(attacked, tmp_path):
    run = Run.load(attacked[1])
    figure = attacked_figure(run.attacked_rows, run.curves(), run.rows, title="a")
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    accuracy = [right / 11 for right in RIGHT.values()]
    for label in ("base model under attack", "sigma = 0.25: smoothed model under attack"):
        np.testing.assert_allclose(lines[label].get_xdata(), list(RIGHT))
        np.testing.assert_allclose(lines[label].get_ydata(), accuracy)
    certified = lines["sigma = 0.25, n = 100: certified, at all radii at once"]
    np.testing.assert_allclose(certified.get_ydata(), run.curves()[0].certified.accuracy)
    [dot] = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (PROVED, run.rows[1].accuracy)
    figure.savefig(tmp_path / "attacked.png")
