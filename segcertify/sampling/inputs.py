"""One input, as it was given, on its way to a device, and in a digest."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.sampling.segmenter import Segmenter

Input = torch.Tensor | Array
PARTS = 4
"""In how many parts an input is sent to a GPU."""


def working_device(device: str | torch.device | None, model: Segmenter, x: Input | None = None) -> torch.device:
    """The device that was named, else the model's, else the input's."""
    if device is not None:
        return require_device(device)
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return x.device if isinstance(x, torch.Tensor) else torch.device("cpu")


def require_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be such as 'cpu' or 'cuda', but got {device!r} ({error})") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={str(device)!r}: this machine has no CUDA device that torch can use")
    try:
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device={str(device)!r} cannot be used here ({reason}): use cpu, or cuda where it is"
        ) from None
    return chosen


def require_input(x: Input, device: torch.device) -> torch.Tensor:
    """One finite float input on the device."""
    return require_finite_input(as_floats(x).to(device))


def sent(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """An input on a device. To CUDA it goes through page-locked memory, where one part is written while one is sent."""
    if device.type != "cuda" or x.is_cuda:
        return x.to(device)
    x = x.contiguous()
    staged, there = torch.empty_like(x, pin_memory=True), torch.empty_like(x, device=device)
    parts = (torch.split(each.view(-1), -(-x.numel() // PARTS)) for each in (x, staged, there))
    for own, locked, on_device in zip(*parts, strict=True):
        on_device.copy_(locked.copy_(own), non_blocking=True)
    return there


def require_finite_input(x: torch.Tensor) -> torch.Tensor:
    """Refuse an input that holds NaN or infinity."""
    finite_input(x)()
    return x


def finite_input(x: torch.Tensor) -> Callable[[], None]:
    """The same in two parts: what is called at last refuses x, and waits for nothing that a GPU was asked for since."""
    bad = (~torch.isfinite(x)).sum()
    if x.is_cuda:
        bad = torch.empty_like(bad, device="cpu", pin_memory=True).copy_(bad, non_blocking=True)
        counted = torch.cuda.current_stream(x.device).record_event()

    def require() -> None:
        if x.is_cuda:
            counted.synchronize()
        if int(bad):
            raise InputError(f"x has {int(bad)} entries that are NaN or infinite: clean it before certifying")

    return require


def as_floats(x: Input) -> torch.Tensor:
    """One dense input in single or double precision, where it is."""
    if isinstance(x, np.ndarray):
        plain = x.dtype.newbyteorder("=") if x.dtype != np.longdouble else np.dtype(np.float64)
        x = np.ascontiguousarray(x, plain) if x.dtype.kind in "fiub" else x
    try:
        tensor = torch.as_tensor(x).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"x must be a tensor or an array of floats, but got {type(x).__name__} ({error})") from None
    if not tensor.is_floating_point():
        raise InputError(f"x must hold floats, but got {tensor.dtype}: for 8-bit images divide by 255")
    if tensor.layout != torch.strided:
        raise InputError(f"x must be dense, but its layout is {tensor.layout}: use x.to_dense()")
    tensor = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    if tensor.numel() == 0:
        raise InputError(f"x is empty: its shape is {tuple(tensor.shape)}")
    return tensor


_THREAD = ThreadPoolExecutor(1, thread_name_prefix="input")
"""What digests inputs beside the work of Python."""


def input_digest(x: torch.Tensor) -> str:
    """A digest of an input's bytes, as votes keep it beside the shape, without which it says too little."""
    return hashlib.sha256(x.cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()


def digested_beside(x: torch.Tensor) -> Callable[[], str]:
    """Gives `input_digest`, which a thread computes meanwhile."""
    return _THREAD.submit(input_digest, x).result
