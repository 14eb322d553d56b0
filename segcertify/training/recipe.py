"""Recipe: every setting of a training run, in plain values that its files keep."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from segcertify.errors import InputError, require_finite, require_integer, require_positive

OBJECTIVES = ("non-robust", "noise", "consistency", "smoothadv")
OPTIMISERS = ("adamw", "sgd")
SCHEDULES = ("poly", "cosine")
CLASS_WEIGHTS = ("none", "log")
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Recipe:
    """What to train on, for how long and how. The defaults suit images with a pretrained encoder.

    Objective
        ``objective``: ``non-robust`` (no noise), ``noise`` [Cohen2019], ``consistency`` [Jeong2020] or
        ``smoothadv`` [Salman2019]. ``sigma``: the noise in input units; of several, each image draws one.
        ``m``: noisy copies of each image (consistency and smoothadv). ``lam``, ``eta``: weights of the
        consistency and the entropy. ``epsilon``, ``attack_steps``: radius and length of smoothadv's attack.
    Optimisation
        ``optimiser``, ``lr``, ``weight_decay``, ``momentum`` (of sgd), ``clip`` (of the gradient's norm; 0 for
        none), ``schedule`` (``poly`` with ``power``, or ``cosine``), ``warmup`` (fraction of the steps),
        ``encoder_lr`` (times ``lr``, for a model with an ``encoder``), ``ema`` (decay of the averaged weights;
        0 for none), ``steps``, ``batch_size``.
    Images
        ``crop`` (height, width), ``scale`` (range, drawn on a log scale), ``rotate`` (degrees either way),
        ``flip``, ``colour`` (strength of random brightness, contrast, saturation, tint; 0 for none).
    Loss
        ``class_weights``: ``none`` or ``log`` (1 / ln(1.02 + frequency), [Paszke2016]). ``ohem``: the part of
        the pixels, the hardest, that count; 1 for all.
    """

    objective: str = "noise"
    sigma: tuple[float, ...] = (0.25,)
    m: int = 2
    lam: float = 1.0
    eta: float = 0.5
    epsilon: float = 0.25
    attack_steps: int = 2
    optimiser: str = "adamw"
    lr: float = 1e-3
    encoder_lr: float = 1.0
    weight_decay: float = 0.01
    momentum: float = 0.9
    clip: float = 1.0
    schedule: str = "poly"
    power: float = 0.9
    warmup: float = 0.02
    ema: float = 0.999
    steps: int = 4000
    batch_size: int = 16
    crop: tuple[int, int] = (320, 416)
    scale: tuple[float, float] = (0.5, 2.0)
    rotate: float = 0.0
    flip: bool = True
    colour: float = 0.5
    class_weights: str = "none"
    ohem: float = 1.0
    precision: str = "bf16"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("objective", OBJECTIVES),
            ("optimiser", OPTIMISERS),
            ("schedule", SCHEDULES),
            ("class_weights", CLASS_WEIGHTS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, but got {getattr(self, name)!r}")
        for name in ("m", "attack_steps", "steps", "batch_size"):
            require_integer(name, getattr(self, name))
        require_integer("seed", self.seed, at_least=0)
        for name in ("lr", "encoder_lr", "epsilon", "power"):
            require_positive(name, getattr(self, name))
        for name in ("lam", "eta", "weight_decay", "clip", "rotate", "colour"):
            _require_range(name, getattr(self, name), 0, float("inf"))
        for name in ("warmup", "ema", "momentum"):
            if _require_range(name, getattr(self, name), 0, 1) == 1:
                raise InputError(f"{name} must be below 1, but got 1")
        if _require_range("ohem", self.ohem, 0, 1) == 0:
            raise InputError("ohem must be above 0: it is the part of the pixels that count, 1 for all")
        if not self.sigma and self.objective != "non-robust":
            raise InputError(f"the objective {self.objective} needs a sigma, such as 0.25")
        for sigma in self.sigma:
            require_positive("sigma", sigma)
        if len(self.crop) != 2 or any(require_integer("crop", side, at_least=16) < 16 for side in self.crop):
            raise InputError(f"crop must be a height and a width, but got {self.crop!r}")
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1]:
            raise InputError(f"scale must be a range such as (0.5, 2.0), but got {self.scale!r}")
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
    def from_plain(cls, values: dict[str, Any]) -> Recipe:
        """The recipe that `to_plain` described."""
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise InputError(f"a recipe has no setting {sorted(unknown)[0]!r}")
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _require_range(name: str, value: float, low: float, high: float) -> float:
    number = require_finite(name, value)
    if not low <= number <= high:
        raise InputError(f"{name} must lie in [{low:g}, {high:g}], but got {value!r}")
    return number
