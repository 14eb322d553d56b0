"""Hardening: a model that was trained without noise is trained further, on noise, and stays the same network."""

import numpy as np
import torch
from torch import nn

from segcertify.data import DataSet, load
from segcertify.data.images.unlabelled import unlabelled
from segcertify.errors import InputError
from segcertify.figures.palette import palette
from segcertify.models import PartSegmenter, card_of
from segcertify.models import load as load_model
from segcertify.models.families import NAMED_BY_SPEC
from segcertify.models.wrappers.adapters import Adapted
from segcertify.sampling.identity import identity
from segcertify.specs import parse, without_option
from segcertify.storage.reading import expanded

AROUND = ("scale", "base_size", "denoiser", "denoiser_sigma", "category", "runs")
"""The options of a spec that put something around the network."""
FIXED = {"onnx": "an ONNX file", "torchscript": "a TorchScript program", "pt2": "a torch.export program"}
"""The schemes whose models cannot be trained."""


def trainable(spec: str, *, trust_code: bool = False) -> tuple[nn.Module, str, str]:
    """The network of a spec, to be trained further; the spec to describe it by; and what it starts from, in words.

    Raises `InputError` if the spec names something that cannot be trained.
    """
    parsed = parse(spec)
    cure = (
        "give the PyTorch network itself, as python:module:factory?weights=FILE, hf:FOLDER, hrnet:FILE or trained:FILE"
    )
    if parsed.scheme in FIXED:
        raise InputError(f"{spec} is {FIXED[parsed.scheme]}, whose weights are fixed: {cure}")
    if around := [name for name in AROUND if name in parsed.options]:
        raise InputError(
            f"{spec}: hardening trains the network alone: leave {around[0]} out, and certify with it later"
        )
    model = load_model(spec, trust_code=trust_code)
    card = card_of(model)
    if isinstance(model, PartSegmenter):
        model = model.model  # batches of training hold each cloud's category
    elif parsed.scheme not in NAMED_BY_SPEC and isinstance(model, Adapted) and isinstance(model.model, nn.Module):
        model = model.model  # a network of ours brings its normalisation
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(f"{spec} shows no weights to train (is it a function?): {cure}")
    if parsed.scheme == "hf":
        model.graphable = False  # type: ignore[assignment]  # transformers reads values in some networks
    if card is not None:
        model.card = card  # type: ignore[assignment]
    start = f"{spec.rpartition('/')[2]} (weights {identity(model)['weights']})"
    return model, without_option(spec, "weights"), start


def training_data(spec: str, model: nn.Module, *, labels: str | None) -> tuple[DataSet, str]:
    """The scenes to train on, and whose labels they have: the data set's (``truth``), or the model's ``own``.

    ``spec`` is that of a data set, or a folder of images without labels. If ``labels`` are not chosen, ground truth is
    taken where there is some.
    """
    folder = expanded(spec)
    if not folder.is_dir():
        return load(spec), labels or "truth"
    if labels == "truth":
        raise InputError(f"{spec} is a folder of images without labels: use --labels own, or name a data set")
    card = card_of(model)
    if card is not None:
        return unlabelled(folder, card.classes, np.array(card.colours, np.uint8)), "own"
    count = classes_of(model)
    colours = np.round(255 * palette(count)).astype(np.uint8)
    return unlabelled(folder, tuple(f"class {number}" for number in range(count)), colours), "own"


def classes_of(model: nn.Module, size: int = 128) -> int:
    """How many classes a network for images has: the channels of its logits for a grey square."""
    model.eval()
    with torch.no_grad():
        logits = model(torch.full((1, 3, size, size), 0.5))
    if not isinstance(logits, torch.Tensor) or logits.ndim != 4 or not logits.is_floating_point():
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"the model must give logits (B, classes, height, width) to be trained, but gave {got}")
    return logits.shape[1]
