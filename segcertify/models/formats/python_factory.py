"""A user's own function that makes a model, named as ``module:factory``."""

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from segcertify.errors import InputError, ModelError


def make(target: str, arguments: Mapping[str, Any], *, classes: int | None = None) -> Callable[..., Any]:
    """What the factory makes of its arguments; it also gets ``classes``, if given, where its signature takes them.

    A factory that calls them ``num_classes``, as torchvision's do, gets them by that name.
    """
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise InputError(f"expected python:module:factory, but got python:{target}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        where = "is it in this folder, or installed?"
        raise InputError(f"cannot import {error.name!r} for python:{target}: {where}") from None
    except Exception as error:
        raise _failed(f"importing {module_name} for python:{target} failed", error) from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise InputError(f"{module_name} has no function {factory_name!r} for python:{target}")
    with suppress(ValueError):  # some functions written in C do not say what they take
        parameters = inspect.signature(factory).parameters
        if "num_classes" in parameters and "classes" not in parameters:
            others = {name: value for name, value in arguments.items() if name != "classes"}
            count = arguments.get("classes", classes)
            arguments = others if count is None else {"num_classes": count, **others}
        elif classes is not None and ("classes" in parameters or _takes_any(parameters.values())):
            arguments = {"classes": classes, **arguments}
    try:
        model = factory(**arguments)
    except TypeError as error:
        raise InputError(f"python:{target} could not be called with {arguments}: {error}") from error
    except InputError:
        raise
    except Exception as error:
        raise _failed(f"python:{target} failed", error) from error
    if not callable(model):
        raise InputError(f"python:{target} gave {type(model).__name__}, which is not callable on a batch")
    return model  # type: ignore[no-any-return]


def _takes_any(parameters: Iterable[inspect.Parameter]) -> bool:
    """Whether a function takes arguments of any name."""
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def _failed(what: str, error: Exception) -> ModelError:
    """What the user's own code raised, in one line, and where; the exception itself is the cause."""
    place, said = traceback.extract_tb(error.__traceback__)[-1], " ".join(str(error).split())
    return ModelError(
        f"{what}, {type(error).__name__}: {said[:300]} ({Path(place.filename).name}, line {place.lineno})"
    )
