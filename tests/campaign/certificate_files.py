"""The files of the newer kinds of certificates, as subjects: sets, metrics, looks, denoisers, and what they rest on."""

import json
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import segcertify as sc
from segcertify.audit import audit_run
from segcertify.cli.metric_certificates import metric_values
from segcertify.cli.radius_maps import map_facts
from segcertify.cli.set_certificates import sets_values
from segcertify.data import DataSet
from segcertify.evaluation.run import evaluate
from segcertify.metrics.certificate import MetricCertificate
from segcertify.models.denoisers import load_denoiser
from segcertify.records import MetricSettings, RunFolder
from segcertify.report.run import Run
from segcertify.sets.certificate import SetCertificate
from tests.campaign.mutations import (
    archive_changed,
    bytes_changed,
    json_changed,
    lines_changed,
    stamped_json_changed,
    words_changed,
)
from tests.campaign.stored_files import (
    ARCHIVE,
    CALLS_LEFT,
    SAMPLED,
    Parts,
    begins_alike,
    make_checkpoint,
    make_network,
    model,
    read_checkpoint,
    read_network,
    read_run,
    read_votes,
    x,
)  # fmt: skip
from tests.campaign.subjects import Subject, held

RESIZED = {
    "kind": "image", "before": [4, 6], "after": [2, 3], "method": "box", "precision": "float64", "divisor": 255,
}  # fmt: skip


def counted_votes() -> sc.Votes:
    """Votes of all classes, whose candidates are the most frequent ones: there is no pilot."""
    return sc.sample(model(), x(), **SAMPLED | {"n0": 0, "n": 30}, counts=True, classes=2, preprocessing=RESIZED)


def make_counted_votes(folder: Path) -> Path:
    counted_votes().save(folder / "votes.safetensors")
    return folder / "votes.safetensors"


def read_counted_votes(path: Path) -> object:
    found = sc.Votes.load(path)
    json.dumps([repr(found), repr(sc.certify_sets(found, tau=0.6, alpha=0.2))])
    sc.radius_map(found, alpha=0.2)
    return held(found)


def make_votes_at_prefixes(folder: Path) -> Path:
    """With the counts of all classes in the pilot, and after fewer draws."""
    found = sc.sample(model(), x(), **SAMPLED | {"n": 30}, counts=True, classes=2, prefixes=(12,))
    found.save(folder / "votes.safetensors")
    return folder / "votes.safetensors"


def make_map(folder: Path) -> Path:
    found = sc.sample(model(), x(), **SAMPLED, preprocessing=RESIZED)
    sc.RadiusMap.of(found, alpha=0.2, cap=0.9).save(folder / "radii.safetensors")
    return folder / "radii.safetensors"


def read_map(path: Path) -> object:
    found = sc.RadiusMap.load(path)
    json.dumps([repr(found), found.claim, found.threat, found.units, found.certified])
    map_facts(found)
    return held(found)


def make_looked_votes(folder: Path) -> Path:
    sc.sample(model(), x(), **SAMPLED | {"n": 30}, looks=3).save(folder / "votes.safetensors")
    return folder / "votes.safetensors"


def make_sets(folder: Path) -> Path:
    sc.certify_sets(counted_votes(), tau=0.6, alpha=0.2).save(folder / "sets.safetensors")
    return folder / "sets.safetensors"


def read_sets(path: Path) -> object:
    found = SetCertificate.load(path)
    json.dumps([repr(found), found.claim, int(found.only.sum()), found.as_labels().claim])
    sets_values(found)
    return held(found)


def make_metric(folder: Path) -> Path:
    claim = {"radius": 0.05, "sigma": 0.25, "n": 30, "alpha": 0.2, "seed": 0, "preprocessing": RESIZED}
    sc.certify_metric(model(), x(), sc.metrics.area(1), **claim).save(folder / "metric.safetensors")
    return folder / "metric.safetensors"


def read_metric(path: Path) -> object:
    found = MetricCertificate.load(path)
    json.dumps([repr(found), found.claim, found.threat, found.units, found.bound, found.upper, found.n])
    metric_values(found)
    plain = {each.name: getattr(found, each.name) for each in fields(found)}  # not the bounds that it keeps beside them
    return held(plain)


def make_metric_checkpoint(folder: Path, checkpoint: str = "resume", calls: int = 10) -> Path:
    CALLS_LEFT[0] = calls
    with suppress(RuntimeError, sc.InputError):
        certified_metric(folder / checkpoint, checkpoint_every=0)
    CALLS_LEFT[0] = 10**9
    return folder / checkpoint


def certified_metric(checkpoint: Path, **more: Any) -> MetricCertificate:
    claim = {"radius": 0.05, "sigma": 0.25, "n": 30, "alpha": 0.2, "seed": 0, "batch_size": 2}
    return sc.certify_metric(model(), x(), sc.metrics.area(1), checkpoint=checkpoint, **claim, **more)


@cache
def scenes() -> DataSet:
    return sc.data.load("shapes:?count=2&points=6")


def make_measured_run(folder: Path) -> Path:
    """An evaluation that bounds metrics, certifies sets and caps its radii, with all votes."""
    options: dict[str, Any] = {"n0": 2, "alpha": 0.2, "seed": 0, "batch_size": 30, "progress": False}
    measured = MetricSettings(("accuracy", "area:1"), radii=(0.05,))
    options |= {"metrics": measured, "sets": True, "cap": 0.9, "save_votes": True}
    evaluate(Parts().eval(), scenes(), out=folder / "run", settings=[(0.25, 30, 0.6), (0.25, 20, 0.75)], **options)
    return folder / "run"


def make_measured_records(folder: Path) -> Path:
    return make_measured_run(folder) / "records.jsonl"


def make_measured_config(folder: Path) -> Path:
    return make_measured_run(folder) / "config.json"


def make_votes_of_run(folder: Path) -> Path:
    return min((make_measured_run(folder) / "votes").iterdir())


def read_measured_run(path: Path) -> object:
    found, run = read_run(path), Run.load(path.parent)
    for table in (run.set_table(), run.set_class_table(), run.named_set_table(), run.metric_table()):
        if table is not None:
            table.markdown(), table.csv(), table.latex()
    run.metric_curves()
    audited(path.parent)
    return found


def audited(run: Path) -> str:
    """What audits of each kind of claim say of the scenes that are done."""
    names = RunFolder(run).configuration()["metrics"]
    claims: list[dict[str, Any]] = [{}, {"sets": True}, {"metric": names["names"][0] if names else "accuracy"}]
    options: dict[str, Any] = {"n": 60, "steps": 0, "directions": 1, "level": 0.01, "seed": 0, "batch_size": 60}
    model, data = Parts().eval(), scenes()
    return held([audit_run(model, data, run, **claim, **options, progress=False).verdict for claim in claims])


read_denoiser = partial(read_network, load=load_denoiser)

CERTIFICATES = (
    Subject("votes of all classes", make_counted_votes, read_counted_votes, ARCHIVE, (archive_changed,), digest=True),
    Subject("votes at prefixes", make_votes_at_prefixes, read_counted_votes, ARCHIVE, (archive_changed,), digest=True),
    Subject("radius map", make_map, read_map, ARCHIVE, (archive_changed,), digest=True, share=40),
    Subject("votes with looks", make_looked_votes, read_votes, ARCHIVE, (archive_changed,), digest=True),
    Subject("sets", make_sets, read_sets, ARCHIVE, (archive_changed,), digest=True, share=60),
    Subject("metric certificate", make_metric, read_metric, ARCHIVE, (archive_changed,), digest=True, share=60),
    Subject(
        "checkpoint of all classes",
        partial(make_checkpoint, counts=True, classes=2),
        partial(read_checkpoint, counts=True, classes=2),
        ARCHIVE,
        (archive_changed,),
        digest=True,
    ),
    Subject(
        "checkpoint of a metric",
        make_metric_checkpoint,
        lambda path: held(certified_metric(path).values),
        ARCHIVE,
        (archive_changed,),
        digest=True,
    ),
    Subject(
        "records of metrics and sets",
        make_measured_records,
        read_measured_run,
        (bytes_changed, words_changed),
        (lines_changed,),
        digest=True,
        share=60,
        same=begins_alike,
    ),
    Subject(
        "config of metrics and sets",
        make_measured_config,
        read_measured_run,
        (bytes_changed, json_changed),
        (stamped_json_changed,),
        digest=True,
        share=40,
    ),
    Subject(
        "votes of a run",
        make_votes_of_run,
        lambda path: audited(path.parent.parent),
        ARCHIVE,
        (archive_changed,),
        digest=True,
        share=20,
    ),
    Subject("denoiser", make_network("denoiser?widths=4,4"), read_denoiser, (), (archive_changed,), share=4),
)
"""The newer kinds of files that segcertify writes."""
