"""One input of a command: read as the model takes it, drawn with the model's names and colours."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from segcertify.certificate import Certificate
from segcertify.cli.options import chosen_side
from segcertify.data import Input, read_input
from segcertify.data.images.reading import image_size
from segcertify.data.reading import ARRAY_SUFFIXES, CLOUD_SUFFIXES, input_name
from segcertify.figures.palette import Colours, ColoursOf, part_colours
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.models import PartSegmenter, card_of, given_short_side
from segcertify.radii import RadiusMap
from segcertify.sampling.segmenter import Segmenter, base_labels
from segcertify.sets.certificate import SetCertificate


def read(
    path: Path,
    model: Segmenter | None,
    *,
    label: Path | None = None,
    ignore: int | None = None,
    short_side: int | None = None,
    full_size: bool = False,
) -> Input:
    """An input as the model takes it: clouds with or without normals, images at its size, labels of its classes."""
    shapes, card, side = _for_shapes(model), card_of(model), chosen_side(short_side, full_size)
    if side is None and not full_size and not path.name.lower().endswith((*ARRAY_SUFFIXES, *CLOUD_SUFFIXES)):
        side = given_short_side(model, image_size(path))
    return read_input(
        path,
        cloud=shapes is not None,
        normals=shapes.model.normals if shapes else None,
        category=(shapes.category or "") if shapes else "",
        classes=None if card is None else len(card.classes),
        label=label,
        ignore=ignore,
        short_side=side,
    )


def input_id(path: Path) -> str:
    """The id of an input that a file holds: its name without the suffix. With the seed it fixes every draw."""
    return input_name(path)


def draw(
    model: Segmenter, read_in: Input, certificate: Certificate, *, device: str, stem: Path, colours: ColoursOf
) -> list[Path]:
    """The pictures of a certified input, with the model's names; their names begin with ``stem``."""
    prediction = base_labels(model, torch.from_numpy(read_in.x).to(device))
    names, table = legend(model, highest=max(int(prediction.max()), int(certificate.labels.max())), colours=colours)
    return read_in.domain.save_figures(
        stem, read_in.x, certificate, prediction=prediction, target=read_in.target, colours=table,
        names=names,
    )  # fmt: skip


def draw_sets(
    model: Segmenter, read_in: Input, certificate: SetCertificate, *, path: Path, colours: ColoursOf
) -> list[Path]:
    """The picture of an image's sets, with the model's names; none of other inputs."""
    names, table = legend(model, highest=len(certificate.sets) - 1, colours=colours)
    return read_in.domain.save_sets(path, read_in.x, certificate, colours=table, names=names)


def class_names(model: Segmenter, classes: int) -> tuple[str, ...]:
    """The names of the model's classes, where it tells them all."""
    return legend(model, highest=classes - 1, colours="own")[0]


def draw_radii(model: Segmenter, read_in: Input, found: RadiusMap, *, path: Path, colours: ColoursOf) -> list[Path]:
    """The picture of an image's radius map, with the model's names; none of other inputs."""
    from segcertify.figures.image import save_figure
    from segcertify.figures.radii import radii_figure

    if read_in.x.ndim != 3 or read_in.x.shape[0] != 3 or found.labels.shape != read_in.x.shape[1:]:
        return []
    names, table = legend(model, highest=int(found.labels.max()), colours=colours)
    save_figure(radii_figure(read_in.x, found, colours=table, names=names), path)
    return [path]


def _for_shapes(model: object) -> PartSegmenter | None:
    """The model of shapes' parts in whatever wraps it; None if there is none."""
    while isinstance(model, nn.Module) and not isinstance(model, PartSegmenter):
        model = getattr(model, "model", None)
    return model if isinstance(model, PartSegmenter) else None


def named_labels(model: object) -> tuple[str, ...]:
    """The names of a foreign model's classes: ``id2label`` of a model or its ``config``, as Hugging Face has it."""
    while model is not None:
        said = getattr(model, "id2label", None) or getattr(getattr(model, "config", None), "id2label", None)
        if isinstance(said, Mapping) and sorted(map(str, said)) == sorted(map(str, range(len(said)))):
            by_number = {int(number): str(name) for number, name in said.items()}
            return tuple(by_number[number] for number in range(len(said)))
        model = getattr(model, "model", None)
    return ()


def legend(model: Segmenter, *, highest: int, colours: ColoursOf) -> tuple[tuple[str, ...], Colours | None]:
    """The names of the model's labels, where it tells them all, and their colours; None for our own palette."""
    card = card_of(model)
    if card is not None and highest < len(card.classes):
        return card.classes, np.array(card.colours) / 255 if colours == "data" else None
    if _for_shapes(model) is not None:
        return PART_NAMES, part_colours(CATEGORIES.values()) / 255
    names = named_labels(model)
    return (names if highest < len(names) else ()), None
