"""The paper's ways to train, side by side: non-robust, noise and consistency [Fischer2021, sec. 6.2 and app. B].

One recipe and one start for all models; only the objective and its noise
differ. Each is then smoothed with the noise that it was trained with, the
non-robust one with all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from segcertify import __version__
from segcertify.data import DataSet, load
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.evaluation import Setting, evaluate
from segcertify.models import load as load_model
from segcertify.models import new, start_from
from segcertify.models.initial_weights import described
from segcertify.report.run import Run
from segcertify.report.summary import Row
from segcertify.reproduce.training_results import Fold, Result, Results
from segcertify.specs import with_option
from segcertify.training import Recipe, train
from segcertify.training.folder import MODEL
from segcertify.training.recipe import OBJECTIVES

SCALES = ("0.25", "0.5", "0.75", "1", "multi")
N0, ALPHA, CORRECTION = 10, 0.001, "holm"


@dataclass(frozen=True)
class Claim:
    """Draws and threshold of a certificate, for every sigma."""

    n: int
    tau: float

    def at(self, sigma: float) -> Setting:
        """The claim under one noise."""
        return Setting(sigma, self.n, self.tau)


@dataclass(frozen=True)
class Contender:
    """One model of the comparison: how it is trained, and the noise it is then smoothed with."""

    recipe: Recipe
    sigmas: tuple[float, ...]

    @property
    def trained_sigma(self) -> float:
        """The noise of the training, 0 for none."""
        return self.recipe.drawn[0]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.recipe.objective}-{self.trained_sigma}" if self.trained_sigma else self.recipe.objective


@dataclass(frozen=True)
class Comparison:
    """What is trained and evaluated, in plain values.

    ``data`` names the data set without its scenes, which the two splits choose:
    CamVid's frames of one drive look alike, so its folds split by drive.
    ``recipe`` is shared by all models, less objective and sigma; its seed also
    fixes the noise of the evaluations. ``every`` takes every k-th scene of the
    validation fold, ``limit`` at most so many of either.
    """

    data: str
    train_split: str = "split=train+val&without=0006R0*"
    validation_split: str = "split=train+val&only=0006R0*"
    model: str = "lite"
    init: str = ""
    recipe: Recipe = field(default_factory=Recipe)
    objectives: tuple[str, ...] = ("non-robust", "noise", "consistency")
    sigmas: tuple[float, ...] = (0.25, 0.33, 0.5)
    scales: tuple[str, ...] = ("0.5", "1")
    claims: tuple[Claim, ...] = (Claim(100, 0.75),)
    every: int = 1
    limit: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("objective", OBJECTIVES), ("scale", SCALES)):
            for value in getattr(self, f"{name}s"):
                if value not in allowed:
                    raise InputError(f"{name} must be one of {', '.join(allowed)}, but got {value!r}")
        for sigma in self.sigmas:
            require_positive("sigma", sigma)
        for claim in self.claims:
            claim.at(1.0)
        for name in ("objectives", "sigmas", "scales", "claims"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise InputError(f"{name} must all be different, and at least one, but got {list(values)}")
        require_integer("every", self.every)
        if "?" in self.data:
            raise InputError(
                f"the data set must be named without options, but got {self.data!r}: "
                "its scenes are chosen by the training split and the validation split"
            )

    @property
    def contenders(self) -> Iterator[Contender]:
        """The models to train."""
        for objective in self.objectives:
            if objective == "non-robust":
                yield Contender(replace(self.recipe, objective=objective, sigma=()), self.sigmas)
            else:
                for sigma in self.sigmas:
                    yield Contender(replace(self.recipe, objective=objective, sigma=(sigma,)), (sigma,))

    def folds(self) -> tuple[DataSet, DataSet]:
        """The scenes to train and to evaluate on, which must not overlap."""
        training, validation = (load(f"{self.data}?{split}") for split in (self.train_split, self.validation_split))
        shared = sorted(set(training.ids) & set(validation.ids))
        if shared:
            raise InputError(
                f"{len(shared)} scenes, such as {shared[0]!r}, are in both {training.name} and {validation.name}: "
                "choose splits that do not overlap"
            )
        validation = validation.every(self.every)
        if self.limit is not None:
            training, validation = training.limit(self.limit), validation.limit(self.limit)
        return training, validation


def quick(data: str) -> Comparison:
    """A comparison in little time: two steps of a tiny network, two scenes of each fold."""
    return Comparison(
        data,
        model="hrnet?width=2&blocks=1&modules=1,1,1",
        recipe=Recipe(steps=2, batch_size=2, crop=(32, 32), precision="fp32"),
        claims=(Claim(80, 0.75),),
        limit=2,
        quick=True,
    )


def run(
    comparison: Comparison,
    *,
    out: Path,
    device: str = "cpu",
    say: Callable[[str], None] | None = None,
    progress: bool | None = None,
) -> Results:
    """Train all models into ``out/models``, evaluate them into ``out/runs`` and write the results into ``out``.

    Run again to resume; finished models and evaluations are not made again.
    ``say`` is told what is done.
    """
    training, validation = comparison.folds()
    fresh(comparison, len(training.classes))  # a bad architecture or start is found before the long work
    work = _Work(comparison, out, device, say or (lambda text: None), progress)
    rows: list[Result] = []
    for contender in comparison.contenders:
        path = work.train(contender, training)
        for scale in comparison.scales:
            rows += work.evaluate(contender, validation, path, scale)
    results = Results(
        version=__version__,
        device=torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        model=comparison.model,
        init=_init(comparison),
        training=Fold(training.name, len(training)),
        validation=Fold(validation.name, len(validation)),
        recipe=_shared(comparison.recipe),
        n0=N0,
        alpha=ALPHA,
        correction=CORRECTION,
        quick=comparison.quick,
        rows=tuple(sorted(rows, key=lambda row: _place(row, comparison))),
    )
    results.save(out)
    return results


def fresh(comparison: Comparison, classes: int) -> nn.Module:
    """The network that every training starts from."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(comparison.recipe.seed)
        model = new(comparison.model, classes=classes)
    if comparison.init:
        start_from(model, comparison.init)
    return model


@dataclass(frozen=True)
class _Work:
    """Training and evaluating in one folder, on one device."""

    comparison: Comparison
    out: Path
    device: str
    say: Callable[[str], None]
    progress: bool | None

    def train(self, contender: Contender, training: DataSet) -> Path:
        """The file of a trained model; `train` leaves a finished one as it is, if its settings are the same."""
        folder, start = self.out / "models" / contender.name, time.perf_counter()
        finished = (folder / MODEL).exists()
        path = train(
            fresh(self.comparison, len(training.classes)),
            training,
            contender.recipe,
            out=folder,
            spec=self.comparison.model,
            start=_init(self.comparison),
            device=self.device,
            progress=self.progress,
        )
        how = "trained before" if finished else f"trained in {time.perf_counter() - start:.0f} s"
        self.say(f"{contender.name}: {how}")
        return path

    def evaluate(self, contender: Contender, validation: DataSet, path: Path, scale: str) -> list[Result]:
        """A model's rows at one scale: without smoothing, then each claim. Each sigma is an evaluation of its own."""
        model = load_model(_spec(self.comparison, path, scale)).to(self.device)
        results = []
        for number, sigma in enumerate(contender.sigmas):
            folder = self.out / "runs" / f"{contender.name}-scale{scale}-sigma{sigma}"
            evaluate(
                model,
                validation,
                out=folder,
                settings=[claim.at(sigma) for claim in self.comparison.claims],
                corrections=(CORRECTION,),
                n0=N0,
                alpha=ALPHA,
                seed=self.comparison.recipe.seed,
                device=self.device,
                name=f"{contender.name} at scale {scale}",
                progress=self.progress,
            )
            base, *certified = (_result(row, contender, scale) for row in Run.load(folder).rows)
            results += certified if number else [base, *certified]
            found = f"certified accuracy {certified[0].accuracy:.4f}, {base.accuracy:.4f} without smoothing"
            self.say(f"{contender.name}, scale {scale}, sigma {sigma:g}: {found}")
        return results


def _spec(comparison: Comparison, path: Path, scale: str) -> str:
    """The spec of a trained model at a scale."""
    own = comparison.model.startswith("python:")
    spec = with_option(comparison.model, "weights", str(path)) if own else f"trained:{path}"
    return with_option(spec, "scale", scale)


def _result(row: Row, contender: Contender, scale: str) -> Result:
    """A row of an evaluation, with what it is of."""
    return Result(
        objective=contender.recipe.objective,
        trained_sigma=contender.trained_sigma,
        scale=scale,
        sigma=row.sigma,
        n=row.n,
        tau=row.tau,
        radius=row.radius,
        accuracy=row.accuracy,
        miou_pooled=row.miou_pooled,
        miou_per_image=row.miou_per_image,
        miou_worst_case=row.miou_worst_case,
        abstained=row.abstained,
        abstained_all=row.abstained_all,
        seconds=row.sampling_seconds + row.testing_seconds,
    )


def _place(row: Result, comparison: Comparison) -> tuple[float, ...]:
    """Where a row stands in the table: by scale, then by claim, then by training."""
    objective = comparison.objectives.index(row.objective)
    scale = comparison.scales.index(row.scale)
    return scale, row.sigma or 0, row.n or 0, row.tau or 0, objective, row.trained_sigma


def _shared(recipe: Recipe) -> dict[str, Any]:
    """The settings that all models have in common."""
    return {name: value for name, value in recipe.to_plain().items() if name not in ("objective", "sigma")}


def _init(comparison: Comparison) -> str:
    """The start's file by name and content."""
    return described(comparison.init) if comparison.init else ""
