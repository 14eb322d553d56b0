"""Card: what a model file says about its model, inside the file, and the file itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError, require_finite, require_integer
from segcertify.models.families import describe, with_weights
from segcertify.models.formats.weights import State
from segcertify.storage import archive

_KIND, _VERSION = "model", 1


@dataclass(frozen=True)
class Card:
    """Where a model comes from, what it was trained for and how well it does.

    Parameters
    ----------
    architecture : mapping
        What `describe` says of the network.
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

    def __post_init__(self) -> None:
        for name in ("data", "objective", "licence", "date", "version"):
            _require_text(name, getattr(self, name))
        metrics = {name: require_finite(f"the metric {name}", value) for name, value in dict(self.metrics).items()}
        tidy = {
            "architecture": _plain("architecture", self.architecture),
            "classes": tuple(_require_text("a class", name) for name in _listed("classes", self.classes)),
            "colours": tuple(_colour(colour) for colour in _listed("colours", self.colours)),
            "sigma": tuple(_not_negative(value) for value in _listed("sigma", self.sigma)),
            "recipe": _plain("recipe", self.recipe),
            "metrics": _plain("metrics", metrics),
        }
        for name, value in tidy.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """What the fields must have to do with each other."""
        twice = [name for i, name in enumerate(self.classes) if name in self.classes[:i]]
        if twice or not self.classes:
            raise InputError(f"classes must be unique names, at least one, but got {self.classes!r}")
        if len(self.colours) != len(self.classes):
            raise InputError(f"{len(self.classes)} classes need as many colours, but got {len(self.colours)}")
        if not self.sigma:
            raise InputError("sigma must list the noise of the training, 0.0 for none, but got nothing")
        if not isinstance(self.architecture.get("family"), str):
            raise InputError(f"architecture must name a family, as describe() does, but got {self.architecture!r}")
        if self.architecture["family"] == "python":
            _require_text("a factory's spec", self.architecture.get("spec"))
        outputs = self.architecture.get("classes", len(self.classes))
        if outputs != len(self.classes):
            raise InputError(f"the network has {outputs} classes, but the card names {len(self.classes)}: name each")
        try:
            right = date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            right = False
        if not right:
            raise InputError(f"date must be as in 2025-01-31, but got {self.date!r}")

    def to_plain(self) -> dict[str, Any]:
        """The card as plain values, for a file's header."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Card:
        """The card that `to_plain` wrote down."""
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            missing, unknown = sorted(names - values.keys()), sorted(values.keys() - names)
            raise InputError(f"a card must have all its fields: missing {missing}, unknown {unknown}")
        try:
            return cls(**values)
        except TypeError as error:
            raise InputError(f"unreadable card: {error}") from None

    def markdown(self, file: str = "model.safetensors") -> str:
        """The card as a README for the model's ``file``, in the form that Hugging Face shows."""
        family, noise = self.architecture["family"], ", ".join(f"{value:g}" for value in self.sigma)
        spec = with_weights(self.architecture["spec"], file) if family == "python" else f"trained:{file}"
        use = _USE_CLOUDS if family == "pointnet2" else _USE
        colours = ["#{:02x}{:02x}{:02x}".format(*colour) for colour in self.colours]
        return _MARKDOWN.format(
            family=family,
            noise=f"Gaussian noise of sigma {noise}" if any(self.sigma) else "no noise",
            use=use.format(sigma=max(self.sigma) or 0.25, spec=spec),
            task="other" if use is _USE_CLOUDS else "image-segmentation",
            tag="point-cloud-segmentation" if use is _USE_CLOUDS else "image-segmentation",
            data=self.data,
            objective=self.objective,
            licence=self.licence,
            date=self.date,
            version=self.version,
            count=len(self.classes),
            architecture=_table(("architecture", "value"), _settings(self.architecture)),
            classes=_table(("label", "class", "colour"), zip(range(len(colours)), self.classes, colours, strict=True)),
            recipe=_table(("setting", "value"), _settings(self.recipe)),
            metrics=_measured(self.metrics),
        )


def save_model(path: str | os.PathLike[str], model: nn.Module, card: Card, *, half: bool = False) -> None:
    """Write a network's weights and its card to one file, atomically; ``half`` takes two bytes a weight."""
    if card.architecture["family"] != "python" and (described := describe(model)) != card.architecture:
        raise InputError(f"the card is of another network: it says {dict(card.architecture)}, the model is {described}")
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
    except TypeError as error:  # of a kind, such as bfloat16, that NumPy and torch do not exchange
        raise InputError(f"{path} is not a model that segcertify wrote: {error}") from None
    try:
        card = Card.from_plain(header)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return card, State(str(path), tensors)


def card_of(model: object) -> Card | None:
    """The card of a model from a file, through whatever wraps it; None if there is none."""
    while isinstance(model, nn.Module):
        card = getattr(model, "card", None)
        if isinstance(card, Card):
            return card
        model = getattr(model, "model", None)
    return None


def _stored(name: str, tensor: torch.Tensor, *, half: bool) -> Array:
    """A weight as a file holds it: floats in single precision, or in half where they fit; integers as they are."""
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.numpy()
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(f"the weights {name} are NaN or infinite, and of no use: train with a lower learning rate")
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


def _not_negative(value: float) -> float:
    if require_finite("sigma", value) < 0:
        raise InputError(f"sigma must not be negative, but got {value!r}")
    return float(value)


def _plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping as a file gives it back."""
    try:
        return dict(json.loads(json.dumps(dict(values), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold plain values (texts, finite numbers, lists): {error}") from None


def _settings(values: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Settings by name; of an ensemble, each member's in their order, or once where all have the same."""
    members = values.get("members")
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        return values.items()
    rows = {name: value for name, value in values.items() if name != "members"}
    for name in dict.fromkeys(name for member in members for name in member):
        entries = [_text(member.get(name, "-")) for member in members]
        rows[f"{name} of the members"] = entries[0] if len(set(entries)) == 1 else "; ".join(entries)
    return rows.items()


def _measured(metrics: Mapping[str, float]) -> str:
    """A table of what was measured, if anything was."""
    if not metrics:
        return "Nothing was measured on other scenes while this was made."
    return _table(("metric", "value"), ((name, f"{value:.4g}") for name, value in metrics.items()))


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    lines = [[_cell(entry) for entry in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return " ".join(_text(value).replace("|", r"\|").split())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_USE = """\
model = sc.models.load("{spec}")
certificate = sc.certify(model, image, sigma={sigma:g}, tau=0.75, n=100, n0=10, alpha=0.001)  # RGB in [0, 1]"""

_USE_CLOUDS = """\
model = sc.models.load("{spec}?category=Chair")
noise = sc.Gaussian({sigma:g}, channels=(0, 1, 2), axis=1)  # on x, y and z, not on normals
certificate = sc.certify(model, cloud, noise=noise, tau=0.75, n=100, n0=10, alpha=0.001)  # centred, of radius 1"""

_MARKDOWN = """\
---
license: other
license_name: see-below
library_name: segcertify
pipeline_tag: {task}
tags:
- {tag}
- certified-robustness
- randomized-smoothing
---

# A segmentation network ({family}) for {count} classes

Trained on {data} with {noise}, to be smoothed and certified by segcertify.
Made on {date} with segcertify {version}.

## Use

```python
import segcertify as sc

{use}
```

**What a certificate says.** It is about this model under the noise that was drawn: with probability at least
1 - alpha, the smoothed model's labels that are not ABSTAIN are the same for every input within the radius. It
does not say that the labels are right, and says nothing of another model, another noise or a larger change.

## Data and licence

Trained on {data}.

{licence}

## Training

Objective: {objective}. Noise: {noise}.

{recipe}

{architecture}

## Results

{metrics}

## Classes

{classes}
"""
