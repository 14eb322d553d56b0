"""Card: where a model comes from; and the model file, which holds the card and the weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

import torch
from torch import Tensor, nn

from segcertify.arrays import Array
from segcertify.errors import InputError, require_finite, require_integer
from segcertify.models.card_markdown import markdown
from segcertify.models.card_results import Evaluated
from segcertify.models.families import NAMED_BY_SPEC, describe
from segcertify.models.formats.weights import FilePath, State
from segcertify.specs import with_option
from segcertify.storage import archive, limits

_KIND, _VERSION = "model", 2
_RENAMED = {"steps": "iterations", "scale": "rescale"}


@dataclass(frozen=True)
class Card:
    """Where a model comes from, what it was trained for and how well it does. All values are plain."""

    architecture: Mapping[str, Any]  # the description of the network, from `describe`
    classes: tuple[str, ...]
    colours: tuple[tuple[int, int, int], ...]  # of the classes: red, green and blue from 0 to 255
    data: str  # the data set and the number of scenes, such as camvid/train+val (468 scenes)
    objective: str  # what was minimised
    sigma: tuple[float, ...]  # the noise that it was trained with; 0 is none
    recipe: Mapping[str, Any]  # all settings of the training
    metrics: Mapping[str, float]
    licence: str  # of the data and of the initial weights, in words
    date: str  # the day (ISO)
    version: str  # of the segcertify that trained it
    input_size: int | tuple[int, int] | None = None
    """Where the model does best: an image's short side, or its height and width; a cloud's number of points."""

    def __post_init__(self) -> None:
        for name, checked in _CHECKS.items():
            object.__setattr__(self, name, checked(name, getattr(self, name)))
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
        if self.architecture["family"] in NAMED_BY_SPEC:
            _text("a factory's spec", self.architecture.get("spec"))
        outputs = self.architecture.get("classes", len(self.classes))
        if outputs != len(self.classes):
            raise InputError(f"the network has {outputs} classes, but the card names {len(self.classes)}: name each")
        with suppress(ValueError):
            if date.fromisoformat(self.date).isoformat() == self.date:
                return
        raise InputError(f"date must be as in 2025-01-31, but got {self.date!r}")

    def to_plain(self) -> dict[str, Any]:
        """The card as plain values, for a file's header."""
        return {name: value for name, value in asdict(self).items() if value is not None}

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
    def is_denoiser(self) -> bool:
        """Whether the model gives clean images, not labels: its classes are then the names of the channels."""
        return bool(self.architecture["family"] == "denoiser")

    def spec(self, file: str) -> str:
        """How the model is written in a command, if it lies in ``file``. A denoiser stands before another model."""
        if self.is_denoiser:
            return with_option("MODEL", "denoiser", file)
        if self.architecture["family"] in NAMED_BY_SPEC:
            return with_option(self.architecture["spec"], "weights", file)
        return f"trained:{file}"

    @property
    def inputs(self) -> str:
        """What the model does best on, in words; empty if that is not known."""
        size = self.input_size
        if size is None:
            return ""
        if isinstance(size, tuple):
            return f"images of {size[0]} x {size[1]} pixels"
        return f"clouds of {size} points" if self.of_clouds else f"images with a short side of {size} pixels"

    def markdown(self, file: str = "model.safetensors", results: Evaluated | None = None) -> str:
        """The card as a README for the model's ``file``, as Hugging Face shows it, with certified results if known."""
        return markdown(self, file, results)


def save_model(path: FilePath, model: nn.Module, card: Card, *, half: bool = False) -> None:
    """Write a network's weights and its card to one file, atomically; ``half`` takes two bytes a weight."""
    if card.architecture["family"] not in NAMED_BY_SPEC and (described := describe(model)) != card.architecture:
        raise InputError(f"the card describes another network: {dict(card.architecture)}, but the model is {described}")
    arrays = {name: _stored(name, tensor, half=half) for name, tensor in model.state_dict().items()}
    archive.write(path, kind=_KIND, version=_VERSION, header=card.to_plain(), arrays=arrays)


def read_card(path: FilePath) -> Card:
    """The card in a file that `save_model` wrote."""
    return read_model(path)[0]


def read_model(path: FilePath) -> tuple[Card, State]:
    """The card and the weights in a file that `save_model` wrote."""
    try:
        header, arrays = archive.read(
            path, kind=_KIND, version=_VERSION, migrations={1: _from_version_1}, most=limits.MODEL_BYTES
        )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    except TypeError as error:  # a type, such as bfloat16, that NumPy does not have
        raise InputError(f"{path} is not a model that segcertify wrote: {error}") from None
    try:
        card = Card.from_plain(header)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return card, State(str(path), tensors)


def renamed_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training by version 0.2.0 or older, under the names that a `Recipe` has now."""
    return {_RENAMED.get(name, name): value for name, value in recipe.items()}


def _from_version_1(header: dict[str, Any]) -> dict[str, Any]:
    """The header with today's names of the recipe's settings, also for each member of a joined model."""
    recipe = header.get("recipe")
    if not isinstance(recipe, dict):
        return header  # `Card` says what is wrong
    if isinstance(members := recipe.get("members"), list):
        return header | {
            "recipe": {"members": [renamed_recipe(each) if isinstance(each, dict) else each for each in members]}
        }
    return header | {"recipe": renamed_recipe(recipe)}


def card_of(model: object) -> Card | None:
    """The card of a model that was loaded from a file, wrapped or not; None if there is none."""
    while isinstance(model, nn.Module):
        card = getattr(model, "card", None)
        if isinstance(card, Card):
            return card
        model = getattr(model, "model", None)
    return None


def _stored(name: str, tensor: Tensor, *, half: bool) -> Array:
    """A weight as it is stored: integers unchanged, floats in single precision, or in half where they fit."""
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.numpy()
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(f"the weights {name} are NaN or infinite: train with a lower learning rate")
    largest, bound = tensor.abs().max().item() if tensor.numel() else 0.0, torch.finfo(torch.float16).max
    return tensor.to(torch.float16 if half and largest <= bound else torch.float32).numpy()


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name} must be a text that is not empty, but got {value!r}")
    return value


def _list_of(check: Callable[..., Any], entry: str = "", **bounds: int) -> Callable[[str, Any], tuple[Any, ...]]:
    """A check of a list, whose entries are called ``entry`` in errors."""

    def checked(name: str, values: Any) -> tuple[Any, ...]:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InputError(f"{name} must be a list, but got {values!r}")
        return tuple(check(entry or name, value, **bounds) for value in values)

    return checked


def _colour(name: str, values: Any) -> tuple[Any, ...]:
    colour = _list_of(require_integer, "a colour's part", at_least=0)(name, values)
    if len(colour) != 3 or max(colour) > 255:
        raise InputError(f"{name} must be three integers from 0 to 255, but got {values!r}")
    return colour


def _size(name: str, value: Any) -> int | tuple[Any, ...] | None:
    if value is None or isinstance(value, int):
        return None if value is None else require_integer(name, value)
    sides = _list_of(require_integer, f"a side of {name}")(name, value)
    if len(sides) != 2:
        raise InputError(f"{name} must be a number, or a height and a width, but got {value!r}")
    return sides


def _metrics(name: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InputError(f"{name} must be numbers by name, but got {values!r}")
    return _plain(name, {key: require_finite(f"the metric {key}", value) for key, value in values.items()})


def _plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping as a file gives it back."""
    try:
        return dict(json.loads(json.dumps(dict(values), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must hold plain values (texts, finite numbers, lists): {error}") from None


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("data", "objective", "licence", "date", "version"), _text),
    "architecture": _plain,
    "classes": _list_of(_text, "a class"),
    "colours": _list_of(_colour, "a colour"),
    "sigma": _list_of(require_finite),
    "recipe": _plain,
    "metrics": _metrics,
    "input_size": _size,
}
