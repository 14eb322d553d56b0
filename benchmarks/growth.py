"""How time and memory grow with n and N, one of them fixed, for a small network.

    python benchmarks/growth.py [--device cuda] [--largest-n 10000] [--largest-N 8388608] [--json FILE]

The fit is a straight line through all measurements: its residual says how linear the time is. On the CPU each
measurement is a process of its own, whose processor time is measured, so that other processes change little, and memory
is the most that it held. On CUDA time is by the clock, and memory is the most that torch held there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import segcertify as sc
from segcertify.bench.machine import machine, resident_gib, seconds, versions

DRAWS, COMPONENTS = (100, 300, 1000, 3000, 10_000), (2**17, 2**18, 2**19, 2**20, 2**21, 2**22, 2**23)
FIXED_N, FIXED_N0, FIXED_COMPONENTS, ROWS, CLASSES, BATCH, REPEATS = 40, 10, 2**14, 128, 4, 8, 3


def network() -> nn.Module:
    """Two convolutions with a stride of 4: so small that all stages count."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(1, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, CLASSES, 3, padding=1))
    return layers.eval()


def measure(n: int, components: int, device: str, repeats: int) -> dict[str, Any]:
    """Sample and certify once, after a small run; the time and the memory."""
    there = torch.device(device)
    smooth = sc.Smooth(network().to(there), sigma=0.25, seed=0, batch_size=BATCH, device=there)
    x = torch.rand(1, ROWS, components // ROWS, generator=torch.Generator().manual_seed(0))

    def certify(n: int, x: torch.Tensor) -> None:
        votes = smooth.votes(x, n=n, n0=FIXED_N0, progress=lambda step: None)
        sc.certify_votes(votes, tau=0.5, alpha=0.001)

    certify(FIXED_N, x)  # warm: kernels for counts of one byte
    certify(300, x[:, :, :64])  # and of two
    if there.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    took = min(spent(there, lambda: certify(n, x)) for _ in range(repeats))
    cuda = torch.cuda.max_memory_allocated() / 2**30 if there.type == "cuda" else None
    return {"n": n, "components": components, "seconds": took, "cuda_gib": cuda, "resident_gib": resident_gib()}


def spent(device: torch.device, work: Callable[[], None]) -> float:
    """The time of some work: the processor's where it does all of it."""
    if device.type != "cpu":
        return seconds(device, work)
    start = time.process_time()
    work()
    return time.process_time() - start


def apart(*arguments: Any) -> dict[str, Any]:
    """`measure`, on the CPU in a process whose memory nothing else has raised."""
    if arguments[2] != "cpu":
        return measure(*arguments)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def line(rows: list[dict[str, Any]], by: str) -> dict[str, float]:
    """Seconds as a + b times ``by``, and the largest residual as a share of the measurement."""
    x, y = (np.array([float(row[name]) for row in rows]) for name in (by, "seconds"))
    slope, start = np.polyfit(x, y, 1, w=1 / y)  # relative errors count alike
    return {"seconds_each": float(slope), "seconds_fixed": float(start), "residual": _residual(start + slope * x, y)}


def _residual(fitted: Any, measured: Any) -> float:
    return float(np.abs(fitted / measured - 1).max())


def main() -> None:
    """Measure over n, then over N, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="measure so many times and take the fastest")
    parser.add_argument("--largest-n", type=int, default=DRAWS[-1])
    parser.add_argument("--largest-N", type=int, default=COMPONENTS[-1])
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    start, device = time.perf_counter(), arguments.device
    over = {
        "n": [apart(n, FIXED_COMPONENTS, device, arguments.repeats) for n in DRAWS if n <= arguments.largest_n],
        "components": [apart(FIXED_N, N, device, arguments.repeats) for N in COMPONENTS if arguments.largest_N >= N],
    }
    values = {
        "machine": machine(torch.device(device)),
        "versions": versions(),
        "date": time.strftime("%Y-%m-%d"),
        "settings": {"n0": FIXED_N0, "classes": CLASSES, "batch_size": BATCH, "noise": "Gaussian(sigma=0.25)"},
        "over_n": over["n"],
        "over_components": over["components"],
        "line_over_n": line(over["n"], "n"),
        "line_over_components": line(over["components"], "components"),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    for name, rows in over.items():
        for row in rows:
            memory = row["resident_gib"] if row["cuda_gib"] is None else row["cuda_gib"]
            print(f"n = {row['n']:6,}  N = {row['components']:10,}  {row['seconds']:9.3f} s  {memory:6.3f} GiB")
        print(f"over {name}: {values[f'line_over_{name}']}")
    print(f"took {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
