"""Folding: a batch norm that follows a convolution becomes part of the convolution's weights.

In evaluation a batch norm multiplies and shifts each channel, and a convolution before it can do both: one pass over
memory less for each pair, and the same function up to rounding. Which pairs there are is not guessed from names: an
example is run, and a pair is folded only if the batch norm alone uses the convolution's output, in every call.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

from segcertify.sampling.segmenter import is_random

CONVOLUTIONS = {nn.Conv1d: torch.conv1d, nn.Conv2d: torch.conv2d, nn.Conv3d: torch.conv3d}
HARMLESS = frozenset(
    getattr(Tensor, name) if callable(getattr(Tensor, name)) else getattr(Tensor, name).__get__
    for name in ("shape", "device", "dtype", "ndim", "layout", "is_cuda", "requires_grad", "size", "dim", "stride",
                 "numel", "is_floating_point", "is_contiguous", "__len__")
)  # fmt: skip
"""Questions about a tensor that say nothing of its numbers."""
TOLERANCE = 1e-4
"""The most that folding may change a model's output, as a share of its range, in double precision.

Rounding there is below 1e-12; of wrappers that go on in single precision it is some 1e-6.
"""


class Pair(NamedTuple):
    """A convolution and the batch norm after it, by their paths in the model."""

    convolution: str
    norm: str


def folded(model: nn.Module, example: Tensor) -> tuple[nn.Module, int]:
    """A copy of the model with its batch norms folded where that changes nothing, and how many were.

    ``example`` is a batch that the model takes. The copy's output for it is compared with the model's, in double
    precision; if it differs, or the model fails on the example, the copy is unchanged. A model in training mode keeps
    all its batch norms, which normalise by the batch.
    """
    plain = copy.deepcopy(model)
    try:
        exact = copy.deepcopy(model).double()
        found, before = recorded(exact, example.double())
        fold(exact, found)
        after = _output(exact, example.double())
    except Exception:  # a model that takes other inputs, or no doubles: it stays as it is
        return plain, 0
    if not found or not _close(before, after):
        return plain, 0
    fold(plain, found)
    return plain, len(found)


def recorded(model: nn.Module, example: Tensor) -> tuple[list[Pair], Any]:
    """Which batch norms can be folded, from one run of the model on an example, and its output."""
    with _Recorder(model) as record:
        output = _output(model, example)
    for tensor in _tensors(output):
        record.uses.setdefault(id(tensor), []).append(None)
    after: dict[nn.Module, set[nn.Module | None]] = {}
    for convolution, tensor in record.convolved:
        users = record.uses.get(id(tensor), [])
        after.setdefault(convolution, set()).add(users[0] if len(users) == 1 else None)
    before: dict[nn.Module, set[nn.Module | None]] = {}
    for norm, tensor in record.normalised:
        before.setdefault(norm, set()).add(record.makers.get(id(tensor)))
    paths, found = _only_paths(model), list[Pair]()
    for convolution, norms in after.items():
        norm = next(iter(norms))
        alone = len(norms) == 1 and norm is not None and before[norm] == {convolution}
        if alone and convolution in paths and norm in paths:
            found.append(Pair(paths[convolution], paths[norm]))
    return found, output


def fold(model: nn.Module, found: Sequence[Pair]) -> None:
    """Fold these pairs in the model itself: the batch norms become identities."""
    for pair in found:
        convolution: Any = model.get_submodule(pair.convolution)
        norm = model.get_submodule(pair.norm)
        with torch.no_grad():
            weight, bias = _weights(convolution, norm)
        convolution.weight = nn.Parameter(weight.to(convolution.weight), requires_grad=False)
        convolution.bias = nn.Parameter(bias.to(convolution.weight), requires_grad=False)
        parent, _, name = pair.norm.rpartition(".")
        setattr(model.get_submodule(parent), name, nn.Identity().eval())


def _weights(convolution: Any, norm: Any) -> tuple[Tensor, Tensor]:
    """The weight and the bias of both together, computed in double precision."""
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    bias = -norm.running_mean.double() if convolution.bias is None else convolution.bias.double() - norm.running_mean
    shift = bias * scale if norm.bias is None else bias * scale + norm.bias.double()
    weight = convolution.weight.double()
    return weight * scale.view(-1, *[1] * (weight.ndim - 1)), shift


class _Recorder(TorchFunctionMode):
    """What uses the output of every convolution, and where the input of every batch norm comes from."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._convolutions = {id(each.weight): each for each in model.modules() if _is_convolution(each)}
        self._norms = {id(each.running_mean): each for each in model.modules() if _is_norm(each)}
        self.convolved: list[tuple[nn.Module, Tensor]] = []
        self.normalised: list[tuple[nn.Module, Tensor]] = []
        self.makers: dict[int, nn.Module] = {}
        self.uses: dict[int, list[nn.Module | None]] = {}
        self._kept: list[Tensor] = []  # or another tensor could get the id of one that is gone

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the function, and note down what it was given."""
        given = dict(kwargs or {})
        output = func(*args, **given)
        if func in HARMLESS:
            return output
        norm = self._norm(func, args, given)
        for tensor in _tensors([args, given]):
            self.uses.setdefault(id(tensor), []).append(norm)
            self._kept.append(tensor)
        if norm is not None:
            self.normalised.append((norm, args[0]))
        elif (
            func in CONVOLUTIONS.values()
            and len(args) > 1
            and (made := self._convolutions.get(id(args[1]))) is not None
        ):
            self.convolved.append((made, output))
            self.makers[id(output)] = made
        return output

    def _norm(self, func: Any, args: Sequence[Any], given: Mapping[str, Any]) -> nn.Module | None:
        """The batch norm that is applied, by the statistics that it has learnt, if one is."""
        if func is not batch_norm or len(args) < 2:
            return None
        training = given.get("training", args[5] if len(args) > 5 else False)
        return None if training else self._norms.get(id(args[1]))


def _is_convolution(module: nn.Module) -> bool:
    """Whether it is a convolution whose weight is a parameter, and not computed from others."""
    return isinstance(module, tuple(CONVOLUTIONS)) and isinstance(module._parameters.get("weight"), nn.Parameter)


def _is_norm(module: nn.Module) -> bool:
    kinds = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
    return isinstance(module, kinds) and module.running_mean is not None and not module.training


def _only_paths(model: nn.Module) -> dict[nn.Module, str]:
    """The path of each module that has one only, and shares no weights with others."""
    paths: dict[nn.Module, list[str]] = {}
    owners: dict[int, set[nn.Module]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(module, []).append(path)
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            owners.setdefault(id(tensor), set()).add(module)
    shared = set().union(*(modules for modules in owners.values() if len(modules) > 1))
    return {module: found[0] for module, found in paths.items() if len(found) == 1 and module not in shared}


def _output(model: nn.Module, example: Tensor) -> Any:
    """What the model says to the example; a random one gets seeds."""
    with torch.no_grad():
        return model(example, seeds=list(range(len(example)))) if is_random(model) else model(example)


def _tensors(values: Any) -> Iterator[Tensor]:
    """All tensors in nested values."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        for each in values.values():
            yield from _tensors(each)
    elif isinstance(values, list | tuple | set):
        for each in values:
            yield from _tensors(each)


def _close(before: Any, after: Any) -> bool:
    """Whether two outputs are equal up to rounding."""
    pairs = list(zip(_tensors(before), _tensors(after), strict=True))
    return bool(pairs) and all(
        a.shape == b.shape and bool((a - b).abs().max() <= TOLERANCE * (a.max() - a.min())) for a, b in pairs
    )
