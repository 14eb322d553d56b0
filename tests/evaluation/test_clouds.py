"""Evaluations of point clouds: random models that know the category, noise on points alone, reports by category."""

import csv
import io
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import trees

import segcertify as sc
from segcertify import metrics
from segcertify.data import load
from segcertify.evaluation import Setting, evaluate
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.noise import name_of, parse
from segcertify.records import read_records
from segcertify.report.run import Run

SETTINGS = [Setting(0.1, 60, 0.75), Setting(0.2, 120, 0.9)]


@dataclass(frozen=True)
class Parts:
    """A category's first part where x is above a bound, else its second; the bound is random."""

    category: str = ""
    random = True

    def for_category(self, category):
        return replace(self, category=category)

    def __call__(self, batch, seeds=None):
        first = CATEGORIES[self.category][0]
        bound = torch.tensor([0.02 * (seed % 5 - 2) for seed in seeds or [0] * len(batch)])
        return first + (batch[..., 0] < bound[:, None]).long()


@pytest.fixture
def shapes(tmp_path):
    return load(f"shapenet:{trees.shapenet(tmp_path / 'shapenet')}?points=64&normals=true")


def test_records_are_what_single_calls_give(shapes, tmp_path):
    records = evaluate(Parts(), shapes, out=tmp_path / "run", settings=SETTINGS, seed=3).records
    assert len(records) == 5 * (1 + 2 + 2)
    assert [r.category for r in records[::5]] == ["Airplane", "Airplane", "Mug", "Mug", "Table"]
    assert read_records(tmp_path / "run" / "records.jsonl") == list(records)
    for scene in shapes:
        model = Parts(scene.category)
        for setting in SETTINGS:
            noise = sc.Gaussian(setting.sigma, channels=(0, 1, 2), axis=1)
            votes = sc.sample(model, scene.x, noise=noise, n=setting.n, seed=3, input_id=scene.id)
            expected = sc.certify_votes(votes, tau=setting.tau, alpha=0.001)
            [record] = [r for r in records if (r.id, r.sigma, r.tau) == (scene.id, setting.sigma, setting.tau)]
            confusion = metrics.confusion(expected.labels, scene.target, scene.valid, classes=50)
            np.testing.assert_array_equal(metrics.from_plain(record.confusion), confusion)
            assert (record.radius, record.N) == (expected.radius, 64)


def test_images_have_no_category(tmp_path):
    scenes = load(f"pets:{trees.pets(tmp_path / 'pets', count=1)}")
    records = evaluate(lambda batch: batch, scenes, out=tmp_path / "run", settings=SETTINGS[:1], seed=0).records
    assert {r.category for r in records} == {None}
    assert "category" not in (tmp_path / "run" / "records.jsonl").read_text()
    assert Run.load(tmp_path / "run").category_table() is None


def laplace(sigma):
    """A function that makes just what a name means."""
    return sc.Laplace(sigma)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ("rotation", sc.Rotation(0.1)),
        ("rotation:y", sc.AxisRotation(0.1, "y")),
        ("gaussian?channels=0&axis=1", sc.Gaussian(0.1, (0,), 1)),
        (parse("rotation:1,1,0"), sc.AxisRotation(0.1, (1, 1, 0))),
        (sc.Laplace, sc.Laplace(0.1)),
        (laplace, sc.Laplace(0.1)),
    ],
    ids=["rotation", "about an axis", "channels", "a name", "a class", "a function"],
)
def test_other_noises(shapes, tmp_path, noise, expected):
    scenes = shapes.limit(1)
    settings = [Setting(0.1, 100, 0.8)]
    run = evaluate(
        Parts(), scenes, out=tmp_path / "run", settings=settings, noise=noise, corrections=["bonferroni"], seed=0
    )
    records = run.records
    votes = sc.sample(Parts("Airplane"), scenes[0].x, noise=expected, n=100, input_id=scenes[0].id, seed=0)
    certificate = sc.certify_votes(votes, tau=0.8, alpha=0.001, correction="bonferroni")
    assert records[-1].radius == certificate.radius == expected.radius(0.8)
    assert records[-1].abstained == certificate.abstained.sum() < 64
    assert run.title.endswith(f", {name_of(expected)} noise")
    for curve in run.curves():  # Bonferroni at tau is the curve at R, in the noise's own norm
        assert curve.norm == expected.norm
        assert curve.certified(certificate.radius) == pytest.approx(run.rows[-1].accuracy)
    assert len(run.curves()) == 1
    with pytest.raises(sc.InputError, match="its noise is"):
        evaluate(Parts(), scenes, out=tmp_path / "run", settings=settings, corrections=["bonferroni"], seed=0)


@pytest.mark.parametrize(
    ("noise", "sigma", "message"),
    [
        ("y-rotation", 0.1, "unknown noise 'y-rotation': did you mean 'rotation'.*Use gaussian, laplace, uniform"),
        ("rotation", 11.0, r"sigma in \[0.001, 10\]"),
    ],
)
def test_bad_noises_are_refused_before_the_folder_is_made(shapes, tmp_path, noise, sigma, message):
    with pytest.raises(sc.InputError, match=message):
        evaluate(Parts(), shapes, out=tmp_path / "run", settings=[(sigma, 60, 0.75)], noise=noise, seed=0)
    assert not (tmp_path / "run").exists()


def test_pictures_and_pages_of_clouds(shapes, tmp_path):
    evaluate(Parts(), shapes.limit(1), out=tmp_path / "run", settings=SETTINGS[:1], save_pictures=True, seed=0)
    page, picture = sorted((tmp_path / "run" / "certified").iterdir())
    assert page.name == "Airplane_2a-sigma0.1-n60-tau0.75-holm.html"
    assert "Airplane wing" in page.read_text()
    assert picture.suffix == ".png"
    assert picture.stat().st_size > 5000


def test_reports_by_category_and_part(shapes, tmp_path):
    records = evaluate(Parts(), shapes, out=tmp_path / "run", settings=SETTINGS, seed=0).records
    run = Run.load(tmp_path / "run")
    matrices = [metrics.from_plain(r.confusion) for r in records if r.sigma == 0.1 and r.kind == "certified"]
    ious = [
        metrics.shape_iou(m, CATEGORIES[c])
        for m, c in zip(matrices, ["Airplane"] * 2 + ["Mug"] * 2 + ["Table"], strict=True)
    ]
    row = next(row for row in run.rows if row.sigma == 0.1)
    assert [(c.name, c.shapes) for c in row.categories] == [("Airplane", 2), ("Mug", 2), ("Table", 1)]
    assert row.categories[1].iou == pytest.approx(np.mean(ious[2:4]))
    assert row.categories[1].accuracy == metrics.accuracy(matrices[2] + matrices[3])
    results = list(csv.DictReader(io.StringIO(run.table().csv())))
    shown = next(line for line in results if line["setting"].startswith("sigma=0.1"))
    assert shown["shape IoU"] == f"{np.mean(ious):.4f}"
    assert shown["shape IoU by category"] == f"{np.mean([np.mean(ious[:2]), np.mean(ious[2:4]), ious[4]]):.4f}"
    assert 0 < float(shown["shape IoU worst case"]) <= float(shown["shape IoU"])
    assert results[0]["shape IoU worst case"] == "-"  # the base model
    categories = list(csv.DictReader(io.StringIO(run.category_table().csv())))
    assert [line["category"] for line in categories] == ["Airplane", "Mug", "Table"] * 3
    parts = list(csv.DictReader(io.StringIO(run.class_table().csv())))
    assert {line["class"].split()[0] for line in parts} == {"Airplane", "Mug", "Table"}  # no others
    handle = next(line for line in parts if line["class"] == "Mug handle")
    truth, right = sum(m[36].sum() for m in matrices), sum(m[36, 36] for m in matrices)
    assert handle["sigma=0.1, n=60, tau=0.75, holm: right"] == f"{right / truth:.4f}"
    assert re.search(r"an abstained point belongs to no part", run.table().markdown())


def test_a_model_that_refuses_the_clouds_claims_no_folder(tmp_path):
    model = sc.models.load("parts?runs=1")
    settings = {"out": tmp_path / "run", "settings": [], "progress": False, "seed": 0}
    with pytest.raises(sc.InputError, match="takes clouds"):
        evaluate(model, sc.data.load("shapes:?count=1"), **settings)
    assert not (tmp_path / "run").exists()
    assert len(evaluate(model, sc.data.load("shapes:?count=1&normals=true"), **settings).records) == 1
