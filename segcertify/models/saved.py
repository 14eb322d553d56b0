"""Models that were trained here: from their file, or from those that ship with segcertify."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from segcertify import __version__
from segcertify.errors import InputError
from segcertify.models.card import Card, card_of, read_model, save_model
from segcertify.models.families import build, describe
from segcertify.models.formats.weights import State, fill, load_state
from segcertify.models.networks.pointnet2 import PointNet2
from segcertify.models.wrappers.ensemble import Ensemble, View
from segcertify.models.wrappers.normalisation import Normalise

FOLDER = files("segcertify.models") / "bundled"
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Saved:
    """Weights from a file, and the card that a file of segcertify has beside them."""

    state: State
    card: Card | None = None


def load_trained(path: str | os.PathLike[str]) -> nn.Module:
    """The network in a file that `save_model` wrote, in evaluation mode; ``.card`` is its card."""
    card, state = read_model(path)
    try:
        with torch.device("meta"):  # no time spent on weights that the file replaces
            model = build(card.architecture)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    _normalise(model, card.architecture)
    put(model, Saved(state, card))
    return model


def _normalise(model: nn.Module, architecture: Mapping[str, Any]) -> None:
    """Mean and std as described: they are no weights, so a network built without memory lacks them."""
    if isinstance(model, Ensemble):
        for member, described in zip(model.members, architecture["members"], strict=True):
            _normalise(member, described)
    if "mean" in architecture:
        model.normalise = Normalise(architecture["mean"], architecture["std"])


def join(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    views: Sequence[View] = (View(),),
    half: bool = False,
) -> Path:
    """Write an ensemble of models of images, trained on the same classes, as one model; its card is of all of them.

    The card also lies beside the file, to be read.
    """
    if Path(out).resolve() in [Path(path).resolve() for path in paths]:
        raise InputError(f"{out} is one of the models to join: name another file for the ensemble")
    if beside(out).exists() and not Path(out).exists():
        raise InputError(f"{beside(out)} is in the place of the ensemble's card: name another file for the ensemble")
    members = [load_trained(path) for path in paths]
    for path, member in zip(paths, members, strict=True):
        if isinstance(member, Ensemble | PointNet2):
            what = "an ensemble itself: give its members" if isinstance(member, Ensemble) else "of clouds"
            raise InputError(f"an ensemble joins single models of images, but {path} is {what}")
    cards = [card for member in members if (card := card_of(member)) is not None]
    for path, card in zip(paths, cards, strict=True):
        if (card.classes, card.colours) != (cards[0].classes, cards[0].colours):
            raise InputError(f"{path} has other classes than {paths[0]}: an ensemble's members label alike")
    ensemble = Ensemble(members, views=views)
    card = Card(
        architecture=describe(ensemble),
        classes=cards[0].classes,
        colours=cards[0].colours,
        data=_together(card.data for card in cards),
        objective=_together(card.objective for card in cards),
        sigma=tuple(sorted({sigma for card in cards for sigma in card.sigma})),
        recipe={"members": [card.recipe for card in cards]},
        metrics={},
        licence=_together(card.licence for card in cards),
        date=max(card.date for card in cards),
        version=__version__,
    )
    save_model(out, ensemble, card, half=half)
    beside(out).write_text(card.markdown(Path(out).name), encoding="utf-8")
    return Path(out)


def beside(path: str | os.PathLike[str]) -> Path:
    """Where the readable card of a model's file lies."""
    return Path(path).with_name(Path(path).name.removesuffix(SUFFIX) + ".md")


def _together(texts: Iterable[str]) -> str:
    """Different texts, each once."""
    return "; ".join(dict.fromkeys(text.removesuffix(".") for text in texts))


def bundled() -> list[str]:
    """The names of the models that ship with segcertify, such as ``camvid``: each is a spec."""
    if not FOLDER.is_dir():
        return []
    return sorted(file.name.removesuffix(SUFFIX) for file in FOLDER.iterdir() if file.name.endswith(SUFFIX))


def load_bundled(name: str) -> nn.Module:
    """A model that ships with segcertify, in evaluation mode; ``.card`` is its card."""
    if name not in bundled():
        raise InputError(f"no model {name!r} ships with segcertify: there are {', '.join(bundled()) or 'none'}")
    with as_file(FOLDER / f"{name}{SUFFIX}") as path:
        return load_trained(path)


def read_weights(path: str | os.PathLike[str]) -> Saved:
    """The weights in a file that `save_model` wrote, with their card, or in any other checkpoint."""
    if _is_ours(Path(path)):
        card, state = read_model(path)
        return Saved(state, card)
    return Saved(load_state(path))


def put(model: nn.Module, saved: Saved) -> None:
    """Put weights into a network of exactly their names and shapes, and the card beside them; evaluation mode."""
    fill(model, saved.state)
    if saved.card is not None:
        model.card = saved.card  # type: ignore[assignment]
    model.eval()


def _is_ours(file: Path) -> bool:
    """Whether segcertify wrote a file."""
    try:
        with safe_open(file, framework="numpy") as content:
            return "segcertify" in (content.metadata() or {})
    except (SafetensorError, OSError):
        return False
