"""Training: a recipe's steps over a data set, on one device or several, resumable."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from segcertify import __version__, metrics
from segcertify.archive import require_writable
from segcertify.data import DataSet
from segcertify.errors import InputError, require_integer
from segcertify.models.card import Card, save_model
from segcertify.models.families import describe
from segcertify.progress import progress_bar
from segcertify.training import resume
from segcertify.training.augmentation import augment
from segcertify.training.average import Average
from segcertify.training.journal import Journal
from segcertify.training.objectives import PixelLoss, full_size, objective
from segcertify.training.pool import IGNORE, Pool, batches, read_pool
from segcertify.training.ranks import Ranks, ranks
from segcertify.training.recipe import Recipe
from segcertify.training.schedule import optimiser, set_rate
from segcertify.training.step import Step

ENET = 1.02
"""The constant in the class weights of [Paszke2016]."""


@dataclass(frozen=True)
class Schedule:
    """How often a run writes: its log, its state, and what it measures on other scenes (all in steps)."""

    log: int = 50
    save: int = 500
    validate: int = 1000

    def __post_init__(self) -> None:
        for name in ("log", "save", "validate"):
            require_integer(f"every ({name})", getattr(self, name))


def train(
    model: nn.Module,
    data: DataSet,
    recipe: Recipe,
    *,
    out: str | os.PathLike[str],
    spec: str = "",
    validation: DataSet | None = None,
    device: str | torch.device | None = None,
    every: Schedule | None = None,
    half: bool = False,
    graphed: bool | None = None,
    tensorboard: bool = False,
    licence: str = "not stated",
    progress: bool | None = None,
) -> Path:
    """Train a model and write it, with its card, to ``out/model.safetensors``.

    The same call again resumes a run that was stopped, and ends in the same
    weights (on a CPU). All randomness of step j depends on (seed, j) alone; the
    global seed is left as it was.
    """
    out = Path(out)
    every = every or Schedule()
    _require_fit(model, data, validation)
    with ranks(device) as here:
        run = _Run(model.to(here.device), data, recipe, out=out, here=here, graphed=graphed, progress=progress)
        run.start()
        others = None if validation is None else read_pool(validation, here.device, progress=progress)
        cuda = [here.device] if here.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            measured = run.go(every, others, tensorboard=tensorboard)
        path = out / "model.safetensors"
        if here.first:
            card = _card(run.result, data, recipe, spec=spec, measured=measured, licence=licence)
            save_model(path, run.result, card, half=half)
            (out / "model.md").write_text(card.markdown(), encoding="utf-8")
        here.wait()
    return path


class _Run:
    """A training run in its folder."""

    def __init__(
        self,
        model: nn.Module,
        data: DataSet,
        recipe: Recipe,
        *,
        out: Path,
        here: Ranks,
        graphed: bool | None,
        progress: bool | None,
    ) -> None:
        self.recipe, self.here, self.out, self.progress = recipe, here, out, progress
        self.settings = {"data": data.name, "scenes": len(data), **recipe.to_plain()}
        self.share = here.share(recipe.batch_size)
        self.file = require_writable(out / "resume.safetensors")
        self.pool = read_pool(data, here.device, progress=progress and here.first)
        self.model = model.to(memory_format=torch.channels_last).train()
        self.average = Average(self.model, recipe.ema) if recipe.ema else None
        self.optimiser = optimiser(self.model, recipe)
        wrapped = here.wrap(self.model)
        loss = PixelLoss(_class_weights(self.pool, recipe), recipe.ohem)
        if graphed is None:
            graphed = here.device.type == "cuda" and here.count == 1
        self.step = Step(wrapped, objective(recipe, loss, here.device), recipe, graphed=graphed)
        self.done = 0

    @property
    def result(self) -> nn.Module:
        """The model to keep: the average, where there is one."""
        return self.model if self.average is None else self.average.model

    @property
    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model} | ({} if self.average is None else {"average": self.average.model})

    def start(self) -> None:
        """Go on from the state in the folder, if there is one; else write the recipe."""
        if self.file.exists():
            self.done = resume.load(self.file, recipe=self.settings, modules=self._modules, optimiser=self.optimiser)
        elif (self.out / "model.safetensors").exists():
            raise InputError(f"{self.out} holds a finished model of another run: choose another folder")
        if self.here.first:
            (self.out / "recipe.json").write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")

    def go(self, every: Schedule, others: Pool | None, *, tensorboard: bool) -> Mapping[str, float]:
        """All remaining steps; returns what was measured on the other scenes at the end."""
        recipe, here = self.recipe, self.here
        journal = Journal(self.out, start=self.done, tensorboard=tensorboard) if here.first else None
        order = batches(len(self.pool), self.share, seed=recipe.seed, start=self.done, rank=here.rank, ranks=here.count)
        totals: dict[str, torch.Tensor] = {}
        began, measured = time.perf_counter(), dict[str, float]()
        with progress_bar(recipe.steps, self.out.name, show=self.progress if here.first else False) as advance:
            advance(self.done)
            while self.done < recipe.steps:
                rate, losses = self._update(next(order))
                totals = {name: totals.get(name, 0) + value for name, value in losses.items()}
                self.done += 1
                advance(1)
                last = self.done == recipe.steps
                if self.done % every.log == 0 or last:
                    count = (self.done - 1) % every.log + 1
                    row = {"step": float(self.done), "lr": rate}
                    row |= {name: float(here.mean(value / count)) for name, value in totals.items()}
                    if not np.isfinite(row["loss"]):
                        raise InputError(
                            f"the loss became {row['loss']} by step {self.done}: lower lr (now {recipe.lr:g}), "
                            f"or train in fp32; the state of the last save is in {self.file}"
                        )
                    seconds = time.perf_counter() - began
                    row |= {"seconds": seconds, "images per second": count * recipe.batch_size / seconds}
                    if others is not None and (self.done % every.validate == 0 or last):
                        measured = measure(self.result, others, sigma=recipe.drawn[0])
                        row |= {f"validation {name}": value for name, value in measured.items()}
                    if journal is not None:
                        journal.add(row)
                    totals, began = {}, time.perf_counter()
                if here.first and (self.done % every.save == 0 or last):
                    resume.save(
                        self.file, step=self.done, recipe=self.settings, modules=self._modules, optimiser=self.optimiser
                    )
        if journal is not None:
            journal.close()
            measured = {
                k.removeprefix("validation "): v for k, v in journal.rows[-1].items() if k.startswith("validation ")
            }
        return measured

    def _update(self, indices: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
        """One step of the optimiser, on these scenes."""
        recipe, here = self.recipe, self.here
        torch.manual_seed(_seed(recipe.seed, self.done, here.rank))
        x, target = augment(self.pool, indices.to(here.device, non_blocking=True), recipe)
        losses = self.step(x.contiguous(memory_format=torch.channels_last), target)
        rate = set_rate(self.optimiser, self.done, recipe)
        if recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.done)
        return rate, losses


@torch.no_grad()
def measure(model: nn.Module, pool: Pool, *, sigma: float, seed: int = 0) -> dict[str, float]:
    """Accuracy and pooled mIoU of a model under one draw of noise on whole scenes."""
    training = model.training
    model.eval()
    total = np.zeros((pool.classes, pool.classes + 1), np.int64)
    generator = torch.Generator(pool.images.device).manual_seed(seed)
    for image, target, size in zip(pool.images, pool.targets, pool.sizes.tolist(), strict=True):
        x = image[None, :, : size[0], : size[1]].float() / 255
        x = x + sigma * torch.randn(x.shape, generator=generator, device=x.device)
        labels = full_size(model, x).argmax(1)[0].cpu().numpy()
        truth = target[: size[0], : size[1]].cpu().numpy()
        total += metrics.confusion(labels, truth.astype(np.int64), truth != IGNORE, classes=pool.classes)
    model.train(training)
    return {"accuracy": metrics.accuracy(total), "mIoU": metrics.mean_iou([total])}


def _card(
    model: nn.Module, data: DataSet, recipe: Recipe, *, spec: str, measured: Mapping[str, float], licence: str
) -> Card:
    return Card(
        architecture=describe(model, spec),
        classes=data.classes,
        colours=tuple((int(r), int(g), int(b)) for r, g, b in data.colours),
        data=f"{data.name} ({len(data)} scenes)",
        objective=recipe.objective,
        sigma=recipe.drawn,
        recipe=recipe.to_plain(),
        metrics=dict(measured),
        licence=licence,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=__version__,
    )


def _class_weights(pool: Pool, recipe: Recipe) -> torch.Tensor | None:
    if recipe.class_weights == "none":
        return None
    weights = 1 / torch.log(ENET + pool.frequencies)
    return (weights / weights.mean()).float().to(pool.images.device)


def _require_fit(model: nn.Module, data: DataSet, validation: DataSet | None) -> None:
    """The model's classes are the data's, found out on a small grey image before anything long."""
    if validation is not None and validation.classes != data.classes:
        raise InputError(f"{validation.name} has other classes than {data.name}")
    device = next((weight.device for weight in model.parameters()), None)
    if device is None:
        raise InputError(f"{type(model).__name__} has no weights to train")
    training = model.training
    with torch.no_grad():
        logits = model.eval()(torch.full((1, 3, 64, 64), 0.5, device=device))
    model.train(training)
    if not isinstance(logits, torch.Tensor) or logits.ndim != 4 or logits.shape[1] != len(data.classes):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(
            f"the model must give logits (B, {len(data.classes)}, height, width) for {data.name}, but gave {got}"
        )


def _seed(seed: int, step: int, rank: int) -> int:
    """A seed of its own for every step and process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))
