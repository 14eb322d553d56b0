"""Weights from files, without running any code from a file.

PyTorch files load with ``weights_only=True``; NumPy scalars, which public checkpoints keep beside their weights (best
scores), pass through an allow-list of exactly those types. Prefixes and keys of training wrappers are removed.
"""

import logging
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.serialization import safe_globals

from segcertify.errors import InputError
from segcertify.models.formats.zip_files import require_moderate_pickles, require_plain_zip
from segcertify.names import visible
from segcertify.storage import limits
from segcertify.storage.reading import readable

FilePath = str | os.PathLike[str]
Network = TypeVar("Network", bound=nn.Module)
LOG = logging.getLogger("segcertify")

PREFIXES = ("module.", "model.")
NESTS = ("model_state_dict", "state_dict", "model")
WRAPPER = re.compile(r"(loss\b|loss_|criterion\b|std$)")
TORCH_FILES = (".pth", ".pt", ".tar", ".bin", ".ckpt")
COUNTER = "num_batches_tracked"
SHOWN = 4


@dataclass(frozen=True)
class State:
    """A checkpoint's weights by their names in the model, and the keys that were ignored."""

    path: str
    tensors: dict[str, Tensor]
    ignored: tuple[str, ...] = ()


def load_state(path: FilePath) -> State:
    """The weights in a .pth, .pt or .safetensors file, cleaned.

    Nested state dicts are unpacked, the prefixes ``module.`` and ``model.`` removed, and what belongs to a training
    wrapper (``loss...``, ``std``) or to the training run (epoch, optimizer) is left out and logged; anything else left
    out is a warning.
    """
    file = require_checkpoint(path)
    content = _read(file)
    _require_own_size(content, file)
    ignored: list[str] = []
    while (nest := next((key for key in NESTS if isinstance(content.get(key), Mapping)), None)) is not None:
        ignored += [str(key) for key in content if key != nest]
        content = content[nest]
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    surprising = [str(key) for key in content if str(key) not in tensors]
    while True:
        ignored += [key for key in tensors if WRAPPER.match(key)]
        tensors = {key: value for key, value in tensors.items() if not WRAPPER.match(key)}
        prefix = next((p for p in PREFIXES if 2 * sum(key.startswith(p) for key in tensors) > len(tensors)), None)
        if prefix is None:
            break
        surprising += [key for key in tensors if not key.startswith(prefix)]
        tensors = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    if not tensors:
        raise InputError(f"{path} holds no weights: expected a state dict, as model.state_dict() gives it")
    if ignored:
        LOG.info("%s: ignored %s", path, _some(ignored))
    if surprising:
        warnings.warn(f"{path}: ignored {_some(surprising)}, which no wrapper known here adds", stacklevel=2)
    return State(str(path), tensors, tuple(ignored + surprising))


def require_checkpoint(path: FilePath) -> Path:
    """The path of a file of weights that can be read."""
    missing = f"no checkpoint at {path}: expected a .pth, .pt or .safetensors file"
    return readable(path, most=limits.MODEL_BYTES, missing=missing)


def set_weights(model: nn.Module, state: State) -> None:
    """Give a model a checkpoint's weights, of exactly its names and shapes, in single precision.

    Old checkpoints lack ``num_batches_tracked``, which is read in training only: it then counts from 0.
    """
    expected = model.state_dict()
    uncounted = [name for name in expected if name.endswith(COUNTER) and name not in state.tensors]
    found = state.tensors | {name: torch.zeros((), dtype=torch.int64) for name in uncounted}
    problems = {
        "missing": [name for name in expected if name not in found],
        "unexpected": [name for name in found if name not in expected],
        "of another shape": [
            f"{name} {tuple(found[name].shape)} instead of {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in found and found[name].shape != tensor.shape
        ],
    }
    if any(problems.values()):
        listed = "; ".join(f"{len(names)} {kind}: {_some(names)}" for kind, names in problems.items() if names)
        cure = "Is it a checkpoint of this architecture, and saved whole?"
        raise InputError(f"{state.path} does not fit {type(model).__name__}: keys {listed}. {cure}")
    require_finite_weights(state)
    model.load_state_dict(found, strict=True, assign=True)
    model.float()


def with_weights(build: Callable[[], Network], state: State) -> Network:
    """The network that ``build`` makes, with a checkpoint's weights, in evaluation mode."""
    with torch.device("meta"):  # no time spent on weights that the file replaces
        model = build()
    set_weights(model, state)
    return model.eval()


def no_such_network(state: Mapping[str, Any], network: str, lacks: object, *, source: str, cure: str) -> InputError:
    """The error for a state dict without a weight that tells the sizes of a network."""
    some = ", ".join(list(state)[:SHOWN]) or "nothing"
    return InputError(f"{source} is no {network}: {lacks} is not in it; it holds {some}, ... {cure}")


def require_finite_weights(state: State) -> None:
    """Refuse weights that are NaN or infinite."""
    not_finite = [name for name, tensor in state.tensors.items() if not bool(torch.isfinite(tensor).all())]
    if not_finite:
        raise InputError(f"{state.path} holds weights that are NaN or infinite: {_some(not_finite)}. Train it anew")


def _read(file: Path) -> Mapping[str, Any]:
    """The file's content, with nothing in it executed."""
    if file.suffix != ".safetensors" and file.suffix not in TORCH_FILES:
        raise InputError(f"cannot load {file}: expected a name that ends in .safetensors, {', '.join(TORCH_FILES)}")
    if file.suffix != ".safetensors":
        require_plain_zip(file)
        require_moderate_pickles(file)
    try:
        if file.suffix == ".safetensors":
            return load_file(file, device="cpu")
        with safe_globals(_numpy_scalars()):
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(_why_not(file, error)) from error
    if not isinstance(content, Mapping):
        kind = type(content).__name__
        raise InputError(f"{file} holds {kind}, not a state dict: save it with torch.save(model.state_dict(), ...)")
    return content


def _require_own_size(content: Mapping[str, Any], file: Path) -> None:
    """Refuse tensors that are larger than what the file holds of them: copies of a few numbers, or none at all."""
    waiting: list[Any] = [content]
    seen, total, size = set[int](), 0, file.stat().st_size
    while waiting:
        each = waiting.pop()
        if isinstance(each, Tensor):
            total += each.numel() * each.element_size()
        elif isinstance(each, Mapping | list | tuple) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.values() if isinstance(each, Mapping) else each
    if total > 64 * size:  # networks may share weights between layers
        raise InputError(f"{file} has {size:,} bytes, but its tensors would take {total:,}: save it anew")


def refused_object(error: Exception) -> str | None:
    """The name of the object that a weights-only load refused to make; None if it failed for another reason."""
    text = str(error)
    named = re.search(r"GLOBAL ([\w.]+)", text) or re.search(r"Unsupported (?:global|class) ([\w.]+)", text)
    return named[1] if named else None


def _why_not(file: Path, error: Exception) -> str:
    """Why a file did not load, and what to do."""
    refused = refused_object(error)
    if refused:
        return (
            f"{file} holds code or objects ({refused}) beside weights, and none of it was run: "
            "save the weights alone with torch.save(model.state_dict(), ...), or as .safetensors"
        )
    if "TorchScript" in str(error):
        return f"{file} is a TorchScript program, not weights: load it as torchscript:{file}"
    size = file.stat().st_size
    return f"cannot read {file} ({size} bytes): damaged, cut short, or no checkpoint? {first_line(error)}"


def first_line(error: Exception) -> str:
    """The first line of an error that is not empty."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # torch writes some words in bold
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return visible(lines[0] if lines else type(error).__name__)[:200]


def _numpy_scalars() -> list[Any]:
    """What a pickled NumPy number names: its maker (under its old and its new home), dtype, and the number dtypes."""
    maker = np.float64(0).__reduce__()[0]
    homes = [f"numpy.{core}.multiarray.scalar" for core in ("core", "_core")]
    numbers = [type(np.dtype(code)) for code in np.typecodes["AllInteger"] + np.typecodes["Float"] + "?"]
    return [*((maker, home) for home in homes), np.dtype, *dict.fromkeys(numbers)]


def _some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
