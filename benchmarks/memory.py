"""Counting labels of a large input: the peak of memory, the checkpoint's largest size, and the time that saving takes.

    python benchmarks/memory.py [--components 8388608] [--classes 150] [--n 30] [--n0 10] [--logits] [--json FILE]

The model gives labels (with ``--logits``: coarse logits, 1/64 of the components) and has no memory of its own to speak
of. All runs in a child process, whose peak is taken after a first small run: what importing costs is not counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import segcertify as sc
from segcertify.storage import archive

ROWS = 1024


class Stripes:
    """Labels by the size of an entry: noise gives each component many different ones, and all classes are seen."""

    def __init__(self, classes: int, logits: bool) -> None:
        self.classes, self.logits = classes, logits

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        """Labels (B, H, W), or logits (B, classes, H / 8, W / 8)."""
        if self.logits:
            coarse = torch.nn.functional.avg_pool2d(batch, 8)
            return -(coarse - torch.linspace(0, 1, self.classes)[:, None, None]).square()
        return (batch[:, 0] * self.classes).to(torch.int16).clamp_(0, self.classes - 1)


def peak() -> int:
    """The most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(components: int, classes: int, *, n: int, n0: int, every: float, logits: bool = False) -> dict[str, Any]:
    """Sample once, with a checkpoint; what it took."""
    torch.set_num_threads(1)
    model, saves, write = Stripes(classes, logits), [], archive.write
    settings = {"noise": sc.Gaussian(0.1), "n": n, "n0": n0, "seed": 0, "checkpoint_every": every, "progress": False}

    def timed_write(path: Path, **content: Any) -> None:
        start = time.perf_counter()
        write(path, **content)
        saves.append((time.perf_counter() - start, path.stat().st_size))

    with tempfile.TemporaryDirectory() as folder:
        sc.sample(model, torch.rand(1, 64, 64), **settings, checkpoint=Path(folder) / "small")
        archive.write = timed_write
        before, start = peak(), time.perf_counter()
        x = torch.rand(1, ROWS, components // ROWS)
        votes = sc.sample(model, x, **settings, checkpoint=Path(folder) / "large")
        sc.certify_votes(votes, tau=0.5, alpha=0.001)
        seconds = time.perf_counter() - start
    return {
        "components": votes.N, "classes": classes, "n": n, "n0": n0,
        "peak_gib": (peak() - before) / 2**30,
        "bytes_per_component_and_class": (peak() - before) / votes.N / classes,
        "largest_checkpoint_mib": max(size for _, size in saves) / 2**20,
        "saves": len(saves), "writing_seconds": sum(took for took, _ in saves), "seconds": seconds,
        "version": sc.__version__,
    }  # fmt: skip


def in_child(*arguments: Any, **options: Any) -> dict[str, Any]:
    """`measure` in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments, options)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, default=8 * 2**20)
    parser.add_argument("--classes", type=int, default=150)
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--n0", type=int, default=10)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between saves, at least")
    parser.add_argument("--logits", action="store_true", help="coarse logits instead of labels")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = vars(parser.parse_args())
    path = arguments.pop("json")
    numbers = in_child(arguments.pop("components"), arguments.pop("classes"), **arguments)
    if path:
        path.write_text(json.dumps(numbers, indent=2) + "\n")
    for name, value in numbers.items():
        print(f"{name:36} {value:.3f}" if isinstance(value, float) else f"{name:36} {value}")


if __name__ == "__main__":
    main()
