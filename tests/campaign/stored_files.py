"""The files that segcertify writes, as subjects of the campaign: votes, certificates, checkpoints, runs, models."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import segcertify as sc
from segcertify.cli.printing import certificate_values
from segcertify.evaluation.run import evaluate
from segcertify.models.card import Card, read_model, save_model
from segcertify.models.families import describe, new
from segcertify.models.saved import load_trained
from segcertify.models.wrappers.ensemble import Ensemble
from segcertify.records import RunFolder
from segcertify.records.settings import AttackSettings
from segcertify.report.run import Run
from segcertify.training import Recipe, read_recipe, state
from segcertify.training.folder import claim
from segcertify.training.log import read_log
from segcertify.training.optimisation import optimiser
from tests.campaign.mutations import (
    archive_changed,
    bytes_changed,
    json_changed,
    lines_changed,
    safetensors_changed,
    stamped_json_changed,
    words_changed,
)
from tests.campaign.subjects import Subject, held

NOISE = sc.Gaussian(0.25)
SAMPLED: dict[str, Any] = {"noise": NOISE, "n": 8, "n0": 4, "batch_size": 2, "seed": 0}
PREPROCESSING = {"kind": "cloud", "centre": [0.5, 0.5, 0.5], "factor": 2.0, "points": [8, 4]}
ARCHIVE = (bytes_changed, safetensors_changed)


CALLS_LEFT = [10**9]


class Tiny(nn.Module):
    """Two classes for each pixel; it fails when `CALLS_LEFT` is used up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 2, 1)
        self.layer.weight.data = torch.tensor([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.25]]).view(2, 3, 1, 1)
        self.layer.bias.data.zero_()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        CALLS_LEFT[0] -= 1
        if CALLS_LEFT[0] < 0:
            raise RuntimeError("the model fails")
        return self.layer(batch)


@cache
def model() -> Tiny:
    return Tiny().eval()


def x() -> torch.Tensor:
    return torch.linspace(0, 1, 18).view(3, 2, 3)


def votes() -> sc.Votes:
    options = {"prefixes": (4,), "mask": np.array([[True, True, False], [True] * 3]), "preprocessing": PREPROCESSING}
    return sc.sample(model(), x(), **SAMPLED, **options, input_id="a")


def make_votes(folder: Path) -> Path:
    votes().save(folder / "votes.safetensors")
    return folder / "votes.safetensors"


def read_votes(path: Path) -> object:
    found = sc.Votes.load(path)
    repr(found)
    for correction in ("holm", "bonferroni"):
        repr(sc.certify_votes(found, tau=0.6, alpha=0.2, correction=correction))
    sc.radius_map(found, alpha=0.2)
    for n in (*found.earlier, found.n):
        found.at(n).histogram()
    return held(found)


def make_certificate(folder: Path) -> Path:
    sc.certify_votes(votes(), tau=0.6, alpha=0.2).save(folder / "certificate.safetensors")
    return folder / "certificate.safetensors"


def read_certificate(path: Path) -> object:
    found = sc.Certificate.load(path)
    json.dumps([repr(found), found.claim, found.threat, found.units, found.certified])
    certificate_values(found)
    return held(found)


def make_checkpoint(folder: Path, calls: int = 12, **more: Any) -> Path:
    CALLS_LEFT[0] = calls
    with suppress(RuntimeError, sc.InputError):
        sc.sample(model(), x(), **SAMPLED, checkpoint=folder / "resume", checkpoint_every=0, **more)
    CALLS_LEFT[0] = 10**9
    return folder / "resume"


def read_checkpoint(path: Path, **more: Any) -> object:
    return held(sc.sample(model(), x(), **SAMPLED, checkpoint=path, **more))


def make_early_checkpoint(folder: Path) -> Path:
    return make_checkpoint(folder, 8)


def training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2))
    return network, optimiser(network, Recipe())


def make_state(folder: Path) -> Path:
    network, update = training()
    network(torch.rand(2, 3, 4, 4)).sum().backward()
    update.step()
    state.save(folder / "resume.safetensors", step=1, modules={"model": network}, optimiser=update)
    return folder / "resume.safetensors"


def read_state(path: Path) -> object:
    network, update = training()
    step = state.load(path, modules={"model": network}, optimiser=update)
    network(torch.rand(2, 3, 4, 4)).sum().backward()
    values = held([step, network.state_dict(), [*update.state.values()]])
    update.step()
    return values


def card(**changed: Any) -> Card:
    fields: dict[str, Any] = {
        "architecture": {"family": "python", "spec": "python:mine:make"},
        "classes": ("a", "b"),
        "colours": ((0, 0, 0), (255, 0, 0)),
        "data": "toys (1 scene)",
        "objective": "noise",
        "sigma": (0.25,),
        "recipe": {"lr": 0.1, "iterations": 3},
        "metrics": {"accuracy": 0.5},
        "licence": "none",
        "date": "2026-01-31",
        "version": "0.3.0",
        "input_size": 16,
    }
    return Card(**fields | changed)


def make_model(folder: Path) -> Path:
    save_model(folder / "model.safetensors", model(), card())
    return folder / "model.safetensors"


def read_trained(path: Path) -> object:
    found, weights = read_model(path)
    json.dumps([found.markdown(), found.inputs, found.to_plain()])
    return held([found.to_plain(), weights.tensors])


def make_network(spec: str, members: int = 1) -> Any:
    """A file of which the card is read, and the network built; its weights are left out, so that it is small."""

    def make(folder: Path) -> Path:
        networks = [new(spec, classes=2) for _ in range(members)]
        network = networks[0] if members == 1 else Ensemble(networks)
        path = folder / "network.safetensors"
        from segcertify.storage import archive

        header = card(architecture=describe(network)).to_plain()
        archive.write(path, kind="model", version=2, header=header, arrays={"bias": np.zeros(2, np.float32)})
        return path

    return make


def read_network(path: Path, load: Callable[[Path], nn.Module] = load_trained) -> object:
    try:
        return repr(load(path))
    except sc.InputError as error:
        if "does not fit" in str(error):  # as the weights are left out
            return None
        raise


class Parts(nn.Module):
    """A part for each point of a cloud, by its coordinates."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 50)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layer(batch).transpose(1, 2)


def make_run(folder: Path) -> Path:
    attack = AttackSettings(radii=(0.1,), steps=1, smoothed=2)
    options: dict[str, Any] = {"n0": 2, "alpha": 0.2, "seed": 0, "batch_size": 2, "attack": attack, "progress": False}
    data = sc.data.load("shapes:?count=2&points=6")
    options |= {"looks": (4, 8), "cap": 0.9}
    evaluate(Parts().eval(), data, out=folder / "run", settings=[(0.25, 8, 0.6)], **options)
    return folder / "run"


def make_records(folder: Path) -> Path:
    return make_run(folder) / "records.jsonl"


def make_config(folder: Path) -> Path:
    return make_run(folder) / "config.json"


def read_run(path: Path) -> object:
    run = Run.load(path.parent)
    repr(run)
    for table in (run.table(), run.class_table(), run.category_table(), run.attacked_table()):
        if table is not None:
            table.markdown(), table.csv(), table.latex()
    run.curves()
    folder = RunFolder(path.parent)
    if not signature(folder.record_file).parameters:  # older code must be told how many records a scene has
        folder.record_file()
    return held([run.configuration, folder.seed]), [held(record) for record in run.records]


def begins_alike(found: Any, good: Any) -> bool:
    """Whether a run's configuration is the same, and its records are the first of the good ones, as after a kill."""
    return found[0] == good[0] and found[1] == good[1][: len(found[1])]


SETTINGS = Recipe().to_plain() | {"model": "lite", "data": "toys", "scenes": 3, "licence": "none", "half": False}


def make_recipe(folder: Path) -> Path:
    (folder / "training").mkdir()
    claim(folder / "training", SETTINGS)
    (folder / "training" / "resume.safetensors").write_bytes(b"")
    return folder / "training" / "recipe.json"


def read_recipes(path: Path) -> object:
    found = read_recipe(path)
    with suppress(sc.InputError):  # it refuses other settings anyway
        claim(path.parent, SETTINGS)
    return held([found[0].to_plain(), found[1]])


def written_by_hand(content: bytes) -> bool:
    """Whether a recipe says that it has no digest, as one that a person wrote: it has neither digest nor format."""
    with suppress(ValueError, RecursionError):
        values = json.loads(content)
        return isinstance(values, dict) and values.get("digest") is None and values.get("format", 1) == 1
    return False


def make_log(folder: Path) -> Path:
    (folder / "log.csv").write_text("step,loss,lr\n1,0.5,0.1\n2,0.25,\n")
    return folder / "log.csv"


STORED = (
    Subject("votes", make_votes, read_votes, ARCHIVE, (archive_changed,), digest=True, share=100),
    Subject("certificate", make_certificate, read_certificate, ARCHIVE, (archive_changed,), digest=True, share=100),
    Subject("checkpoint", make_checkpoint, read_checkpoint, ARCHIVE, (archive_changed,), digest=True, share=60),
    Subject("early checkpoint", make_early_checkpoint, read_checkpoint, ARCHIVE, (archive_changed,), digest=True),
    Subject("training state", make_state, read_state, ARCHIVE, (archive_changed,), digest=True, share=40),
    Subject("trained model", make_model, read_trained, ARCHIVE, (archive_changed,), digest=True, share=60),
    Subject(
        "hrnet", make_network("hrnet?width=1&blocks=1&modules=1,1,1"), read_network, (), (archive_changed,), share=4
    ),
    Subject("lite", make_network("lite?width=1"), read_network, (), (archive_changed,), share=4),
    Subject("ensemble", make_network("lite?width=1", 2), read_network, (), (archive_changed,), share=4),
    Subject("pointnet2", make_network("pointnet2"), read_network, (), (archive_changed,), share=4),
    Subject(
        "records",
        make_records,
        read_run,
        (bytes_changed, words_changed),
        (lines_changed,),
        digest=True,
        share=80,
        same=begins_alike,
    ),
    Subject(
        "config", make_config, read_run, (bytes_changed, json_changed), (stamped_json_changed,), digest=True, share=80
    ),
    Subject(
        "recipe",
        make_recipe,
        read_recipes,
        (bytes_changed, json_changed),
        (stamped_json_changed,),
        digest=True,
        share=40,
        unsigned=written_by_hand,
    ),
    Subject("training log", make_log, read_log, (bytes_changed, words_changed), share=10),
)
"""The kinds of files that segcertify writes."""
