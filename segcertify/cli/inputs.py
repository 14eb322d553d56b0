"""One input of `certify`: what its file holds, what its labels mean to the model, and its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate
from segcertify.data import read_input, read_label
from segcertify.data.clouds.cloudset import read_cloud
from segcertify.data.clouds.points import form
from segcertify.data.colours import part_colours
from segcertify.data.label_codes import IGNORE, decode
from segcertify.errors import InputError
from segcertify.figures.cloud import cloud_figure, save_view
from segcertify.figures.image import Colours, certified_figure, save_figure, save_labels
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.models import PartSegmenter, card_of
from segcertify.sampling.draws import input_digest
from segcertify.sampling.segmenter import LARGEST_LABEL, Segmenter, base_labels
from segcertify.votes import Votes

CLOUDS = (".txt", ".ply")
"""Files that hold clouds, whatever the model; ``.npy`` files do so for models of shapes' parts."""


class Input(NamedTuple):
    """What is certified, its ground truth (IGNORE where it says nothing), and whether it is a cloud of points."""

    x: torch.Tensor
    target: IntArray | None
    cloud: bool


def read(path: Path, model: Segmenter | None, *, label: Path | None = None, ignore: int | None = None) -> Input:
    """An image, a cloud as the model takes it, or the array in a ``.npy`` file as it is.

    ``ignore`` is the ground truth's number for no ground truth; without it, the labels of a cloud are passed over.
    """
    shapes, codes = _for_shapes(model), _codes(model, ignore)
    if form(path) in CLOUDS or (form(path) == ".npy" and shapes is not None):
        if label is not None:
            raise InputError(
                f"--label is for images, but {path} is a cloud: its labels are its last column, "
                "in a PLY file its property label"
            )
        normals, category = (shapes.model.normals, shapes.category or "") if shapes else (None, "")
        x, target = read_cloud(path, None if ignore is None else codes, category=category, normals=normals)
        return Input(torch.from_numpy(x), target, cloud=True)
    array = read_input(path, upright=label is None)  # labels are of the pixels as they are stored
    truth = None if label is None else _target(label, array.shape[1:], codes)
    return Input(torch.from_numpy(array), truth, cloud=False)


def require_its_folder(votes: Path, x: torch.Tensor) -> None:
    """Refuse a folder with votes of another input: two files may share a name."""
    if not votes.is_file():
        return
    try:
        other = Votes.load(votes).input_digest != input_digest(x)
    except InputError as error:
        raise InputError(f"{error}: or delete it") from None
    if other:
        raise InputError(f"{votes.parent} holds the certificate of another input: give another --out, or delete it")


def draw(model: Segmenter, shown: Input, certificate: Certificate, out: Path) -> list[Path]:
    """The pictures of a certified image or cloud, with the model's names and colours; none of other arrays."""
    x, target, cloud = shown
    image = not cloud and x.ndim == 3 and len(x) == 3
    if not (cloud or image) or certificate.labels.shape != (x.shape[:1] if cloud else x.shape[1:]):
        return []
    prediction = base_labels(model, x)
    names, colours = _legend(model, highest=max(int(prediction.max()), int(certificate.labels.max())))
    picture, page, labels = out / "certified.png", out / "certified.html", out / "labels.png"
    array, figure = x.cpu().numpy(), cloud_figure if cloud else certified_figure
    save_figure(figure(array, prediction, certificate, target=target, colours=colours, names=names), picture)
    if not cloud:
        save_labels(certificate.labels, labels, colours=colours)
        return [labels, picture]
    save_view(page, array, certificate, prediction=prediction, target=target, colours=colours, names=names)
    return [picture, page]


def _for_shapes(model: object) -> PartSegmenter | None:
    """The model of shapes' parts in whatever wraps it; None if there is none."""
    while isinstance(model, nn.Module) and not isinstance(model, PartSegmenter):
        model = getattr(model, "model", None)
    return model if isinstance(model, PartSegmenter) else None


def _codes(model: Segmenter | None, ignore: int | None) -> dict[int, int]:
    """What each number of the ground truth means: a class that the model knows, or nothing."""
    shapes, card = _for_shapes(model), card_of(model)
    known = range(LARGEST_LABEL + 1 if card is None else len(card.classes))
    own = known if shapes is None or shapes.category is None else CATEGORIES[shapes.category]
    return {label: label for label in own} | ({} if ignore is None else {ignore: IGNORE})


def _legend(model: Segmenter, *, highest: int) -> tuple[tuple[str, ...], Colours | None]:
    """The names and the colours of the model's labels, where it tells them all."""
    card = card_of(model)
    if card is not None and highest < len(card.classes):
        return card.classes, np.array(card.colours) / 255
    if _for_shapes(model) is not None:
        return PART_NAMES, part_colours(CATEGORIES.values()) / 255
    return (), None


def _target(path: Path, shape: tuple[int, ...], codes: dict[int, int]) -> IntArray:
    """The ground truth of an image."""
    target = read_label(path)
    if target.shape != shape:
        raise InputError(f"{path} has size {target.shape}, but the input has size {shape}")
    return decode(target, codes, where=lambda pixel: f"{path}, pixel {divmod(pixel, shape[1])},")
