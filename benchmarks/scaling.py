"""What workers gain on this machine, and a model of 1 to 64 GPUs.

    python benchmarks/scaling.py --json results/speed/scaling-2-cores.json

Measured: evaluations of the bundled model `pets` on copies of the bundled photograph, by one process that uses all
cores, by workers that share them, and by workers on Ray; all in one run, in turns. The time to start is told apart.
Draws a second are those of the middle of a run. Measured too: what the driver does for a frame of 1024 x 2048.

Modelled, not measured: how these times add up with many GPUs. Frames are divided among GPUs, and a single driver does
its work for one frame after the other. What a frame costs a GPU are the stages in frames-w48-*-bf16-h200.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import segcertify as sc
from segcertify.bench.machine import machine, versions
from segcertify.chunks import cores
from segcertify.data import DataSet, Scene, load
from segcertify.demo import photograph
from segcertify.engines import Engine
from segcertify.evaluation.scenes import labels_record, radius_record
from segcertify.sampling.shared import RANGE_SECONDS
from segcertify.sampling.tasks import Part

SIGMA, TAU, N0, ALPHA = 0.25, 0.75, 10, 0.001
FRAME, CLASSES = (1024, 2048), 19
GPUS = (1, 2, 4, 8, 16, 32, 64)
STAGES = Path(__file__).parents[1] / "results" / "speed"
DRAWING = ("noise", "resize", "network", "labels", "counting")
"""The stages that every draw has; a GPU has all but these and the tests once for each frame."""
MIDDLE = 0.15, 0.9
"""The shares of the draws between which the rate is measured: all workers are at work then."""


def engines(workers: int, *, ray: bool) -> dict[str, Engine]:
    """The ways to draw that are compared."""
    found = {"one process": Engine(), "1 worker": Engine("local", 1), f"{workers} workers": Engine("local", workers)}
    return found | ({f"{workers} workers on Ray": Engine("ray", workers)} if ray else {})


def photographs(root: Path, count: int) -> DataSet:
    """Copies of the bundled photograph, each shifted sideways, as a folder of pets without ground truth."""
    pixels = np.asarray((np.asarray(photograph()) * 255).round().astype(np.uint8).transpose(1, 2, 0))
    for name in ("images", "labels"):
        (root / name).mkdir()
    for index in range(count):
        Image.fromarray(np.roll(pixels, 7 * index, 1)).save(root / "images" / f"{index:03d}.jpg", quality=95)
        Image.fromarray(np.ones(pixels.shape[:2], np.uint8)).save(root / "labels" / f"{index:03d}.png")
    return load(f"pets:{root}")


def timed(engine: Engine, data: DataSet, *, n: int, out: Path) -> dict[str, float]:
    """An evaluation: the seconds until its first draw, those of all, and the draws a second in its middle."""
    began, stamps = time.perf_counter(), [(0, 0.0)]

    def advance(step: int) -> None:
        stamps.append((stamps[-1][0] + step, time.perf_counter() - began))

    sc.evaluate(
        sc.models.load("pets"), data, out=out, settings=[(SIGMA, n, TAU)], n0=N0, alpha=ALPHA, seed=0,
        engine=engine if engine.in_process else engine.of("pets"), progress=advance,
    )  # fmt: skip
    total = time.perf_counter() - began
    draws = [(done - len(data), at) for done, at in stamps if done > len(data)]  # all scenes are read once before
    low, high = (share * draws[-1][0] for share in MIDDLE)
    first, last = (next(each for each in draws if each[0] >= bound) for bound in (low, high))
    return {
        "start_seconds": draws[0][1], "total_seconds": total,
        "draws_per_second": (last[0] - first[0]) / (last[1] - first[1]),
    }  # fmt: skip


def driver_seconds(repeats: int = 5) -> dict[str, float]:
    """What the driver does for a frame: sending an input, adding up a part of the counts, certificate and records."""
    rng = np.random.default_rng(0)
    scene = Scene(
        "frame", rng.random((3, *FRAME), np.float32), rng.integers(0, CLASSES, FRAME), np.ones(FRAME, bool)
    )  # fmt: skip
    part = pickle.dumps((None, Part(rng.integers(0, 100, FRAME).astype(np.uint8), 8, 1.0)))
    agree = torch.zeros(FRAME, dtype=torch.int16)
    votes = sc.Votes(
        candidate=scene.target, agree=rng.integers(90, 101, FRAME), n=100, n0=N0, noise=sc.Gaussian(SIGMA)
    )  # fmt: skip

    def add() -> None:
        _, found = pickle.loads(part)
        agree.add_(torch.from_numpy(found.counts.copy()).to(agree.dtype))

    def certify() -> None:
        certificate = sc.certify_votes(votes, tau=TAU, alpha=ALPHA)
        radius_record(scene, votes, sigma=SIGMA)
        for labels in (scene.target, certificate.labels):
            labels_record(scene, "certified", labels, classes=CLASSES)

    works = {"send": lambda: pickle.dumps(scene.x), "add": add, "certify": certify}
    return {name: statistics.median(_seconds(work) for _ in range(repeats)) for name, work in works.items()}


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def gpu_seconds(stages: Mapping[str, float], draws: int, n: int) -> float:
    """What a frame costs a GPU with n draws for agreement, from stages measured with so many draws in all."""
    each = sum(stages[name] for name in DRAWING) / draws
    return (N0 + n) * each + sum(stages.values()) - draws * each - stages["tests"]


def model(driver: Mapping[str, float], drawing: float) -> list[dict[str, float]]:
    """Frames an hour with so many GPUs: as fast as these draw, or as the driver works, whichever is slower.

    ``speedup`` is to the frames an hour of one GPU, which may itself have to wait for the driver.

    Frames are many, so that each stays with one GPU, and is put into Ray's store once; its tasks are of about
    `RANGE_SECONDS`. Left out: networks between machines, files, and that the driver has several threads.
    """
    rows, work = [], driver["send"] + math.ceil(drawing / RANGE_SECONDS) * driver["add"] + driver["certify"]
    for gpus in GPUS:
        slower = max(drawing / gpus, work)
        rows.append({
            "gpus": gpus, "frames_per_hour": 3600 / slower, "speedup": max(drawing, work) / slower,
            "driver_busy": work / slower,
        })  # fmt: skip
    return rows


def modelled(driver: Mapping[str, float]) -> list[dict[str, Any]]:
    """The model at each scale that was measured on an H200, for few draws and for many."""
    found = []
    for file in sorted(STAGES.glob("frames-w48-*-bf16-h200.json")):
        measured = json.loads(file.read_text(encoding="utf-8"))
        settings = measured["settings"]
        for n in (100, 10_000):
            drawing = gpu_seconds(measured["stages_seconds"], settings["n0"] + settings["n"], n)
            found.append({
                "from": file.name, "scale": settings["scale"], "precision": settings["precision"], "n": n,
                "frame_seconds": drawing, "rows": model(driver, drawing),
            })  # fmt: skip
    return found


def main() -> None:
    """Measure, model, print, and perhaps write a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--scenes", type=int, default=8)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if "OMP_NUM_THREADS" in os.environ:
        parser.error("OMP_NUM_THREADS is set, but one process is to use all cores: unset it")
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (data_folder := Path(folder) / "data").mkdir()
        data = photographs(data_folder, arguments.scenes)
        for turn in range(arguments.rounds):
            for name, engine in engines(arguments.workers, ray=not arguments.without_ray).items():
                out = Path(folder) / f"{turn} {name}"
                runs.setdefault(name, []).append(timed(engine, data, n=arguments.n, out=out))
                print(name, {key: round(value, 2) for key, value in runs[name][-1].items()}, flush=True)
    rates = {name: statistics.median(run["draws_per_second"] for run in each) for name, each in runs.items()}
    ratios = {name: rate / rates["one process"] for name, rate in rates.items()}
    driver = driver_seconds()
    for name, ratio in ratios.items():
        print(f"{name}: {rates[name]:.1f} draws/s, {ratio:.3f} of one process")
    print("driver", {name: round(seconds, 4) for name, seconds in driver.items()})
    if arguments.json is not None:
        settings = {
            "model": "pets", "input": [3, *photograph().shape[1:]], "scenes": arguments.scenes, "n": arguments.n,
            "n0": N0, "sigma": SIGMA, "rounds": arguments.rounds, "workers": arguments.workers, "frame": list(FRAME),
            "classes": CLASSES,
        }  # fmt: skip
        written = {
            "machine": machine(torch.device("cpu")), "versions": versions() | {"ray": _ray()},
            "date": datetime.now(UTC).isoformat(timespec="seconds"), "settings": settings, "runs": runs,
            "draws_per_second": rates, "ratio_to_one_process": ratios, "driver_seconds": driver,
            "modelled": modelled(driver),
        }  # fmt: skip
        arguments.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _ray() -> str | None:
    """Ray's version, if it is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ray")
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
