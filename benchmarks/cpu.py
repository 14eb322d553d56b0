"""Sampling on the CPU: time beside the network alone at its fastest, before and after in one run; memory; agreement.

    python benchmarks/cpu.py [--parts time,whole,memory,agreement] [--models pets camvid parts] [--before FOLDER]
        [--data FOLDER] [--json FILE]

``time``: seconds of one draw. "bare" is the network alone, its batch norms folded, channels last, in batches of the
same size. "after" is what `segcertify.sample` does for each draw once its contract checks are done (they are timed
apart). "before" is the plain network with one thread of noise and torch's arg-max over whole batches. They take turns,
and the least of several turns counts: other programs only add to it.

All is measured as commands run: their threads sleep soon (`segcertify.cli.waiting`).

``whole``: the command `segcertify certify` on one image, with all checks and pictures, in a process of its own.
``memory``: the peak of such a process that samples a tensor of 12 million pixels. For both, ``--before`` names a
checkout of an earlier version of segcertify, which takes turns with this one; its model may be another one.

``agreement``: the share of pixels whose certified labels are the same with the plain network, over images of the data
in FOLDER, which has ``pets`` and ``camvid``.
"""

# ruff: noqa: E402  (threads are told how to wait before torch loads)
from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

from segcertify.cli.waiting import sleep_soon

sleep_soon()
import torch
from PIL import Image
from torch import nn

import segcertify as sc
from segcertify.bench.machine import machine, versions
from segcertify.models import compile_seconds, optimised
from segcertify.noise import base
from segcertify.sampling import segmenter
from segcertify.sampling.draws import Draws
from segcertify.sampling.segmenter import for_sampling, is_random

ROOT = Path(__file__).parents[1]
SIZES = {"pets": (3, 160, 160), "camvid": (3, 360, 480), "parts": (2048, 6)}
PHOTOGRAPH = """
import resource, torch, segcertify as sc
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
x = torch.rand(3, 3000, 4000, generator=torch.Generator().manual_seed(1))
sc.sample(sc.models.load({name!r}), x, noise=sc.Gaussian({sigma}), n=2, n0=1, seed=0, progress=False)
"""
LIMIT_GB, LIMIT_SECONDS = 14, 900
"""What a process may hold, and how long a processor may work for it, while it samples a photograph."""
N, N0, SIGMA = 100, 10, 0.25


def model_of(name: str) -> nn.Module:
    """A bundled model."""
    return sc.models.load("parts?category=Airplane" if name == "parts" else name)


def input_of(name: str) -> torch.Tensor:
    """An input of the model."""
    x = torch.rand(SIZES[name], generator=torch.Generator().manual_seed(1))
    if name == "parts":
        x[:, :3] -= x[:, :3].mean(0)
        x[:, :3] /= x[:, :3].norm(dim=1).max()
    return x


@contextmanager
def as_before() -> Iterator[None]:
    """One thread of noise, and torch's arg-max of all images of a batch at once."""

    def whole(logits: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        assert torch.isfinite(torch.stack(torch.aminmax(logits))).all()
        return segmenter.upsampled(logits, batch).argmax(1)

    with mock.patch.object(base, "PARALLEL_FROM", math.inf), mock.patch.object(segmenter, "_from_logits", whole):
        yield


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """By the clock, and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def drawn(draws: Draws, batches: int) -> Callable[[], Any]:
    """Counts the agreement of so many batches of draws."""
    size, zeros = draws.batch_size, draws.zeros(LABELS)
    counted = draws.agreement("agree", 0, 10**9, zeros, draws.zeros(LABELS))
    next(counted)  # checked against single draws

    def work() -> None:
        for _ in range(batches):
            next(counted)
        assert draws.batch_size == size

    return work


LABELS = 30_000  # counts up to it fit in 16 bits


def timed(name: str, *, turns: int, compiled: bool) -> dict[str, Any]:
    """Seconds of one draw, in each way."""
    model, x, noise = model_of(name), input_of(name), sc.Gaussian(SIGMA)
    fast = for_sampling(model)
    model.fast = False
    smooth = {"before": sc.Smooth(model, noise, seed=0), "after": sc.Smooth(fast, noise, seed=0)}
    began, draws = time.perf_counter(), dict[str, Draws]()
    draws["after"] = smooth["after"].draws(x)
    probing = time.perf_counter() - began
    with as_before():
        draws["before"] = smooth["before"].draws(x)
    size = draws["after"].batch_size
    batches = max(1, round(8 / size))
    batch = x + SIGMA * torch.randn(size, *x.shape)
    seeds = {"seeds": list(range(size))} if is_random(model) else {}

    def alone(network: Callable[..., Any], low: torch.dtype | None = None) -> Callable[[], Any]:
        def work() -> None:
            with torch.no_grad(), torch.autocast("cpu", low or torch.bfloat16, enabled=low is not None):
                for _ in range(batches):
                    network(batch, **seeds)

        return work

    with as_before():
        before = drawn(draws["before"], batches)
    ways = {"bare plain": alone(model), "bare": alone(fast), "before": before, "after": drawn(draws["after"], batches)}
    if compiled:
        quick = optimised(model, compile=True)
        ways |= {"bare compiled": alone(quick), "bare bf16": alone(fast, torch.bfloat16)}
    found = dict.fromkeys(ways, (math.inf, math.inf))
    for turn in range(turns + 1):
        for way, work in ways.items():
            with as_before() if way == "before" else mock.MagicMock():
                took = seconds(work)
            if turn:
                least = zip(found[way], took, strict=True)
                found[way] = tuple(min(a, b / (batches * size)) for a, b in least)  # type: ignore[assignment]
    began = time.perf_counter()
    sc.certify(fast, x, sigma=SIGMA, tau=0.75, n=N, n0=N0, seed=0, progress=False)
    row = {
        "batch_size": size, "clock": {way: each[0] for way, each in found.items()},
        "processor": {way: each[1] for way, each in found.items()},
        "ratio_to_bare": found["after"][0] / found["bare"][0],
        "ratio_to_bare_by_processor": found["after"][1] / found["bare"][1],
        "ratio_before": found["before"][0] / found["bare"][0],
        "probe_seconds": probing, "certificate_seconds": time.perf_counter() - began, "draws": N + N0,
    }  # fmt: skip
    if compiled:
        row["compile_seconds"] = compile_seconds(quick)
    return row


def times(names: list[str], **how: Any) -> dict[str, Any]:
    """Of each model, seconds of one draw in each way."""
    found = {}
    for name in names:
        row = found[name] = timed(name, **how)
        ways = {way: f"{1e3 * each:.1f}" for way, each in row["clock"].items()}
        print(name, f"batch {row['batch_size']}, ms a draw:", ways)
        print(f"  ratio to bare: after {row['ratio_to_bare']:.3f} (by the processor's time "
              f"{row['ratio_to_bare_by_processor']:.3f}), before {row['ratio_before']:.3f}; "
              f"{N + N0} draws with checks {row['certificate_seconds']:.1f} s", flush=True)  # fmt: skip
    return found


def in_child(version: Path, *arguments: str) -> dict[str, Any]:
    """A process of a version: its seconds, also the processor's, its peak of memory, and whether it did not fail."""
    began, environment = time.perf_counter(), {**os.environ, "PYTHONPATH": str(version.resolve())}
    command = [sys.executable, "-P", *arguments]  # or Python would take the package in the working folder
    child = os.posix_spawn(sys.executable, command, environment)
    _, status, usage = os.wait4(child, 0)
    return {
        "seconds": time.perf_counter() - began, "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss * 1024 / 1e9, "finished": status == 0,
    }  # fmt: skip


def whole(names: list[str], homes: dict[str, Path], turns: int) -> dict[str, Any]:
    """The least time of a certificate on the command line, for an image of 360 x 480 pixels."""
    found: dict[str, Any] = {}
    with Image.open(ROOT / "segcertify/demo/chelsea.jpg") as image, tempfile.TemporaryDirectory() as folder:
        image.resize((480, 360)).save(file := Path(folder) / "image.png")
        for turn in range(turns):
            for name, (version, home) in itertools.product(names, homes.items()):
                options = ["--model", name, "--sigma", str(SIGMA), "--device", "cpu", "--quiet"]
                out = ["--out", f"{folder}/{name}-{version}-{turn}"]
                run = in_child(home, "-m", "segcertify", "certify", str(file), *options, *out)
                runs = found.setdefault(name, {}).setdefault(version, [])
                runs.append(run)
                print(name, version, run, flush=True)
    return {
        name: {version: min(runs, key=lambda run: run["seconds"]) for version, runs in each.items()}
        for name, each in found.items()
    }


def memory(names: list[str], homes: dict[str, Path]) -> dict[str, Any]:
    """The peak of sampling a tensor of 12 million pixels."""
    found: dict[str, Any] = {}
    for name, (version, home) in itertools.product(names, homes.items()):
        code = PHOTOGRAPH.format(name=name, sigma=SIGMA, limit=LIMIT_GB * 10**9, seconds=LIMIT_SECONDS)
        found.setdefault(name, {})[version] = in_child(home, "-c", code)
        print(name, version, found[name][version], flush=True)
    return found


def agreed(folder: Path, names: dict[str, int]) -> dict[str, Any]:
    """The share of pixels whose certified labels are the same with the plain network, for some images of each set."""
    found = {}
    for name, images in names.items():
        model, same, total = sc.models.load(name), 0, 0
        data = sc.data.load(f"{name}:{folder / name}?split=val")
        data = data.shrunk(160) if name == "pets" else data
        scenes = data.every(max(1, len(data) // images)).limit(images)
        for scene in scenes:
            labels = []
            for fast in (True, False):
                model.fast = fast
                smooth = sc.Smooth(model, sigma=SIGMA, seed=0)
                labels.append(smooth.certify(scene.x, tau=0.75, n=N, n0=N0, input_id=scene.id, progress=False).labels)
            same += int((labels[0] == labels[1]).sum())
            total += labels[0].size
        found[name] = {"images": len(scenes), "pixels": total, "same": same / total}
        print(name, found[name], flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="time")
    parser.add_argument("--models", nargs="+", default=["pets", "camvid", "parts"])
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="also torch.compile and bf16")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--images", type=int, nargs=2, default=[20, 2], help="of pets and of camvid, for agreement")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    numbers: dict[str, Any] = {
        "machine": machine(torch.device("cpu")), "versions": versions(), "date": date.today().isoformat(),
        "settings": {"turns": arguments.turns, "images": arguments.images, "limit_gb": LIMIT_GB,
            "limit_seconds": LIMIT_SECONDS},
    }  # fmt: skip
    if arguments.json and arguments.json.exists():  # parts may be measured one after the other
        numbers = json.loads(arguments.json.read_text()) | numbers
    images = [name for name in arguments.models if name != "parts"]
    homes = ({"before": arguments.before} if arguments.before else {}) | {"now": ROOT}
    counts = dict(zip(("pets", "camvid"), arguments.images, strict=True))
    work = {
        "time": lambda: times(arguments.models, turns=arguments.turns, compiled=arguments.compiled),
        "whole": lambda: whole(images, homes, arguments.turns),
        "memory": lambda: memory(images, homes),
        "agreement": lambda: agreed(arguments.data, {name: count for name, count in counts.items() if count}),
    }
    for part in arguments.parts.split(","):
        numbers[part] = work[part]()
        if arguments.json:
            arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
