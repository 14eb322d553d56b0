"""A model's spec, as a user writes it on the command line, and the segmenter it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from segcertify.errors import InputError
from segcertify.models.formats.exported import load_pt2, load_torchscript
from segcertify.models.formats.huggingface import load_huggingface
from segcertify.models.formats.onnx import load_onnx
from segcertify.models.formats.python_factory import make
from segcertify.models.networks.hrnet import load_hrnet
from segcertify.models.networks.pointnet2 import PointNet2, flag, load_pointnet2
from segcertify.models.options import NORMALISATION, Options, integer, normalisation, options_of, parts, plain
from segcertify.models.saved import bundled, load_bundled, load_trained, put, read_weights
from segcertify.models.wrappers.adapters import adapt
from segcertify.models.wrappers.multiscale import MultiScale, setting
from segcertify.models.wrappers.normalisation import IMAGENET_MEAN, IMAGENET_STD
from segcertify.models.wrappers.part_segmenter import PartSegmenter


def load(spec: str) -> nn.Module:
    """The segmenter that a spec names, adapted and in evaluation mode, ready to certify.

    ======================== =================================================================
    ``camvid``, ``pets``     models that ship with segcertify: see `bundled`
    ``trained:FILE``         a model that ``segcertify train`` wrote
    ``hrnet:FILE``           HRNetV2 weights; ``?width=48&classes=19`` are checked if given
    ``pointnet2:FILE``       PointNet++ weights for parts of shapes; ``?normals=true`` is checked
    ``hf:DIR-OR-ID``         Hugging Face semantic segmentation; ``?revision=`` of a hub id
    ``torchscript:FILE``     a TorchScript program; ``?output=`` picks one of several outputs
    ``pt2:FILE``             a ``torch.export`` program; ``?output=`` likewise
    ``onnx:FILE``            an ONNX model; ``?output=`` is its output's name
    ``python:module:factory`` what ``factory()`` makes; further options are its arguments, but
                             ``?weights=FILE`` puts a checkpoint's weights into its network
    ======================== =================================================================

    Every scheme takes ``?scale=0.25`` or ``?scale=multi``, which wraps the model in
    `MultiScale`, and ``?mean=0.5,0.5,0.5&std=...``, a normalisation to put inside (in
    place of the one that ``hrnet`` and ``hf`` bring); models trained here keep theirs.
    Models for parts of shapes take ``?category=Chair&runs=3`` instead: see `PartSegmenter`.
    `card_of` the result is what a file says about its model.
    """
    scheme, target = parts(spec)
    ships = not target and scheme in bundled()
    if not ships and (scheme not in _LOADERS or not target):
        forms = [*(f"{name}:..." for name in _LOADERS), *bundled()]
        raise InputError(
            f"unknown model spec {spec!r}: expected {', '.join(forms)}, for example python:my_module:make_model"
        )
    options = options_of(spec)
    scale = setting(options.pop("scale")) if "scale" in options else None
    model = _from_bundled(scheme, options) if ships else _LOADERS[scheme](target, options)
    mean, std = normalisation(options)
    if options:
        raise InputError(f"{spec}: {scheme} takes no option {', '.join(options)}")
    if isinstance(model, PartSegmenter):
        if scale is not None or mean is not None:
            raise InputError(f"{spec}: scale, mean and std are for images, but this model takes clouds: leave them out")
        return model.eval()
    adapted = adapt(model, mean=mean, std=std)
    if scale is None:
        return adapted.eval()
    return MultiScale(adapted, scale.scales, flip=scale.flip, stride=scale.stride).eval()


def _from_hrnet(target: str, options: Options) -> nn.Module:
    """HRNetV2 from its weights."""
    mean, std = normalisation(options)
    width, classes = integer(options, "width"), integer(options, "classes")
    return load_hrnet(target, width=width, classes=classes, mean=mean or IMAGENET_MEAN, std=std or IMAGENET_STD)


def _from_pointnet2(target: str, options: Options) -> nn.Module:
    """PointNet++ from its weights."""
    normals = options.pop("normals", None)
    return _for_parts(
        load_pointnet2(target, normals=None if normals is None else flag("normals", plain(normals))), options
    )


def _from_huggingface(target: str, options: Options) -> nn.Module:
    """A folder or hub id of Hugging Face."""
    mean, std = normalisation(options)
    return load_huggingface(target, revision=options.pop("revision", None), mean=mean, std=std)


def _from_torchscript(target: str, options: Options) -> nn.Module:
    """A TorchScript file."""
    return load_torchscript(target, output=_entry(options))


def _from_pt2(target: str, options: Options) -> nn.Module:
    """A torch.export archive."""
    return load_pt2(target, output=_entry(options))


def _from_onnx(target: str, options: Options) -> nn.Module:
    """An ONNX file."""
    return load_onnx(target, output=options.pop("output", None))


def _from_trained(target: str, options: Options) -> nn.Module:
    """A model that was trained here, from its file."""
    _refuse_normalisation(f"trained:{target}", options)
    return _for_parts(load_trained(target), options)


def _from_bundled(name: str, options: Options) -> nn.Module:
    """A model that ships with segcertify."""
    _refuse_normalisation(name, options)
    return _for_parts(load_bundled(name), options)


def _from_python(target: str, options: Options) -> Callable[..., Any]:
    """The object that ``module:factory`` makes; it takes all options but the weights and the normalisation."""
    weights = options.pop("weights", None)
    arguments = {name: plain(options.pop(name)) for name in list(options) if name not in NORMALISATION}
    if weights is None:
        return make(target, arguments)
    saved = read_weights(weights)
    model = make(target, arguments, classes=None if saved.card is None else len(saved.card.classes))
    if not isinstance(model, nn.Module):
        raise InputError(f"python:{target} gave {type(model).__name__}, but only a torch.nn.Module takes weights")
    put(model, saved)
    return model


def _for_parts(model: nn.Module, options: Options) -> nn.Module:
    """A network for shapes of many categories as a segmenter of one's parts; any other as it is."""
    if not isinstance(model, PointNet2):
        return model
    runs = integer(options, "runs")
    return PartSegmenter(model, options.pop("category", None), 3 if runs is None else runs)


def _refuse_normalisation(spec: str, options: Options) -> None:
    """A trained model has its own normalisation inside: a second one would come on top."""
    if any(name in options for name in NORMALISATION):
        raise InputError(f"{spec} brings the normalisation that it was trained with: leave out mean and std")


def _entry(options: Options) -> int | str | None:
    """Which output to take: an index or a key."""
    value = options.pop("output", None)
    return int(value) if value is not None and value.lstrip("-").isdigit() else value


_LOADERS: dict[str, Callable[[str, Options], Callable[..., Any]]] = {
    "hrnet": _from_hrnet,
    "hf": _from_huggingface,
    "torchscript": _from_torchscript,
    "pt2": _from_pt2,
    "onnx": _from_onnx,
    "pointnet2": _from_pointnet2,
    "trained": _from_trained,
    "python": _from_python,
}
