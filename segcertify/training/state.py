"""The state of an unfinished run in one file: its weights, their averages, the optimiser's state and the step."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from segcertify.errors import InputError, require_integer
from segcertify.storage import archive

VERSION = 2


def save(path: Path, *, step: int, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> None:
    """Write the state after ``step`` steps."""
    tensors = {
        f"{kind}/{name}": value for kind, module in modules.items() for name, value in module.state_dict().items()
    }
    tensors |= {
        f"optimiser/{number}/{name}": torch.as_tensor(value)
        for number, values in optimiser.state_dict()["state"].items()
        for name, value in values.items()
        if value is not None
    }
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    archive.write(path, kind="training", version=VERSION, header={"step": step}, arrays=arrays)


def load(path: Path, *, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> int:
    """Load a saved state into modules and optimiser; returns the number of steps done."""
    try:
        header, arrays = archive.read(path, kind="training", version=VERSION, migrations={1: dict})
    except InputError as error:
        raise InputError(f"{error}. {_CURE}") from None
    try:
        step = require_integer("step", header["step"], at_least=0)
    except (InputError, KeyError) as error:
        raise InputError(f"{path} does not say how many steps are done ({error}). {_CURE}") from None
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, array in arrays.items():
        kind, _, rest = name.partition("/")
        parts.setdefault(kind, {})[rest] = torch.from_numpy(array)
    for kind, module in modules.items():
        _fill(module, parts.get(kind, {}), where=path)
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in parts.get("optimiser", {}).items():
        number, _, entry = name.partition("/")
        if not number.isdecimal():
            raise InputError(f"{path} holds {name!r:.100}, which no optimiser has. {_CURE}")
        state.setdefault(int(number), {})[entry] = tensor
    _require_state_of(optimiser, state, done=step, where=path)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    _match_layout(optimiser)
    return step


_CURE = "It is the state of an unfinished run: delete it to begin the run again"


def _require_state_of(
    optimiser: torch.optim.Optimizer, state: Mapping[int, Mapping[str, torch.Tensor]], *, done: int, where: Path
) -> None:
    """Raise `InputError` unless every tensor belongs to a weight, and has its shape or counts steps that were done."""
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    entries = {tuple(sorted(values)) for values in state.values()}
    fits = len(entries) <= 1 and all(number < len(weights) for number in state)
    for number, values in state.items() if fits else ():
        shapes = {name: () if name == "step" else tuple(weights[number].shape) for name in values}
        fits &= all(tuple(value.shape) == shapes[name] and value.is_floating_point() for name, value in values.items())
        fits = fits and 0 <= float(values.get("step", 0)) <= done
    known = {(), ("exp_avg", "exp_avg_sq", "step"), ("momentum_buffer",)}
    if not fits or not entries <= known:
        raise InputError(f"{where} holds the state of another optimiser, or a damaged one. {_CURE}")


def _match_layout(optimiser: torch.optim.Optimizer) -> None:
    """Give the optimiser's tensors the memory layout of their weights: files do not keep it, fused updates need it."""
    for weight, values in optimiser.state.items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.shape == weight.shape:
                values[name] = torch.empty_like(weight, requires_grad=False).copy_(value)


def _fill(module: nn.Module, tensors: Mapping[str, torch.Tensor], *, where: Path) -> None:
    """Fill a module in place, so that its optimiser keeps its weights."""
    with torch.no_grad():
        for name, own in module.state_dict().items():
            if name not in tensors or tensors[name].shape != own.shape:
                raise InputError(
                    f"{where} does not fit the model: {name} is missing or has another shape. "
                    "Was it made with another architecture? Choose another folder"
                )
            own.copy_(tensors[name])
