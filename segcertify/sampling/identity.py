"""Which model a run was made with, in plain values: its weights, its classes and what its wrappers say."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from segcertify.errors import InputError
from segcertify.sampling.segmenter import modules_of
from segcertify.storage.same_run import difference

NO_WEIGHTS = ("", hashlib.sha256().hexdigest()[:16])
"""The digests of a model without weights: now, and in the files of earlier versions."""


EXECUTION = "execution"
"""Where an identity says how a network was run that is faster than the one whose weights it names."""


@dataclass(frozen=True, eq=False)
class Execution:
    """What a faster copy of a model keeps in its attribute ``execution``: whose copy it is, and how it differs."""

    original: Mapping[str, Any]
    """The model's own `identity`."""
    digest: str
    """The digest of the copy's own weights, as it was made."""
    how: Mapping[str, Any]
    """What was done, in plain values."""

    def identity(self, copy: object) -> dict[str, Any]:
        """The original's identity, and what was done. Raises `InputError` if the copy has other weights by now."""
        if weights_digest(copy) != self.digest:
            raise InputError(
                "the weights of an optimised model were changed, so that it is no copy of its original any more: "
                "change the original, and optimise that again"
            )
        return {**self.original, EXECUTION: dict(self.how)}


def is_copy(model: object) -> bool:
    """Whether a model is a faster copy: of a network in evaluation mode, that nobody else runs or trains."""
    return isinstance(getattr(model, EXECUTION, None), Execution)


def identity(model: object) -> dict[str, Any]:
    """What decides a model's labels, as far as the model shows it, in plain values.

    ``weights`` is a digest of all parameters and buffers (also those that no file holds), ``classes`` the names of the
    modules' classes. A module that has more than weights says so in a method ``identity(self) -> dict`` of plain
    values, as our wrappers do: ``settings`` holds these and the class by the module's path. A wrapper that changes no
    label returns None and is left out. Of other modules ``settings`` holds the plain attributes, unless they are
    torch's. A plain function says nothing.

    Of an optimised model (`segcertify.models.optimised`) it is the original's, and ``execution`` says what was done.
    """
    if isinstance(execution := getattr(model, EXECUTION, None), Execution):
        return execution.identity(model)
    modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {"": model}
    settings = {path: _settings(module) for path, module in modules.items()}
    plain = (type(modules[path]).__name__ for path, said in settings.items() if said is None)
    return {
        "weights": weights_digest(model),
        "classes": list(dict.fromkeys(plain)) if isinstance(model, nn.Module) else [],
        "settings": {path: said for path, said in settings.items() if said},
    }


def identity_with_answers(described: Mapping[str, Any], model: object, answers: Mapping[str, Any]) -> dict[str, Any]:
    """The `identity` of a model as votes keep it: what has no weights to tell it by has its name and `answers` too."""
    if described["weights"]:
        return dict(described)
    while isinstance(model, nn.Module) and callable(getattr(model, "model", None)):
        model = model.model  # a function in our wrappers
    function = getattr(model, "func", model)  # of a functools.partial
    return {**described, "name": getattr(function, "__qualname__", type(function).__qualname__), **answers}


def answers(output: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    """What a model said to one input, in plain values: a digest of all labels, and how large a class's logits are.

    Rounding on another device should change neither, except where logits are nearly tied. So the digest is of labels;
    the mean sizes of logits, of at most 32 classes, are compared up to rounding (`segcertify.votes.model_difference`).
    """
    shape = f"{tuple(labels.shape)}:".encode()
    said: dict[str, Any] = {"answers": hashlib.sha256(shape + labels.cpu().numpy().tobytes()).hexdigest()[:16]}
    if output.is_floating_point():
        sizes = output.double().abs().reshape(len(output), -1).mean(1)[:: max(1, len(output) // 32)]
        said["logits"] = [float(f"{size:.4g}") for size in sizes.tolist()]
    return said


def without_execution(described: Mapping[str, Any]) -> dict[str, Any]:
    """An identity without what was done to run the model faster: of one network, whichever way it ran."""
    return {name: value for name, value in described.items() if name != EXECUTION}


def same_identity(model: object, stored: Mapping[str, Any] | str) -> bool:
    """Whether a model is the one that was described, run in whatever way.

    An earlier version described it by a digest alone. That is of the weights where no module has settings. Where some
    have, an old description fits no model.
    """
    now = without_execution(identity(model))
    if isinstance(stored, str):
        return not now["settings"] and now["weights"] == ("" if stored in NO_WEIGHTS else stored)
    return not difference({"identity": without_execution(stored)}, {"identity": now})


def weights_digest(model: object) -> str:
    """A short digest of a network's parameters and buffers; empty if it has none."""
    if not isinstance(model, nn.Module):
        return ""
    tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode("utf-8", "surrogatepass"))
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16] if tensors else ""


def weights_state(model: object) -> tuple[tuple[int, int], ...]:
    """Where a network's parameters and buffers are in memory, and how often each was changed: quick to compare."""
    if not isinstance(model, nn.Module):
        return ()
    held = [each for module in modules_of(model) for each in (module._parameters, module._buffers) if each]
    tensors = [tensor for each in held for tensor in each.values() if tensor is not None]
    try:
        versions = [tensor._version for tensor in tensors]
    except RuntimeError:  # tensors made in inference mode count no changes
        versions = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
    return tuple(zip(map(torch.Tensor.data_ptr, tensors), versions, strict=True))


def _settings(module: object) -> dict[str, Any] | None:
    """What a module says of itself, else its plain attributes; None if it has neither.

    Empty if the module says that it changes nothing.
    """
    name = {"class": type(module).__name__}
    if isinstance(execution := getattr(module, EXECUTION, None), Execution):
        return name | execution.identity(module)  # inside another model
    describe = getattr(type(module), "identity", None)  # of the class: a submodule of that name is no method
    if not callable(describe):
        prints = getattr(type(module), "extra_repr", nn.Module.extra_repr) is not nn.Module.extra_repr
        home = type(module).__module__.partition(".")[0]
        if not isinstance(module, nn.Module) or home == "torch" or (home == "segcertify" and not prints):
            return None  # the networks here are known by their classes and weights
        common = vars(nn.Module())
        own = {key: each for key, each in vars(module).items() if key not in common and _plain(each)}
        return name | own if own else None
    said = describe(module)
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise InputError(f"{type(module).__name__}.identity() must return a dict of plain values, but got {said!r}")
    return name | said


def _plain(value: object) -> bool:
    return all(map(_plain, value)) if isinstance(value, tuple | list) else isinstance(value, str | float | int | None)
