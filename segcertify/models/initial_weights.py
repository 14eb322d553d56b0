"""Initial weights for training: those of a file, as far as they fit."""

import hashlib
import logging
from pathlib import Path

import torch
from torch import nn

from segcertify.errors import InputError
from segcertify.models.formats.weights import FilePath, require_finite_weights, set_weights
from segcertify.models.networks.lite import DEPTHS, Lite, imagenet_encoder
from segcertify.models.saved import read_weights
from segcertify.storage import limits
from segcertify.storage.reading import read_bytes

LOG = logging.getLogger("segcertify")

ENOUGH = 0.5  # a file that gives less than this share of a network's weights is taken for a mistake


def described(path: FilePath) -> str:
    """A file's name and a digest of what is in it, to distinguish files of one name."""
    return f"{Path(path).name} (SHA-256 {hashlib.sha256(read_bytes(path, most=limits.MODEL_BYTES)).hexdigest()[:16]})"


def start_from(model: nn.Module, path: FilePath) -> tuple[str, ...]:
    """Give a fresh network the weights in a file; returns the names of those that stay fresh.

    For `Lite` the file may hold the public ImageNet weights of the EfficientNet-Lite of its size, which start its
    encoder. Any other file gives all weights of the same name and shape: a network trained on other classes keeps all
    but its last layer.
    """
    state, _ = read_weights(path)
    if isinstance(model, Lite) and (encoder := imagenet_encoder(state, model.size, DEPTHS[model.stride])):
        set_weights(model.encoder, encoder)
        return tuple(name for name in model.state_dict() if not name.startswith("encoder."))
    own = model.state_dict()
    fits = {name for name, tensor in own.items() if name in state.tensors and state.tensors[name].shape == tensor.shape}
    given = sum(own[name].numel() for name in fits)
    total = sum(tensor.numel() for tensor in own.values())
    if given < ENOUGH * total:
        fit = f"{len(fits)} of {len(own)} weights of {type(model).__name__} ({given / total:.0%} of its numbers)"
        raise InputError(f"{path} fits only {fit}: is it a checkpoint of this architecture?")
    require_finite_weights(state)
    with torch.no_grad():
        for name in fits:
            own[name].copy_(state.tensors[name])
    fresh = tuple(name for name in own if name not in fits)
    LOG.info("%s: %d of %d weights taken; fresh: %s", path, len(fits), len(own), ", ".join(fresh) or "none")
    return fresh
