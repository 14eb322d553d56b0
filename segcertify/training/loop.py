"""Training: a recipe's steps over a data set, on one device or several, resumable."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from segcertify import __version__
from segcertify.data import DataSet
from segcertify.data.clouds.augmentation import turn
from segcertify.data.images.augmentation import augment
from segcertify.errors import InputError, require_integer
from segcertify.models.card import Card, save_model
from segcertify.models.families import describe
from segcertify.progress import progress_bar
from segcertify.sampling.segmenter import upsampled
from segcertify.storage.archive import require_writable
from segcertify.storage.interruption import interruption
from segcertify.training import state
from segcertify.training.average import Average
from segcertify.training.distributed import Ranks, ranks
from segcertify.training.log import LOG, Journal, read_log, require_tensorboard
from segcertify.training.objectives import PixelLoss, objective
from segcertify.training.optimisation import optimiser, set_rate
from segcertify.training.pool import CloudPool, Pool, batches, frequencies, read_pool, with_category
from segcertify.training.recipe import Recipe
from segcertify.training.step import Step
from segcertify.training.validation import measure

MODEL, RECIPE, STATE = "model.safetensors", "recipe.json", "resume.safetensors"
"""The files in a run's folder: the finished model, the settings, the state of an unfinished run."""


@dataclass(frozen=True)
class Every:
    """How often, in steps, a run writes its log and its state, and measures itself on other scenes."""

    log: int = 50
    save: int = 500
    validate: int = 1000

    def __post_init__(self) -> None:
        for name in ("log", "save", "validate"):
            require_integer(f"the steps of {name}-every", getattr(self, name))
        for name in ("save", "validate"):  # a row of the log is never cut in two
            steps = getattr(self, name)
            if steps % self.log:
                raise InputError(
                    f"{name}-every must be a multiple of log-every, {self.log}, but is {steps}: "
                    f"use {-(-steps // self.log) * self.log}, or another log-every"
                )


def train(
    model: nn.Module,
    data: DataSet,
    recipe: Recipe,
    *,
    out: str | os.PathLike[str],
    spec: str = "",
    start: str = "",
    validation: DataSet | None = None,
    licence: str = "not stated",
    half: bool = False,
    device: str | torch.device | None = None,
    graphed: bool | None = None,
    every: Every | None = None,
    tensorboard: bool = False,
    progress: bool | None = None,
) -> Path:
    """Train a model, and write it with its card to ``out/model.safetensors``.

    The same call again goes on with a run that was stopped, to the same weights
    (on a CPU); a finished one is left as it is. All randomness of step j depends on
    (seed, j) alone, and the global seeds stay as they were. ``spec`` and
    ``start`` say, for the card, what the model was made of and began with.
    ``graphed``: replay steps as a CUDA graph, by default where one GPU is used and
    the model does not say ``graphable = False``.
    """
    out, every = Path(out), every or Every()
    settings = {"model": spec, "start": start, "data": data.name, "scenes": len(data), **recipe.to_plain()}
    settings |= {"validation": "" if validation is None else validation.name, "licence": licence, "half": half}
    if tensorboard:
        require_tensorboard()
    with ranks(device) as here:
        here.share(recipe.batch_size)
        _require_fit(model.to(here.device), data, validation, crop=recipe.crop)
        _card(model, data, recipe, spec=spec, licence=licence, start=start, measured={})  # errors now, not at the end
        if _claim(out, settings):
            return out / MODEL
        run = _Run(model, data, recipe, out=out, here=here, graphed=graphed, progress=progress)
        others = None if validation is None else read_pool(validation, here.device, progress=run.progress)
        cuda = [here.device] if here.device.type == "cuda" else []
        alone = interruption() if here.count == 1 else nullcontext(lambda: None)  # several would wait for each other
        with alone as asked_to_stop:
            with torch.random.fork_rng(devices=cuda):
                measured = run.go(every, others, tensorboard=tensorboard, asked_to_stop=asked_to_stop)
            if here.first:
                card = _card(run.result, data, recipe, spec=spec, licence=licence, start=start, measured=measured)
                (out / "model.md").write_text(card.markdown(), encoding="utf-8")
                save_model(out / MODEL, run.result, card, half=half)
                run.file.unlink(missing_ok=True)
        here.wait()
    return out / MODEL


class _Run:
    """A training run in its folder, started or gone on with."""

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
        self.recipe, self.here, self.out = recipe, here, out
        self.progress = progress if here.first else False
        self.share = here.share(recipe.batch_size)
        self.pool = read_pool(data, here.device, progress=self.progress)
        self.model = model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.average = Average(self.model, recipe.ema) if recipe.ema else None
        self.optimiser = optimiser(self.model, recipe)
        self.file = out / STATE
        self.done = 0
        if self.file.exists():
            self.done = state.load(self.file, modules=self._modules, optimiser=self.optimiser)
        if graphed is None:
            graphed = here.device.type == "cuda" and here.count == 1 and getattr(model, "graphable", True)
        loss = PixelLoss(_class_weights(self.pool, recipe), recipe.ohem)
        self.step = Step(
            here.join(self.model),
            objective(recipe, loss, here.device, noised=self.pool.noised),
            recipe,
            graphed=graphed,
        )

    @property
    def result(self) -> nn.Module:
        """The model to keep: the average, where there is one."""
        return self.model if self.average is None else self.average.model

    @property
    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model} | ({} if self.average is None else {"average": self.average.model})

    def go(
        self, every: Every, others: Pool | None, *, tensorboard: bool, asked_to_stop: Callable[[], BaseException | None]
    ) -> dict[str, float]:
        """All remaining steps; returns what was measured on the other scenes at the end.

        Asked to stop, it ends the step, writes its row and saves; the last step it ends as always.
        """
        recipe, here = self.recipe, self.here
        journal = Journal(self.out, start=self.done, tensorboard=tensorboard) if here.first else None
        order = batches(len(self.pool), self.share, seed=recipe.seed, start=self.done, rank=here.rank, ranks=here.count)
        totals: dict[str, torch.Tensor] = {}
        measured: dict[str, float] = {}
        began, logged = time.perf_counter(), self.done
        row: dict[str, float] = {}

        def news() -> str:
            return f"loss {row['loss']:.3g}" if row else ""

        bar = progress_bar(recipe.steps, f"training {self.out.name}", news=news, show=self.progress)
        with bar as advance, nullcontext() if journal is None else closing(journal):
            advance(self.done)
            while self.done < recipe.steps:
                rate, losses = self._update(next(order))
                totals = {name: totals.get(name, 0) + value for name, value in losses.items()}
                self.done += 1
                last = self.done == recipe.steps
                stop = None if last else asked_to_stop()
                if self.done % every.log == 0 or last or stop:
                    count = self.done - logged
                    row = {"step": float(self.done), "lr": rate, **self._means(totals, count)}
                    seconds = time.perf_counter() - began
                    row |= {"seconds": seconds, "images per second": count * recipe.batch_size / seconds}
                    if others is not None and (self.done % every.validate == 0 or last):
                        measured = measure(self.result, others, sigma=recipe.drawn[0])
                        row |= {f"validation {name}": value for name, value in measured.items()}
                    if journal is not None:
                        journal.add(row)
                    totals, began, logged = {}, time.perf_counter(), self.done
                advance(1)
                if here.first and (self.done % every.save == 0 or stop) and not last:
                    state.save(self.file, step=self.done, modules=self._modules, optimiser=self.optimiser)
                if stop:
                    raise stop
        return measured

    def _update(self, indices: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
        """One step of the optimiser, on these scenes: its learning rate and losses."""
        recipe, here = self.recipe, self.here
        _set_seed(_seed(recipe.seed, self.done, here.rank), here.device)
        try:
            losses = self.step(*self._batch(indices.to(here.device, non_blocking=True)))
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                f"{self.share} of the batch_size {recipe.batch_size} with crops of {recipe.crop} leaves a batch norm "
                "one value to average: use a larger batch_size or crop"
            ) from None
        here.share_gradients(self.model)
        rate = set_rate(self.optimiser, self.done, recipe)
        if recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.done)
        return rate, losses

    def _batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """These scenes, augmented."""
        if isinstance(self.pool, CloudPool):
            return turn(self.pool, indices, self.recipe)
        x, target = augment(self.pool, indices, self.recipe)
        return x.contiguous(memory_format=torch.channels_last), target

    def _means(self, totals: Mapping[str, torch.Tensor], count: int) -> dict[str, float]:
        """The losses' means over the last steps and all processes; a loss that is no number ends the run."""
        means = {name: float(self.here.mean(value / count)) for name, value in totals.items()}
        if not np.isfinite(means["loss"]):
            raise InputError(
                f"the loss became {means['loss']} by step {self.done}: lower lr (now {self.recipe.lr:g}), "
                f"or use precision fp32 (now {self.recipe.precision})"
            )
        return means


def _claim(out: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the run is finished; an error if the folder is of a run with other settings, which are written down.

    A run that failed before its log's first row leaves the folder to another.
    """
    file = require_writable(out / RECIPE)
    if file.exists():
        try:
            found = dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise InputError(f"{file} is not a recipe that segcertify wrote: choose another folder") from None
        other = next((name for name in settings if found.get(name) != settings[name]), None)
        if other is None:
            return (out / MODEL).exists()
        if _begun(out):
            raise InputError(
                f"{out} is of a run with {other} = {found.get(other)!r}, but now {other} = {settings[other]!r}: "
                "choose another folder, or give the same settings to go on with it"
            )
    elif (out / MODEL).exists():
        raise InputError(f"{out} holds a model of another run: choose another folder")
    whole = file.with_name(f".{file.name}.{os.getpid()}.tmp")  # several processes may claim at once
    whole.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    os.replace(whole, file)
    return False


def _begun(out: Path) -> bool:
    """Whether a run's folder holds anything of its training."""
    log = out / LOG
    return (out / MODEL).exists() or (out / STATE).exists() or (log.exists() and bool(read_log(log)))


def _card(
    model: nn.Module,
    data: DataSet,
    recipe: Recipe,
    *,
    spec: str,
    start: str,
    licence: str,
    measured: Mapping[str, float],
) -> Card:
    return Card(
        architecture=describe(model, spec),
        classes=data.classes,
        colours=tuple((int(r), int(g), int(b)) for r, g, b in data.colours),
        data=f"{data.name} ({len(data)} scenes)" + (f", started from {start}" if start else ""),
        objective=recipe.objective,
        sigma=recipe.drawn,
        recipe=recipe.to_plain(),
        metrics={
            f"{name} at sigma {recipe.drawn[0]:g} on other scenes": value
            for name, value in measured.items()
            if np.isfinite(value)
        },
        licence=licence,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=__version__,
    )


def _class_weights(pool: Pool, recipe: Recipe) -> torch.Tensor | None:
    if recipe.class_weights == "none":
        return None
    weights = 1 / torch.log(recipe.log_offset + frequencies(pool))
    return (weights / weights.mean()).float().to(pool.targets.device)


def _require_fit(model: nn.Module, data: DataSet, validation: DataSet | None, *, crop: tuple[int, int]) -> None:
    """The model takes such inputs and answers with the data's classes, found out before anything long."""
    if validation is not None and validation.classes != data.classes:
        raise InputError(f"{validation.name} has other classes than {data.name}")
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(f"{type(model).__name__} has no weights to train")
    grey = torch.full((1, 3, *crop), 0.5)
    _require_logits(model, grey if data.noised is None else _first(data), data)
    if validation is not None:
        _require_logits(model, _first(validation), validation)


def _first(data: DataSet) -> torch.Tensor:
    """A batch of the first scene, as the pool has it."""
    return torch.from_numpy(with_category(data[0], data))[None]


def _require_logits(model: nn.Module, x: torch.Tensor, data: DataSet) -> None:
    """The model's answer to x has the data's classes."""
    training = model.training
    try:
        with torch.no_grad():
            logits = model.eval()(x.to(next(model.parameters()).device))
    except RuntimeError as error:
        raise InputError(
            f"the model cannot take inputs {tuple(x.shape)}, as of {data.name} (of images, crop sets the size in "
            f"training): {error}"
        ) from error
    finally:
        model.train(training)
    if not isinstance(logits, torch.Tensor) or logits.ndim != x.ndim or logits.shape[1] != len(data.classes):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        components = "height, width" if x.ndim == 4 else "points"
        raise InputError(
            f"the model must give logits (B, {len(data.classes)}, {components}) for {data.name}, but gave {got}"
        )
    upsampled(logits, x)  # an error if they are finer than x


def _set_seed(seed: int, device: torch.device) -> None:
    """Seed the CPU and this device; torch.manual_seed would seed all others too, for good."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _seed(seed: int, step: int, rank: int) -> int:
    """A seed of its own for every step and process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))
