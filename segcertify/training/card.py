"""The card of a model that was trained here."""

import datetime
import math
from collections.abc import Mapping

from torch import nn

from segcertify import __version__
from segcertify.data import DataSet
from segcertify.models.card import Card
from segcertify.models.families import describe
from segcertify.training.recipe import DENOISING, Recipe

CHANNELS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
"""What a denoiser gives, instead of scores of classes."""


def training_card(
    model: nn.Module, data: DataSet, recipe: Recipe, *, spec: str, start: str, licence: str,
    scores: Mapping[str, float], teacher: str = "",
) -> Card:  # fmt: skip
    """The card of a model that was made from ``spec``, began with ``start``, and has these scores in validation."""
    origin = [f"{data.name} ({len(data)} scenes)"]
    origin += [f"started from {start}"] * bool(start) + [f"taught by {teacher}"] * bool(teacher)
    classes, colours = data.classes, tuple((int(r), int(g), int(b)) for r, g, b in data.colours)
    if recipe.objective == DENOISING:
        classes, colours = tuple(CHANNELS), tuple(CHANNELS.values())
    noise = f"at sigma {recipe.drawn[0]:g} on other scenes"
    return Card(
        architecture=describe(model, spec),
        classes=classes,
        colours=colours,
        data=", ".join(origin),
        objective=recipe.objective,
        sigma=recipe.drawn,
        recipe=recipe.to_plain(),
        metrics={f"{name} {noise}": value for name, value in scores.items() if math.isfinite(value)},
        licence=licence,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=__version__,
    )
