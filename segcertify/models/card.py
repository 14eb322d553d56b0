"""Card: where a model comes from; and the model file, which holds the card and the weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, require_finite, require_integer
from segcertify.models.card_markdown import markdown
from segcertify.models.families import describe
from segcertify.models.formats.weights import State
from segcertify.storage import archive

_KIND, _VERSION = "model", 1


@dataclass(frozen=True)
class Card:
    """Where a model comes from, what it was trained for and how well it does.

    Parameters
    ----------
    architecture : mapping
        The description of the network, from `describe`.
    classes, colours
        One name and one colour (red, green, blue from 0 to 255) per class.
    data : str
        The data set and the number of scenes, such as ``camvid/train+val (468 scenes)``.
    objective : str
        What was minimised.
    sigma : tuple of float
        The noise that it was trained with; 0 is none.
    recipe : mapping
        All settings of the training, as plain values.
    metrics : mapping
        Numbers by name.
    licence : str
        Of the data and of the initial weights, in words.
    date, version : str
        The day (ISO), and the segcertify that trained it.
    input_size : int or (int, int), optional
        Where the model does best: an image's short side, or its height and width; a cloud's number of points.
    """

    architecture: Mapping[str, Any]
    classes: tuple[str, ...]
    colours: tuple[tuple[int, int, int], ...]
    data: str
    objective: str
    sigma: tuple[float, ...]
    recipe: Mapping[str, Any]
    metrics: Mapping[str, float]
    licence: str
    date: str
    version: str
    input_size: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("data", "objective", "licence", "date", "version"):
            _require_text(name, getattr(self, name))
        metrics = {name: require_finite(f"the metric {name}", value) for name, value in dict(self.metrics).items()}
        checked = {
            "architecture": _plain("architecture", self.architecture),
            "classes": tuple(_require_text("a class", name) for name in _listed("classes", self.classes)),
            "colours": tuple(_colour(colour) for colour in _listed("colours", self.colours)),
            "sigma": tuple(require_finite("sigma", value) for value in _listed("sigma", self.sigma)),
            "recipe": _plain("recipe", self.recipe),
            "metrics": _plain("metrics", metrics),
            "input_size": _size(self.input_size),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Check the values that depend on each other, and their ranges."""
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise InputError(f"classes must be unique names, at least one, but got {self.classes!r}")
        if len(self.colours) != len(self.classes):
            raise InputError(f"{len(self.classes)} classes need as many colours, but got {len(self.colours)}")
        if not self.sigma:
            raise InputError("sigma must list the noise of the training, 0.0 for none, but got nothing")
        if min(self.sigma) < 0:
            raise InputError(f"sigma must not be negative, but got {min(self.sigma)!r}")
        if not isinstance(self.architecture.get("family"), str):
            raise InputError(f"architecture must name a family, as describe() does, but got {self.architecture!r}")
        if self.architecture["family"] == "python":
            _require_text("a factory's spec", self.architecture.get("spec"))
        outputs = self.architecture.get("classes", len(self.classes))
        if outputs != len(self.classes):
            raise InputError(f"the network has {outputs} classes, but the card names {len(self.classes)}: name each")
        with suppress(ValueError):
            if date.fromisoformat(self.date).isoformat() == self.date:
                return
        raise InputError(f"date must be as in 2025-01-31, but got {self.date!r}")

    def to_plain(self) -> dict[str, Any]:
        """The card as plain values, for a file's header."""
        values = asdict(self)
        return values if self.input_size is not None else {k: v for k, v in values.items() if k != "input_size"}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Card:
        """The card that `to_plain` wrote down. Older files have no ``input_size``."""
        values = {"input_size": None, **values}
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            missing, unknown = sorted(names - values.keys()), sorted(values.keys() - names)
            raise InputError(f"a card must have all its fields: missing {missing}, unknown {unknown}")
        try:
            return cls(**values)
        except TypeError as error:
            raise InputError(f"unreadable card: {error}") from None

    @property
    def of_clouds(self) -> bool:
        """Whether the model takes point clouds, not images."""
        return bool(self.architecture["family"] == "pointnet2")

    @property
    def inputs(self) -> str:
        """What the model does best on, in words; empty if that is not known."""
        size = self.input_size
        if size is None:
            return ""
        if isinstance(size, tuple):
            return f"images of {size[0]} x {size[1]} pixels"
        return f"clouds of {size} points" if self.of_clouds else f"images with a short side of {size} pixels"

    def markdown(self, file: str = "model.safetensors") -> str:
        """The card as a README for the model's ``file``, in the form that Hugging Face shows."""
        return markdown(self, file)


def save_model(path: str | os.PathLike[str], model: nn.Module, card: Card, *, half: bool = False) -> None:
    """Write a network's weights and its card to one file, atomically; ``half`` takes two bytes a weight."""
    if card.architecture["family"] != "python" and (described := describe(model)) != card.architecture:
        raise InputError(f"the card describes another network: {dict(card.architecture)}, but the model is {described}")
    arrays = {name: _stored(name, tensor, half=half) for name, tensor in model.state_dict().items()}
    archive.write(path, kind=_KIND, version=_VERSION, header=card.to_plain(), arrays=arrays)


def read_card(path: str | os.PathLike[str]) -> Card:
    """The card in a file that `save_model` wrote."""
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[Card, State]:
    """The card and the weights in a file that `save_model` wrote."""
    try:
        header, arrays = archive.read(path, kind=_KIND, version=_VERSION)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    except TypeError as error:  # a type, such as bfloat16, that NumPy does not have
        raise InputError(f"{path} is not a model that segcertify wrote: {error}") from None
    try:
        card = Card.from_plain(header)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return card, State(str(path), tensors)


def card_of(model: object) -> Card | None:
    """The card of a model that was loaded from a file, wrapped or not; None if there is none."""
    while isinstance(model, nn.Module):
        card = getattr(model, "card", None)
        if isinstance(card, Card):
            return card
        model = getattr(model, "model", None)
    return None


def _stored(name: str, tensor: torch.Tensor, *, half: bool) -> Array:
    """A weight as it is stored: integers unchanged, floats in single precision, or in half where they fit."""
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.numpy()
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(f"the weights {name} are NaN or infinite: train with a lower learning rate")
    largest, bound = tensor.abs().max().item() if tensor.numel() else 0.0, torch.finfo(torch.float16).max
    return tensor.to(torch.float16 if half and largest <= bound else torch.float32).numpy()


def _require_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name} must be a text that is not empty, but got {value!r}")
    return value


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, but got {values!r}")
    return list(values)


def _colour(values: Any) -> tuple[int, int, int]:
    """Red, green and blue."""
    colour = [require_integer("a colour's part", part, at_least=0) for part in _listed("a colour", values)]
    if len(colour) != 3 or max(colour) > 255:
        raise InputError(f"a colour must be three integers from 0 to 255, but got {values!r}")
    return colour[0], colour[1], colour[2]


def _size(value: Any) -> int | tuple[int, int] | None:
    if value is None or isinstance(value, int):
        return None if value is None else require_integer("input_size", value)
    sides = [require_integer("a side of input_size", side) for side in _listed("input_size", value)]
    if len(sides) != 2:
        raise InputError(f"input_size must be a number, or a height and a width, but got {value!r}")
    return sides[0], sides[1]


def _plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping as a file gives it back."""
    try:
        return dict(json.loads(json.dumps(dict(values), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold plain values (texts, finite numbers, lists): {error}") from None
