"""Recipe: every setting of a training run, in plain values that its files keep; and how often it logs and saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from segcertify import errors
from segcertify.errors import InputError, require_finite, require_integer, require_positive

OBJECTIVES = ("non-robust", "noise", "consistency", "smoothadv")
CHOICES = {
    "objective": OBJECTIVES,
    "optimiser": ("adamw", "sgd"),
    "schedule": ("poly", "cosine"),
    "class_weights": ("none", "log"),
    "precision": ("fp32", "bf16"),
}


def _setting(default: Any, about: str) -> Any:
    """A field with its default and its help text; `segcertify train --help` shows both."""
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class Recipe:
    """What a run minimises, how and for how long. The defaults suit images and a pretrained encoder.

    The objectives: ``non-robust`` (no noise), ``noise`` [Cohen2019], ``consistency`` [Jeong2020] and ``smoothadv``
    [Salman2019]. Each field's ``metadata["help"]`` says what it means.
    """

    objective: str = _setting("noise", "non-robust, noise, consistency or smoothadv.")
    sigma: tuple[float, ...] = _setting(
        (0.25,), "Scale of the noise, in the input's units; of several, each image draws one."
    )
    m: int = _setting(2, "Noisy copies of each image (consistency, smoothadv).")
    lam: float = _setting(1.0, "Weight of the copies' disagreement (consistency).")
    eta: float = _setting(0.5, "Weight of their mean's entropy (consistency).")
    epsilon: float = _setting(0.25, "The attack's l2 radius, in the input's units (smoothadv).")
    attack_steps: int = _setting(2, "The attack's steps (smoothadv).")
    iterations: int = _setting(4000, "Steps of the optimiser.")
    batch_size: int = _setting(16, "Inputs in a step, over all processes.")
    optimiser: str = _setting("adamw", "adamw or sgd.")
    lr: float = _setting(1e-3, "The learning rate at its highest.")
    encoder_lr: float = _setting(1.0, "The learning rate of a model's `encoder`, as a factor of lr.")
    weight_decay: float = _setting(0.01, "Weight decay; none on biases and norms.")
    momentum: float = _setting(0.9, "Momentum (sgd).")
    clip: float = _setting(1.0, "The gradient's norm is clipped to this; 0 for no clipping.")
    schedule: str = _setting("poly", "How the learning rate falls: poly or cosine.")
    power: float = _setting(0.9, "The power of poly.")
    warmup: float = _setting(0.02, "The part of the steps over which the learning rate rises.")
    ema: float = _setting(0.999, "Decay of the averaged weights, which are kept; 0 for no averaging.")
    crop: tuple[int, int] = _setting((320, 416), "Height and width of the crops.")
    rescale: tuple[float, float] = _setting((0.5, 2.0), "Range of the random factors that resize an input.")
    rotate: float = _setting(0.0, "Largest random rotation, in degrees.")
    flip: bool = _setting(True, "Mirror half of the crops.")
    colour: float = _setting(0.5, "Strength of random gamma, saturation, contrast, brightness and tint; 0 for none.")
    class_weights: str = _setting("none", "none, or log: 1 / ln(c + frequency) [Paszke2016].")
    log_offset: float = _setting(1.02, "The c of log, above 1; larger is milder.")
    ohem: float = _setting(1.0, "The part of the labelled pixels, those with the largest losses, that count.")
    precision: str = _setting("bf16", "bf16 (autocast) or fp32.")
    seed: int = _setting(0, "Fixes all random choices.")

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, but got {getattr(self, name)!r}")
        if not isinstance(self.flip, bool):
            raise InputError(f"flip must be True or False, but got {self.flip!r}")
        self._check_numbers()
        self._check_tuples()
        if self.m < 2 and self.objective == "consistency":
            raise InputError("consistency compares noisy copies: m must be at least 2, but got 1")

    @property
    def drawn(self) -> tuple[float, ...]:
        """The noise that the objective draws: sigma, or 0 for non-robust training."""
        return (0.0,) if self.objective == "non-robust" else self.sigma

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
        require_integer("seed", self.seed, at_least=0)
        for name in ("lr", "encoder_lr", "epsilon", "power", "ohem"):
            require_positive(name, getattr(self, name))
        for name in ("warmup", "ema", "momentum"):
            errors.require_probability(name, getattr(self, name), closed=True)
        for name in ("lam", "eta", "weight_decay", "clip", "rotate", "colour"):
            if require_finite(name, getattr(self, name)) < 0:
                raise InputError(f"{name} must be at least 0, but got {getattr(self, name)!r}")
        if require_finite("log_offset", self.log_offset) <= 1:
            raise InputError(f"log_offset must be above 1, such as 1.02, but got {self.log_offset!r}")
        if self.ohem > 1:
            raise InputError(f"ohem must be at most 1, all pixels, but got {self.ohem!r}")

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
