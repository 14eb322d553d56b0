"""Recipe: every setting of a training run, in plain values that its files keep; and how often it logs and saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from segcertify import errors
from segcertify.errors import InputError, require_finite, require_integer, require_positive

DENOISING = "denoising"
OBJECTIVES = ("non-robust", "noise", "consistency", "smoothadv", "distillation", DENOISING)
CHOICES = {
    "objective": OBJECTIVES,
    "optimiser": ("adamw", "adam", "sgd"),
    "schedule": ("poly", "cosine", "step"),
    "precision": ("fp32", "bf16"),
    "labels": ("truth", "own"),
}
CLASS_WEIGHTS = ("none", "log")
EARLIER: dict[str, Any] = {
    "epochs": 0, "decay_norms": False, "nesterov": True, "gamma": 0.5, "decay_every": 20, "lr_floor": 0.0,
    "bn_momentum": [0.0, 0.0], "shift": 0.0, "paste": 0.0, "teacher": "", "teacher_weight": 0.8, "labels": "truth",
}  # fmt: skip
"""The settings that came with version 0.3.0 or later, at the values that runs before it had."""


def _setting(default: Any, about: str) -> Any:
    """A field with its default and its help text; `segcertify train --help` shows both."""
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class Recipe:
    """What a run minimises, how and for how long. The defaults suit images and a pretrained encoder.

    The objectives: ``non-robust`` (no noise), ``noise`` [Cohen2019], ``consistency`` [Jeong2020], ``smoothadv``
    [Salman2019], ``distillation`` [Hinton2015] and, for a denoiser, ``denoising``. Each field's
    ``metadata["help"]`` says what it means.
    """

    objective: str = _setting(
        "noise", "non-robust, noise, consistency, smoothadv or distillation; denoising for a denoiser."
    )
    sigma: tuple[float, ...] = _setting(
        (0.25,), "Scale of the noise, in the input's units; of several, each image draws one."
    )
    m: int = _setting(2, "Noisy copies of each image (consistency, smoothadv, distillation).")
    lam: float = _setting(1.0, "Weight of the copies' disagreement (consistency, distillation).")
    eta: float = _setting(0.5, "Weight of their mean's entropy (consistency).")
    epsilon: float = _setting(0.25, "The attack's l2 radius, in the input's units (smoothadv).")
    attack_steps: int = _setting(2, "The attack's steps (smoothadv).")
    teacher: str = _setting("", "Spec of the model whose answers are learned (distillation).")
    teacher_weight: float = _setting(0.8, "The teacher's part of the loss; the labels have the rest (distillation).")
    labels: str = _setting(
        "truth", "Whose labels are learned: truth (the data set's) or own (of the model to start from)."
    )
    iterations: int = _setting(4000, "Steps of the optimiser.")
    epochs: int = _setting(0, "Passes over the data, which then set the iterations; 0 for none.")
    batch_size: int = _setting(16, "Inputs in a step, over all processes.")
    optimiser: str = _setting("adamw", "adamw, adam or sgd.")
    lr: float = _setting(1e-3, "The learning rate at its highest.")
    encoder_lr: float = _setting(1.0, "The learning rate of a model's `encoder`, as a factor of lr.")
    weight_decay: float = _setting(0.01, "Weight decay (sgd, adam: as an l2 penalty); none on biases and norms.")
    decay_norms: bool = _setting(False, "Weight decay on biases and norms too.")
    momentum: float = _setting(0.9, "Momentum (sgd).")
    nesterov: bool = _setting(True, "Nesterov's momentum (sgd).")
    clip: float = _setting(1.0, "The gradient's norm is clipped to this; 0 for no clipping.")
    schedule: str = _setting("poly", "How the learning rate falls: poly, cosine or step.")
    power: float = _setting(0.9, "The power of poly.")
    gamma: float = _setting(0.5, "The factor of each decay (step, and --bn-momentum).")
    decay_every: int = _setting(20, "Epochs from one decay to the next (step, and --bn-momentum).")
    lr_floor: float = _setting(0.0, "The learning rate's least value, as a factor of lr; warm-up is below it.")
    bn_momentum: tuple[float, float] = _setting((0.0, 0.0), "Batch norms' momentum at first and at least; 0 0: theirs.")
    warmup: float = _setting(0.02, "The part of the steps over which the learning rate rises.")
    ema: float = _setting(0.999, "Decay of the averaged weights, which are kept; 0 for no averaging.")
    crop: tuple[int, int] = _setting((320, 416), "Height and width of the crops.")
    rescale: tuple[float, float] = _setting((0.5, 2.0), "Range of the random factors that resize an input.")
    rotate: float = _setting(0.0, "Largest random rotation, in degrees.")
    flip: bool = _setting(True, "Mirror half of the crops.")
    paste: float = _setting(0.0, "The part of the crops into which a rectangle of another crop is pasted.")
    shift: float = _setting(0.0, "Largest random shift of a cloud along each axis.")
    colour: float = _setting(0.5, "Strength of random gamma, saturation, contrast, brightness and tint; 0 for none.")
    class_weights: str | tuple[float, ...] = _setting(
        "none", "none, log: 1 / ln(c + frequency) [Paszke2016], or a weight for each class, as 0.8,1,1.2."
    )
    log_offset: float = _setting(1.02, "The c of log, above 1; larger is milder.")
    ohem: float = _setting(1.0, "The part of the labelled pixels, those with the largest losses, that count.")
    precision: str = _setting("bf16", "bf16 (autocast) or fp32.")
    seed: int = _setting(0, "Fixes all random choices.")

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, but got {getattr(self, name)!r}")
        for name in ("flip", "nesterov", "decay_norms"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, but got {getattr(self, name)!r}")
        self._check_numbers()
        self._check_tuples()
        self._check_class_weights()
        self._check_decay()
        if self.m < 2 and self.objective == "consistency":
            raise InputError("consistency compares noisy copies: m must be at least 2, but got 1")
        if not isinstance(self.teacher, str) or bool(self.teacher) != (self.objective == "distillation"):
            raise InputError(
                f"the objective distillation, and no other, needs a teacher, such as camvid: got the objective "
                f"{self.objective} and the teacher {self.teacher!r}"
            )

    @property
    def drawn(self) -> tuple[float, ...]:
        """The noise that the objective draws: sigma, or 0 for non-robust training."""
        return (0.0,) if self.objective == "non-robust" else self.sigma

    def for_data(self, *, scenes: int, classes: int) -> Recipe:
        """This recipe for a data set: its epochs, if it has any, are turned into iterations.

        An epoch has as many iterations as there are whole batches. Raises `InputError` unless fixed class weights
        are as many as the classes.
        """
        if not isinstance(self.class_weights, str) and len(self.class_weights) != classes:
            raise InputError(
                f"class_weights has {len(self.class_weights)} weights, but the data have {classes} classes: "
                "give a weight for each class, in their order, or none"
            )
        return replace(self, iterations=self.epochs * max(1, scenes // self.batch_size)) if self.epochs else self

    def to_plain(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_plain` described."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise errors.unknown("setting of a recipe", name, known)
        settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**settings)

    def _check_numbers(self) -> None:
        for name in ("m", "attack_steps", "iterations", "batch_size"):
            require_integer(name, getattr(self, name))
        require_integer("decay_every", self.decay_every)
        for name in ("seed", "epochs"):
            require_integer(name, getattr(self, name), at_least=0)
        errors.require_probability("gamma", self.gamma)
        errors.require_probability("lr_floor", self.lr_floor, closed=True)
        for name in ("lr", "encoder_lr", "epsilon", "power", "ohem"):
            require_positive(name, getattr(self, name))
        for name in ("warmup", "ema", "momentum"):
            errors.require_probability(name, getattr(self, name), closed=True)
        for name in ("lam", "eta", "weight_decay", "clip", "rotate", "shift", "colour"):
            if require_finite(name, getattr(self, name)) < 0:
                raise InputError(f"{name} must be at least 0, but got {getattr(self, name)!r}")
        if require_finite("log_offset", self.log_offset) <= 1:
            raise InputError(f"log_offset must be above 1, such as 1.02, but got {self.log_offset!r}")
        for name in ("teacher_weight", "paste"):
            if not 0 <= require_finite(name, getattr(self, name)) <= 1:
                raise InputError(f"{name} must be a part of the whole, from 0 to 1, but got {getattr(self, name)!r}")
        if self.ohem > 1:
            raise InputError(f"ohem must be at most 1, all pixels, but got {self.ohem!r}")

    def _check_class_weights(self) -> None:
        if isinstance(self.class_weights, tuple | list) and self.class_weights:
            weights = tuple(require_positive("class_weights", weight) for weight in self.class_weights)
            object.__setattr__(self, "class_weights", weights)
        elif self.class_weights not in CLASS_WEIGHTS:
            raise InputError(
                f"class_weights must be {' or '.join(CLASS_WEIGHTS)}, or a weight for each class such as (0.8, 1.2), "
                f"but got {self.class_weights!r}"
            )

    def _check_decay(self) -> None:
        pair = self.bn_momentum
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"bn_momentum must be a first and a least value such as (0.1, 0.01), but got {pair!r}")
        first, least = (errors.require_probability("bn_momentum", value, closed=True) for value in pair)
        if least > first:
            raise InputError(f"bn_momentum falls: its least value, {least:g}, must be at most its first, {first:g}")
        object.__setattr__(self, "bn_momentum", (first, least))
        for name, counts_epochs in (("the schedule step", self.schedule == "step"), ("bn_momentum", first > 0)):
            if counts_epochs and not self.epochs:
                raise InputError(f"{name} decays after epochs: give epochs, such as 251, instead of iterations")

    def _check_tuples(self) -> None:
        for name, example in (("sigma", "(0.25,)"), ("crop", "(320, 416)"), ("rescale", "(0.5, 2.0)")):
            value = getattr(self, name)
            if not isinstance(value, tuple | list):
                raise InputError(f"{name} must be a tuple such as {example}, but got {value!r}")
            object.__setattr__(self, name, tuple(value))
        if not self.sigma and self.objective != "non-robust":
            raise InputError(f"the objective {self.objective} needs a sigma, such as 0.25")
        for sigma in self.sigma:
            require_positive("sigma", sigma)
        if len(self.crop) != 2 or any(require_integer("crop", side) < 16 for side in self.crop):
            raise InputError(f"crop must be a height and a width of at least 16 pixels, but got {self.crop!r}")
        sizes = [require_positive("rescale", value) for value in self.rescale]
        if len(sizes) != 2 or sizes[0] > sizes[1]:
            raise InputError(f"rescale must be a range such as (0.5, 2.0), but got {self.rescale!r}")


HARDENING = Recipe(objective="consistency", lam=2.0, iterations=1500, lr=3e-4, warmup=0.05)
"""The settings of a hardening, where the user gives no others."""


@dataclass(frozen=True)
class Intervals:
    """Steps between rows of the log, between saved states, and between validations."""

    log: int = 50
    save: int = 500
    validate: int = 1000

    def __post_init__(self) -> None:
        for name in ("log", "save", "validate"):
            steps = require_integer(f"the steps of {name}-every", getattr(self, name))
            if steps % self.log:  # a saved state or a validation then ends a row of the log
                raise InputError(
                    f"{name}-every must be a multiple of log-every, {self.log}, but is {steps}: "
                    f"use {-(-steps // self.log) * self.log}, or another log-every"
                )
