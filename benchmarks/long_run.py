"""Memory while an evaluation goes through thousands of scenes: it must not grow with the data set.

    python benchmarks/long_run.py [--scenes 10000] [--json results/speed/long-run.json]

Small images that are made when they are asked for, a small model, a few draws. For each engine, one evaluation in a
process of its own; at every tenth of the scenes, the memory that it and its workers hold, and how many files lie in the
run's folder. Scenes are drawn ahead and finish at different times: what waits for the driver's records counts too.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import segcertify as sc
from segcertify.bench.machine import machine, versions
from segcertify.data import DataSet, Scene

SIZE, CLASSES, N, N0, TENTHS = (24, 32), ("dark", "bright"), 70, 10, 10
ENGINES = {"one process": {}, "2 workers": {"workers": 2}, "2 workers on Ray": {"engine": "ray", "workers": 2}}


@dataclass(frozen=True)
class Made:
    """A scene that is made of its number."""

    id: str


class Images(DataSet):
    """Random images, of which bright pixels are one class."""

    def __getitem__(self, index: int) -> Scene:
        """The image of a number."""
        x = np.random.default_rng(int(self.items[index].id)).random((3, *SIZE), np.float32)
        return Scene(self.items[index].id, x, (x.mean(0) > 0.5).astype(np.int64), np.ones(SIZE, bool))

    def check(self) -> None:
        """Nothing can be wrong."""


def brightness() -> nn.Module:
    """Two logits, of a module that every worker has."""
    model = nn.Conv2d(3, 2, 1).eval()
    with torch.no_grad():
        for index, sign in enumerate((-1.0, 1.0)):
            model.weight[index], model.bias[index] = sign / 3, -sign / 2
    return model


def images(count: int) -> Images:
    """So many."""
    items = tuple(Made(f"{index:06d}") for index in range(count))
    return Images("made", CLASSES, np.array([[0, 0, 0], [255, 255, 255]], np.uint8), items)


def resident(pid: int) -> int:
    """The bytes of memory that a process and those that it started hold alone or share, each process for itself."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return 0
    return own + sum(resident(int(child)) for each in children for child in each)


def measure(name: str, count: int) -> dict[str, Any]:
    """One evaluation: the time, and a row for each tenth of the scenes."""
    torch.set_num_threads(1)
    rows, began, done, data = list[dict[str, Any]](), time.perf_counter(), 0, images(count)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"

        def advance(step: int) -> None:
            nonlocal done
            done += step
            scenes = (done - count) / (N0 + N)  # all are read once before
            if scenes >= count * (len(rows) + 1) / TENTHS:
                rows.append({
                    "scenes": int(scenes), "seconds": time.perf_counter() - began,
                    "driver_mib": own_mib(), "all_mib": resident(os.getpid()) / 2**20,
                    "files": sum(1 for _ in out.iterdir()),
                })  # fmt: skip
                print(name, rows[-1], flush=True)

        run = sc.evaluate(
            brightness(), data, out=out, settings=[(0.1, N, 0.75)], n0=N0, seed=0, progress=advance, **ENGINES[name]
        )  # fmt: skip
        recorded = len({record.id for record in run.records})
    return {"engine": name, "recorded": recorded, "rows": rows}


def own_mib() -> float:
    """What this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Measure each engine in a process of its own, print, and perhaps write a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=10_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    for name in arguments.engines:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            found.append(alone.submit(measure, name, arguments.scenes).result())
    if arguments.json is not None:
        written = {
            "machine": machine(torch.device("cpu")), "versions": versions(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": {"scenes": arguments.scenes, "input": [3, *SIZE], "n": N, "n0": N0}, "engines": found,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
