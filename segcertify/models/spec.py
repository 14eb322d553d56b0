"""A model's spec, as a user writes it on the command line, and the segmenter it names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from torch import nn

from segcertify.errors import InputError
from segcertify.models.adapters import adapt
from segcertify.models.exported import load_pt2, load_torchscript
from segcertify.models.hrnet import load_hrnet
from segcertify.models.huggingface import load_huggingface
from segcertify.models.multiscale import MultiScale, setting
from segcertify.models.normalisation import IMAGENET_MEAN, IMAGENET_STD
from segcertify.models.onnx import load_onnx

Options = dict[str, str]
NORMALISATION = ("mean", "std")


def load(spec: str) -> nn.Module:
    """The segmenter that a spec names, adapted and in evaluation mode, ready to certify.

    ======================== =================================================================
    ``hrnet:FILE``           HRNetV2 weights; ``?width=48&classes=19`` are checked if given
    ``hf:DIR-OR-ID``         Hugging Face semantic segmentation; ``?revision=`` of a hub id
    ``torchscript:FILE``     a TorchScript program; ``?output=`` picks one of several outputs
    ``pt2:FILE``             a ``torch.export`` program; ``?output=`` likewise
    ``onnx:FILE``            an ONNX model; ``?output=`` is its output's name
    ``python:module:factory`` what ``factory()`` makes; further options are its arguments
    ======================== =================================================================

    Every scheme takes ``?mean=0.5,0.5,0.5&std=...``, a normalisation to put inside
    (in place of the one that ``hrnet`` and ``hf`` bring), and ``?scale=0.25`` or
    ``?scale=multi``, which wraps the model in `MultiScale`.
    """
    scheme, _, rest = spec.partition(":")
    target, _, text = rest.partition("?")
    if scheme not in _LOADERS or not target:
        forms = ", ".join(f"{name}:..." for name in _LOADERS)
        raise InputError(f"unknown model spec {spec!r}: expected {forms}, for example python:my_module:make_model")
    options = _parse(spec, text)
    scale = setting(options.pop("scale")) if "scale" in options else None
    model = _LOADERS[scheme](target, options)
    mean, std = _normalisation(options)
    if options:
        raise InputError(f"{spec}: {scheme} takes no option {', '.join(options)}")
    adapted = adapt(model, mean=mean, std=std)
    if scale is None:
        return adapted.eval()
    return MultiScale(adapted, scale.scales, flip=scale.flip, stride=scale.stride).eval()


def _from_hrnet(target: str, options: Options) -> nn.Module:
    """HRNetV2 from its weights."""
    mean, std = _normalisation(options)
    width, classes = _integer(options, "width"), _integer(options, "classes")
    return load_hrnet(target, width=width, classes=classes, mean=mean or IMAGENET_MEAN, std=std or IMAGENET_STD)


def _from_huggingface(target: str, options: Options) -> nn.Module:
    """A folder or hub id of Hugging Face."""
    mean, std = _normalisation(options)
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


def _from_python(target: str, options: Options) -> Callable[..., Any]:
    """The object that ``module:factory`` makes; it takes all options but the normalisation."""
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise InputError(f"expected python:module:factory, but got python:{target}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot import {error.name!r} for python:{target}: is it in this folder, or installed?"
        ) from None
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise InputError(f"{module_name} has no function {factory_name!r} for python:{target}")
    arguments = {name: _plain(options.pop(name)) for name in list(options) if name not in NORMALISATION}
    try:
        model = factory(**arguments)
    except TypeError as error:
        raise InputError(f"python:{target} could not be called with {arguments}: {error}") from error
    if not callable(model):
        raise InputError(f"python:{target} gave {type(model).__name__}, which is not callable on a batch")
    return model  # type: ignore[no-any-return]


def _parse(spec: str, text: str) -> Options:
    """The options after the question mark, each given once."""
    pairs = parse_qsl(text, keep_blank_values=True)
    options = dict(pairs)
    if len(options) != len(pairs):
        raise InputError(f"{spec} gives an option twice")
    return options


def _plain(text: str) -> bool | int | float | str:
    """An option's value: true or false, a number, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _entry(options: Options) -> int | str | None:
    """Which output to take: an index or a key."""
    value = options.pop("output", None)
    return int(value) if value is not None and value.lstrip("-").isdigit() else value


def _integer(options: Options, name: str) -> int | None:
    """An option that must be an integer."""
    value = options.pop(name, None)
    if value is not None and not value.isdigit():
        raise InputError(f"{name} must be a positive integer, but got {value!r}")
    return None if value is None else int(value)


def _normalisation(options: Options) -> tuple[list[float] | None, list[float] | None]:
    """mean and std, both or neither."""
    mean, std = (_numbers(options, name) for name in NORMALISATION)
    if (mean is None) != (std is None):
        raise InputError("a normalisation needs both mean and std, for example ?mean=0.5,0.5,0.5&std=0.5,0.5,0.5")
    return mean, std


def _numbers(options: Options, name: str) -> list[float] | None:
    """An option that must be a comma-separated list of numbers."""
    value = options.pop(name, None)
    try:
        return None if value is None else [float(entry) for entry in value.split(",")]
    except ValueError:
        raise InputError(f"{name} must list numbers, one per channel, such as 0.5,0.5,0.5, but got {value!r}") from None


_LOADERS: dict[str, Callable[[str, Options], Callable[..., Any]]] = {
    "hrnet": _from_hrnet,
    "hf": _from_huggingface,
    "torchscript": _from_torchscript,
    "pt2": _from_pt2,
    "onnx": _from_onnx,
    "python": _from_python,
}
