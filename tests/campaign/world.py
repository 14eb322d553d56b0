"""A small world for commands: inputs, data sets, a certificate and a run, made once and copied for each attempt.

outer/            nothing may be written here, nor in the folders beside `work`
  models          a link to models, which are too large to copy
  home/ temp/     what HOME and TMPDIR name
  work/           where the command runs

"""

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

TINY = """
import torch
from torch import nn

class Tiny(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.layer = nn.Conv2d(3, classes, 1)

    def forward(self, batch):
        return self.layer(batch)

def make(classes=3):
    torch.manual_seed(0)
    return Tiny(int(classes))

def fails():
    raise RuntimeError("this factory fails")
"""


@dataclass(frozen=True)
class World:
    """The folders of one attempt."""

    outer: Path

    @property
    def work(self) -> Path:
        """Where commands run."""
        return self.outer / "work"

    def fresh(self, folder: Path) -> "World":
        """A copy for one attempt."""
        shutil.copytree(self.outer, folder, symlinks=True, ignore=shutil.ignore_patterns("pipe"))
        os.mkfifo(folder / "work" / "pipe")
        return World(folder)

    def outside(self) -> dict[str, tuple[int, int]]:
        """What tells of changes of the files outside the working folder, and of the pipe, which no file may replace."""
        pipe = self.work / "pipe"
        found = {str(pipe): (os.lstat(pipe).st_mode, 0)} if os.path.lexists(pipe) else {}
        for parent, folders, names in os.walk(self.outer):
            if parent == str(self.outer):
                folders.remove("work")
            for name in [*names, *folders]:
                status = os.lstat(os.path.join(parent, name))
                is_folder = name in folders
                found[os.path.join(parent, name)] = (0, 0) if is_folder else (status.st_size, status.st_mtime_ns)
        return found

    def changed(self, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> tuple[str, ...]:
        """Which files differ between two looks `outside`, by their paths from here: results keep no others."""
        paths = (path for path in {**before, **after} if before.get(path) != after.get(path))
        return tuple(os.path.relpath(path, self.outer) for path in paths)


def build(outer: Path) -> World:
    """Make the world, with the commands themselves where they write files that others read."""
    world, models = World(outer), outer.with_name("models")
    models.mkdir(parents=True)
    for name in ("work", "home", "temp"):
        (outer / name).mkdir(parents=True)
    work, rng = world.work, np.random.default_rng(0)
    (work / "tiny.py").write_text(TINY)
    Image.fromarray(rng.integers(0, 256, (8, 10, 3), np.uint8)).save(work / "a.png")
    Image.fromarray(rng.integers(0, 3, (8, 10), np.uint8)).save(work / "label.png")
    np.save(work / "array.npy", rng.random((3, 8, 10)).astype(np.float32))
    cloud = np.column_stack([rng.normal(size=(60, 6)), rng.integers(0, 3, 60)])
    np.savetxt(work / "cloud.txt", cloud)
    for name in "abc":
        for folder, high, shape in (("images", 256, (8, 10, 3)), ("labels", 3, (8, 10))):
            (work / "set" / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, high, shape, np.uint8)).save(work / "set" / folder / f"{name}.png")
    (work / "set" / "dataset.toml").write_text("classes = ['wall', 'road', 'sky']\n")
    (work / "clouds" / "points").mkdir(parents=True)
    np.savetxt(work / "clouds" / "points" / "c.txt", cloud)
    (work / "clouds" / "dataset.toml").write_text("classes = ['leg', 'seat', 'back']\n")
    (work / "notes.txt").write_text("words, no numbers")
    (work / "empty").touch()
    for name in ("null", "zero", "full"):  # links: a command that replaces a device must not reach the machine's own
        (work / name).symlink_to(f"/dev/{name}")
    os.mkfifo(work / "pipe")
    (outer / "models").symlink_to(models)
    _made_by_commands(work)
    return world


def _made_by_commands(work: Path) -> None:
    import segcertify as sc
    from segcertify.evaluation import evaluate
    from segcertify.models import new
    from segcertify.models.card import Card, save_model
    from segcertify.models.families import describe

    here = os.getcwd()
    os.chdir(work)
    sys.path.append(str(work))
    try:
        model = sc.models.load("python:tiny:make")
        certificate = sc.certify(
            model, np.load("array.npy"), sigma=0.25, tau=0.75, n=60, n0=5, alpha=0.001, seed=1, input_id="array",
            save_votes="votes.safetensors", progress=False,
        )  # fmt: skip
        certificate.save("certificate.safetensors")
        data = sc.data.load("folder:set")
        card = Card(
            architecture=describe(lite := new("lite", classes=3)), classes=data.classes, colours=((0, 0, 0),) * 3,
            data="set", objective="plain", sigma=(0.25,), recipe={}, metrics={}, licence="CC0", date="2025-01-31",
            version="0",
        )  # fmt: skip
        save_model("../models/lite.safetensors", lite, card)
        if hasattr(sc, "certify_sets"):  # older code has none of these
            _newer_files(model, card, data)
        evaluate(model, data, out="run", settings=[(0.25, 60, 0.75)], seed=1, save_votes=True, progress=False)
    finally:
        sys.path.remove(str(work))
        os.chdir(here)


def _newer_files(model: Any, card: Any, data: Any) -> None:
    """Votes of all classes, certificates of sets and metrics, radii, a run with all of them, and a denoiser."""
    import segcertify as sc
    from segcertify.evaluation import evaluate
    from segcertify.models import new
    from segcertify.models.card import save_model
    from segcertify.models.families import describe
    from segcertify.records import MetricSettings

    draws = {"noise": sc.Gaussian(0.25), "n": 60, "n0": 5, "seed": 1}
    votes = sc.sample(model, np.load("array.npy"), **draws, counts=True, classes=3, progress=False)
    votes.save("counts.safetensors")
    sc.certify_sets(votes, tau=0.75, alpha=0.1).save("sets.safetensors")
    sc.RadiusMap.of(votes, alpha=0.1, cap=0.9).save("radii.safetensors")
    measured = MetricSettings(("accuracy", "area:road"), radii=(0.1,))
    whole = {"settings": [(0.25, 60, 0.75)], "seed": 1, "save_votes": True, "progress": False}
    evaluate(model, data, out="measured", metrics=measured, sets=True, cap=0.9, **whole)
    metric = sc.metrics.area(1)
    claim = {"sigma": 0.25, "radius": 0.1, "alpha": 0.1, "n": 60, "seed": 1, "progress": False}
    sc.certify_metric(model, np.load("array.npy"), metric, **claim).save("metric.safetensors")
    architecture = describe(denoiser := new("denoiser?widths=4,4", classes=3))
    save_model("../models/denoiser.safetensors", denoiser, replace(card, architecture=architecture))
