"""Certifying a 1024 x 2048 frame with HRNetV2 (random weights): time, its ratio to the network alone, memory.

    python benchmarks/frames.py [--model tiny|w18|w48] [--scale 0.25] [--device cuda] [--json FILE]

The baseline, in the same run, is the network's own forward passes on clean
frames, one at a time, as many as there are draws (extrapolated from a few, and
said so). On a GPU, batches make the ratio less than 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import torch

import segcertify as sc
from segcertify.models import HRNet, MultiScale
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture

MODELS = {"tiny": Architecture(width=8, classes=19, blocks=1, modules=(1, 1, 1)), "w18": W18_SMALL_V2, "w48": W48}
N, N0, PASSES = 100, 10, 10


def seconds(device: str) -> float:
    """The time, once the device has finished what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Certify once, time the network alone, print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    device = arguments.device
    model = MultiScale(HRNet(MODELS[arguments.model]), [arguments.scale]).eval().to(device)
    x = torch.rand(3, 1024, 2048)
    sc.sample(model, x, noise=sc.Gaussian(0.25), n=2, n0=1, seed=0, device=device)  # warm up

    start = seconds(device)
    votes = sc.sample(model, x, noise=sc.Gaussian(0.25), n=N, n0=N0, seed=0, device=device)
    sampling = seconds(device) - start
    start = time.perf_counter()
    sc.certify_votes(votes, tau=0.75, alpha=0.001)
    testing = time.perf_counter() - start

    batch = x[None].to(device)
    with torch.no_grad():
        model(batch)
        start = seconds(device)
        for _ in range(PASSES):
            model(batch)
        alone = (seconds(device) - start) / PASSES * (N + N0)

    numbers = {
        "model": arguments.model,
        "scale": arguments.scale,
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "n": N,
        "n0": N0,
        "sampling_seconds": sampling,
        "testing_seconds": testing,
        "network_alone_seconds_extrapolated": alone,
        "ratio_to_network_alone": sampling / alone,
        "peak_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "peak_cuda_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0,
        "version": sc.__version__,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")
    for name, value in numbers.items():
        print(f"{name:36} {value:.3f}" if isinstance(value, float) else f"{name:36} {value}")


if __name__ == "__main__":
    main()
