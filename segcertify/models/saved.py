"""Model files that segcertify wrote: load them, join several into an ensemble, find those that ship."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
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
from segcertify.models.formats.weights import FilePath, State, load_state, require_checkpoint, set_weights
from segcertify.models.networks.pointnet2 import PointNet2
from segcertify.models.wrappers.ensemble import Ensemble, View
from segcertify.storage import atomic
from segcertify.storage.reading import is_there

FOLDER = files("segcertify.models") / "bundled"
WEIGHTS = Path(__file__).parents[2] / "weights"
"""The folder of `IN_REPOSITORY` in a checkout, beside the package; an installed package has none."""
IN_REPOSITORY = {
    "camvid-large": "train --data 'camvid:FOLDER?split=train+val' --objective consistency ..., twice, and join",
    "camvid-large-non-robust": "train --data 'camvid:FOLDER?split=train+val' --objective non-robust ... (twice), join",
    "camvid-non-robust": "train --data 'camvid:FOLDER?split=train+val' --objective non-robust ..., and join",
    "pets-non-robust": "train --data 'pets:FOLDER?split=train' --objective non-robust ...",
}
"""Models that only the repository holds, and how they were made: twins trained without noise, and a larger model."""
SUFFIX = ".safetensors"
BEST_SIZE: dict[str, int | tuple[int, int]] = {"camvid-large": (360, 480), "parts": 2048, "pets": 160}
"""The input sizes of models of ours whose files do not state them; see `Card`."""


def load_trained(path: FilePath) -> nn.Module:
    """The network in a file that `save_model` wrote, in evaluation mode; ``.card`` is its card."""
    card, state = read_model(path)
    if card.is_denoiser:
        raise InputError(
            f"{path} holds a denoiser, not a segmenter: put it before a model, as in {card.spec(str(path))}"
        )
    try:
        with torch.device("meta"):  # no time spent on weights that the file replaces
            model = build(card.architecture)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    set_weights(model, state)
    model.card = card  # type: ignore[assignment]
    return model.eval()


def join(paths: Sequence[FilePath], out: FilePath, *, views: Sequence[View] = (View(),), half: bool = False) -> Path:
    """Write an ensemble of image models, trained on the same classes, as one model file; returns its path.

    Its card joins the members' cards. A README with the card is written beside the file.
    """
    atomic.remove_stale(atomic.require_writable(out).parent)
    if Path(out).resolve() in [Path(path).resolve() for path in paths]:
        raise InputError(f"{out} is one of the models to join: name another file for the ensemble")
    if is_there(beside(out)) and not is_there(out):
        raise InputError(f"{beside(out)} exists, where the ensemble's card would be written: name another file")
    members = [load_trained(path) for path in paths]
    for path, member in zip(paths, members, strict=True):
        if isinstance(member, Ensemble | PointNet2):
            what = "an ensemble itself: give its members" if isinstance(member, Ensemble) else "of clouds"
            raise InputError(f"an ensemble joins single models of images, but {path} is {what}")
    cards = [card for member in members if (card := card_of(member)) is not None]
    for path, card in zip(paths, cards, strict=True):
        if (card.classes, card.colours) != (cards[0].classes, cards[0].colours):
            raise InputError(f"{path} has other classes than {paths[0]}: members must have the same classes")
    ensemble, texts = Ensemble(members, views=views), dict[str, Any]()
    for name in ("data", "objective", "licence"):
        texts[name] = "; ".join(dict.fromkeys(getattr(card, name).removesuffix(".") for card in cards))
    card = replace(
        cards[0],
        **texts,
        architecture=describe(ensemble),
        sigma=tuple(sorted({sigma for card in cards for sigma in card.sigma})),
        recipe={"members": [card.recipe for card in cards]},
        metrics={},
        date=max(card.date for card in cards),
        version=__version__,
        input_size=cards[0].input_size if len({card.input_size for card in cards}) == 1 else None,
    )
    save_model(out, ensemble, card, half=half)
    atomic.write_text(beside(out), card.markdown(Path(out).name))
    return Path(out)


def beside(path: FilePath) -> Path:
    """The path of the README with a model's card: beside the model's file."""
    return Path(path).with_name(Path(path).name.removesuffix(SUFFIX) + ".md")


def bundled() -> list[str]:
    """The names of the models that ship with segcertify, such as ``camvid``: each is a spec."""
    if not FOLDER.is_dir():
        return []
    return sorted(file.name.removesuffix(SUFFIX) for file in FOLDER.iterdir() if file.name.endswith(SUFFIX))


def load_bundled(name: str) -> nn.Module:
    """A model that ships with segcertify or is `IN_REPOSITORY`, in evaluation mode; ``.card`` is its card."""
    if name not in (*bundled(), *IN_REPOSITORY):
        raise InputError(f"no model {name!r} ships with segcertify: there are {', '.join(bundled()) or 'none'}")
    file = (WEIGHTS if name in IN_REPOSITORY else FOLDER) / f"{name}{SUFFIX}"
    if name in IN_REPOSITORY and not file.is_file():
        raise InputError(
            f"{name} does not ship with segcertify, and {file} does not exist: take weights/{file.name} from the "
            f"repository, or make it with segcertify {IN_REPOSITORY[name]} (whole in docs/training.md); then load "
            "trained:FILE"
        )
    with as_file(file) as path:
        model = load_trained(path)
    model.card = with_best_size(model.card, name)  # type: ignore[arg-type, assignment]
    return model


def with_best_size(card: Card, name: str) -> Card:
    """The card of the bundled model of that name, with the input size that its file does not state."""
    return replace(card, input_size=card.input_size or BEST_SIZE.get(name.removesuffix("-non-robust")))


def read_weights(path: FilePath) -> tuple[State, Card | None]:
    """The weights in a file that `save_model` wrote, with their card, or in any other checkpoint."""
    require_checkpoint(path)
    ours = False
    with suppress(SafetensorError, OSError), safe_open(Path(path), framework="numpy") as content:
        ours = "segcertify" in (content.metadata() or {})
    if not ours:
        return load_state(path), None
    card, state = read_model(path)
    return state, card
