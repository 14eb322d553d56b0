"""Optimised: a copy of a network that computes the same function faster, and says what was done to it.

Where it is used: the sampler asks a model that `segcertify.models.load` gave for such a copy (`Wrapper.for_sampling`)
and runs it for all draws. What `load` returns stays the network itself, with its weights, for training, attacks and
files. Any other model is sampled as it is, unless its owner calls `optimised`. Votes and certificates then name the
weights of the original and, under ``execution``, what ran: a run never goes on with another execution, and an audit
takes either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from segcertify.errors import InputError
from segcertify.models.folding import folded
from segcertify.models.networks.captured import capture
from segcertify.models.networks.fused_hrnet import FusedHRNet
from segcertify.models.networks.fused_lite import FusedLite
from segcertify.models.networks.fused_pointnet2 import FusedPointNet2
from segcertify.models.networks.hrnet import HRNet
from segcertify.models.networks.lite import Lite
from segcertify.models.networks.pointnet2 import CENTRES, PointNet2
from segcertify.models.wrappers.precision import PRECISIONS, Autocast, with_precision
from segcertify.sampling.identity import Execution, identity, weights_digest

Model = TypeVar("Model", bound=nn.Module)

EXAMPLE = 1, 3, 64, 64
"""The shape of the images that a network is tried on, if none is given."""
ROUNDING = 2.0**-6
"""How much a fused network's answers may differ from the network's, as a share of their range: TF32 has 10 bits."""

_MADE: WeakKeyDictionary[nn.Module, tuple[dict[str, Any], nn.Module]] = WeakKeyDictionary()
"""The copy of each model that was asked for last, by `for_sampling`, with the identity that the model had then."""


def optimised(
    model: Model, *, precision: str = "fp32", compile: bool = False, example: Tensor | None = None
) -> Model:  # fmt: skip
    """A faster copy of a network in evaluation mode; the network itself is not changed.

    Its batch norms become part of its convolutions (`segcertify.models.folding`, which proves each on ``example``, a
    batch of the network's inputs, by default an image of 64 x 64), and its weights lie with their channels last.
    HRNets, Lites, and on the CPU PointNet++ get fewer passes over memory (`segcertify.models.networks.fused_hrnet`,
    `fused_lite`, `fused_pointnet2`). On CUDA small batches are replayed (`segcertify.models.networks.captured`). All
    this is the same function up to rounding: at least 99.9 % of the certified labels are the same. ``precision`` "bf16"
    or "fp16" is another function, as `segcertify.models.with_precision` says.

    ``compile`` compiles the networks with `torch.compile` for each shape of input, which takes a minute or more at the
    first call: `compile_seconds` tells. torch keeps what it compiled on disk for later processes.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    >>> fast = optimised(net)
    >>> fast
    Sequential(
      (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): Identity()
      (2): ReLU()
      (3): Conv2d(4, 2, kernel_size=(1, 1), stride=(1, 1))
    )
    >>> fast.execution.how
    {'folded': 1, 'memory_format': 'channels_last'}
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"only a torch.nn.Module can be optimised, but got {type(model).__name__}: sample it as it is")
    if any(module.training for module in model.modules()):
        raise InputError("the model is in training mode: call model.eval() before it is optimised")
    if isinstance(getattr(model, "execution", None), Execution):
        raise InputError("the model is optimised already: optimise the original")
    whole = cast(nn.Module, with_precision(model, precision))
    original, device = identity(whole), next((each.device for each in whole.parameters()), torch.device("cpu"))
    tried = torch.rand(EXAMPLE, generator=torch.Generator().manual_seed(0)) if example is None else example
    fast, count = folded(whole, tried.to(device))
    how: dict[str, Any] = {"folded": count, "memory_format": "channels_last"}
    if not compile:
        fast, fused = _fused(fast, device.type)
        how |= {"fused": fused} if fused else {}
    for module in fast.modules():
        if isinstance(module, Autocast):
            _cast(module, PRECISIONS[module.precision])
    fast.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if device.type == "cpu":
        fast.register_forward_hook(_contiguous)
    if device.type == "cuda" and not compile:
        found = [each for each in fast.modules() if isinstance(each, FusedHRNet | FusedLite | Lite)]
        for each in found:
            capture(each)
        how |= {"captured": len(found)} if found else {}
    if compile:
        how["compiled"] = f"torch {torch.__version__}"
        for network in _networks(fast):
            _compile(network)
    fast.execution = Execution(original, weights_digest(fast), how)  # type: ignore[assignment]
    return cast(Model, fast.eval())


def for_sampling(model: Model, *, compile: bool = False) -> Model:
    """The `optimised` copy of a model, made anew where the model has changed; the model itself if it cannot be."""
    if not any(isinstance(module, nn.Conv2d) for module in model.modules()):
        return model  # nothing to gain, as for networks of other libraries' formats
    place = next((str(each.device) for each in model.parameters()), "")
    now = {**identity(model), "compile": compile, "device": place}
    made = _MADE.get(model)
    if made is None or made[0] != now:
        try:
            made = now, optimised(model, compile=compile)
        except Exception:  # one that cannot be copied
            return model
        _MADE[model] = made
    return cast(Model, made[1])


def compile_seconds(model: nn.Module) -> float:
    """How long the compiler has taken for an optimised model so far, with the first calls of what it made."""
    return float(sum(getattr(module, "compiling_seconds", 0.0) for module in model.modules()))


def _fused(model: nn.Module, device: str) -> tuple[nn.Module, int]:
    """The model with its networks replaced by fused ones, and how many were.

    Only networks of exactly these classes, whose batch norms are folded, and only where both give the same answers: a
    class of a user's own may compute something else from the same weights.
    """
    fused: nn.Module | None = None
    if type(model) is HRNet and not _batch_norms(model):
        fused = FusedHRNet(model, pad=device == "cuda")
    elif type(model) is Lite and not _batch_norms(model) and device in ("cpu", "cuda"):
        fused = FusedLite(model, lays=device == "cuda")
    elif type(model) is PointNet2 and device == "cpu":
        fused = FusedPointNet2(model)
    if fused is not None and _same_answers(fused, model):
        return fused, 1
    if isinstance(model, HRNet | Lite | PointNet2):
        return model, 0
    count = 0
    for name, child in list(model.named_children()):
        replaced, found = _fused(child, device)
        count += found
        if replaced is not child:
            setattr(model, name, replaced)
    return model, count


def _batch_norms(model: nn.Module) -> bool:
    return any(isinstance(each, nn.BatchNorm2d) for each in model.modules())


@torch.inference_mode()
def _same_answers(fused: nn.Module, model: nn.Module) -> bool:
    """Whether two networks, of images or of clouds, give the same answers to a fixed input, but for rounding."""
    columns, tensor = getattr(model, "columns", None), next(model.parameters())
    shape = (1, CENTRES[0], columns) if columns else EXAMPLE
    given = torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(tensor)
    answers = [network(given, [0], seeds=[0]) if columns else network(given) for network in (fused, model)]
    one, other = (answer.double() for answer in answers)
    return bool((one - other).abs().max() <= ROUNDING * (other.max() - other.min()))


def _cast(module: nn.Module, dtype: torch.dtype) -> None:
    """Convolutions and matrices in the precision that autocast would give them at every call."""
    for each in module.modules():
        if isinstance(each, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear | FusedHRNet):
            each.to(dtype)


def _networks(model: nn.Module) -> list[nn.Module]:
    """What is compiled: the networks inside wrappers, which themselves ask about values."""
    inner = [module for module in (getattr(model, "model", None), *getattr(model, "members", ())) if module is not None]
    modules = [module for module in inner if isinstance(module, nn.Module)]
    return [network for module in modules for network in _networks(module)] if modules else [model]


def _compile(network: nn.Module) -> None:
    """Compile a network at its first call for each shape; the calls that compile are timed."""
    shapes, plain = set[tuple[Any, ...]](), network.forward
    run: Callable[..., Any] = torch.compile(plain, dynamic=False)
    network.compiling_seconds = 0.0  # type: ignore[assignment]

    def forward(*arguments: Any, **given: Any) -> Any:
        tensors = [each for each in (*arguments, *given.values()) if isinstance(each, Tensor)]
        kind = tuple((*each.shape, each.dtype, each.device) for each in tensors)
        if kind in shapes:
            return run(*arguments, **given)
        start = time.perf_counter()
        output = run(*arguments, **given)
        shapes.add(kind)
        network.compiling_seconds += time.perf_counter() - start  # type: ignore[operator, assignment]
        return output

    network.forward = forward


def _contiguous(module: nn.Module, given: Any, output: Any) -> Any:
    """A hook: the channels of an output first, as the arg-max on the CPU takes them fastest."""
    return output.contiguous() if isinstance(output, Tensor) else output
