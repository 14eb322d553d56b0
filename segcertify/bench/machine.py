"""The machine that a measurement was made on: its names, its versions, and its peak in matrix products."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from segcertify.chunks import cores
from segcertify.errors import InputError

PACKAGES = ("torch", "triton", "numpy", "scipy", "statsmodels", "opencv-python")


def machine(device: torch.device) -> dict[str, Any]:
    """The device and the processor, how many cores this process may use, and torch's threads."""
    cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else device.type,
        "processor": _processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str | None]:
    """The versions of what the time depends on; None for what is not installed."""
    from segcertify import __version__

    found: dict[str, str | None] = {"segcertify": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def resident_gib() -> float:
    """The most memory that this process ever held, libraries included."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def seconds(device: torch.device, work: Callable[[], object]) -> float:
    """The time of some work, until the device has done it."""
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - start


def wait(device: torch.device) -> None:
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_of_products(device: torch.device, precision: str, *, budget: float = 0.5) -> tuple[str, float]:
    """The type and the TFLOP/s of the fastest of some products of large square matrices, in about ``budget`` seconds.

    Single precision on CUDA takes TF32 where convolutions do, as torch allows by default.
    """
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in types:
        raise InputError(f"precision must be one of {', '.join(types)}, but got {precision!r}")
    cuda, dtype = device.type == "cuda", types[precision]
    tf32 = cuda and precision == "fp32" and torch.backends.cudnn.allow_tf32
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, tf32
    try:
        rate = max(_rate(size, dtype, device, budget / 2) for size in ((4096, 8192) if cuda else (512, 1024)))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return "tf32" if tf32 else precision, rate


def _rate(size: int, dtype: torch.dtype, device: torch.device, budget: float) -> float:
    """TFLOP/s of products of matrices of one size: of several in a row, the fastest of the runs in the budget."""
    a, b = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    out, best, spent, times = torch.mm(a, b), 0.0, 0.0, 10 if device.type == "cuda" else 1

    def products() -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    seconds(device, products)
    while spent < budget:
        took = seconds(device, products)
        best, spent = max(best, times * 2 * size**3 / took / 1e12), spent + took
    return best


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
