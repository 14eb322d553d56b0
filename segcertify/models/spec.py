"""A model's spec, as a user writes it on the command line, and the segmenter it names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from urllib.parse import parse_qsl

from torch import nn

from segcertify.errors import InputError
from segcertify.segmenter import Segmenter


def load(spec: str) -> Segmenter:
    """The segmenter that a spec names, ready to certify.

    ``python:module:factory`` imports ``module`` and calls ``factory()``; options
    such as ``python:module:factory?width=48`` become keyword arguments. A
    factory's network is put in evaluation mode.
    """
    scheme, _, rest = spec.partition(":")
    if scheme not in _LOADERS or not rest:
        forms = ", ".join(f"{name}:..." for name in _LOADERS)
        raise InputError(f"unknown model spec {spec!r}: expected {forms}, for example python:my_module:make_model")
    target, _, options = rest.partition("?")
    model = _LOADERS[scheme](target, dict(parse_qsl(options, keep_blank_values=True)))
    return model.eval() if isinstance(model, nn.Module) else model


def _from_python(target: str, options: dict[str, str]) -> Segmenter:
    """The object that ``module:factory`` makes."""
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
    try:
        model = factory(**{name: _plain(value) for name, value in options.items()})
    except TypeError as error:
        raise InputError(f"python:{target} could not be called with {options}: {error}") from error
    if not callable(model):
        raise InputError(f"python:{target} gave {type(model).__name__}, which is not callable on a batch")
    return model  # type: ignore[no-any-return]


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


_LOADERS: dict[str, Callable[[str, dict[str, str]], Segmenter]] = {"python": _from_python}
