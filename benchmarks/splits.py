"""Images per second over a data set, before and now; and whether a GPU's certificates are those of the CPU.

    python benchmarks/splits.py --model pets --data pets:FOLDER?split=val [--device cuda] [--images 184]
        [--before FOLDER] [--agreement 6] [--json FILE]

Every image is certified as `segcertify evaluate` does it, from its file to the certificate, but nothing is written.
``--before`` is a checkout of an earlier version, which runs in a process of its own. For ``--agreement`` some images
are certified on the CPU too: with its own noise, and with the numbers that the GPU draws, made in plain torch. Only
then should the certificates be equal, but for what rounding decides.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import segcertify as sc

SETTINGS = {"tau": 0.75, "n": 100, "n0": 10, "alpha": 0.001}
SIGMA = 0.25


class Counters(sc.Gaussian):
    """Gaussian noise with the numbers that CUDA draws, on any device, one draw after the other."""

    def draw(self, x: torch.Tensor, streams: Any) -> torch.Tensor:
        """Noisy copies of x."""
        from segcertify.sampling.kernels.philox import plus_twin
        from segcertify.sampling.streams import key_words

        return plus_twin(x, key_words(streams, x.device), "normal", self.sigma, 0.0, 0, None, x.dtype)


def speed(model: str, data: str, device: str, images: int) -> dict[str, Any]:
    """Certify the images; the first one, which also probes the model, is timed apart."""
    segmenter, scenes = sc.models.load(model).to(device).eval(), sc.data.load(data)
    smooth = sc.Smooth(segmenter, sigma=SIGMA, seed=0, device=device)
    times, certified, components = [], 0, 0
    for index in range(min(images, len(scenes))):
        start = time.perf_counter()
        scene = scenes[index]
        certificate = smooth.certify(scene.x, **SETTINGS, input_id=scene.id, progress=lambda step: None)
        times.append(time.perf_counter() - start)
        certified, components = certified + certificate.certified, components + certificate.N
    return {
        "images": len(times), "first_seconds": times[0], "seconds": sum(times[1:]),
        "images_per_second": (len(times) - 1) / sum(times[1:]), "certified": certified / components,
    }  # fmt: skip


def elsewhere(folder: Path, *arguments: str) -> dict[str, Any]:
    """`speed` in a process that runs another checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--alone"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def agreement(model: str, data: str, device: str, images: int) -> dict[str, dict[str, float]]:
    """How many pixels of the CPU's certificates are as the GPU's, with its own noise and with the GPU's numbers."""
    segmenter, scenes = sc.models.load(model).eval(), sc.data.load(data)
    found: dict[str, list[np.ndarray]] = {"its own noise": [], "the GPU's numbers": []}
    for index in range(min(images, len(scenes))):
        scene = scenes[index]
        given = {**SETTINGS, "input_id": scene.id, "progress": lambda step: None}
        there = sc.Smooth(segmenter.to(device), sc.Gaussian(SIGMA), seed=0, device=device).certify(scene.x, **given)
        segmenter.to("cpu")
        for name, noise in (("its own noise", sc.Gaussian(SIGMA)), ("the GPU's numbers", Counters(SIGMA))):
            here = sc.Smooth(segmenter, noise, seed=0, device="cpu").certify(scene.x, **given)
            both = ~here.abstained & ~there.abstained
            equal = here.labels == there.labels
            found[name].append(np.array([equal.sum(), equal.size, equal[both].sum(), both.sum()]))
    totals = {name: np.sum(counts, 0) for name, counts in found.items()}
    return {
        name: {
            "images": len(found[name]), "pixels": int(pixels), "equal": int(equal), "share": equal / pixels,
            "certified_by_both": int(both), "of_these_equal": int(certified),
        }
        for name, (equal, pixels, certified, both) in totals.items()
    }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pets")
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=10**9, help="so many at most")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--before-images", type=int, default=20, help="of the earlier version")
    parser.add_argument("--agreement", type=int, default=0, help="images that the CPU certifies too")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(speed(given.model, given.data, given.device, given.images)))
        return
    from segcertify.bench.machine import machine, versions

    values = {
        "machine": machine(torch.device(given.device)), "versions": versions(), "date": time.strftime("%Y-%m-%d"),
        "settings": {"model": given.model, "data": given.data.partition(":")[0], "sigma": SIGMA, **SETTINGS},
        "now": speed(given.model, given.data, given.device, given.images), "before": None, "agreement": None,
    }  # fmt: skip
    if given.before is not None:
        asked = "--model", given.model, "--data", given.data, "--device", given.device
        values["before"] = elsewhere(given.before, *asked, "--images", str(given.before_images))
    if given.agreement:
        values["agreement"] = agreement(given.model, given.data, given.device, given.agreement)
    print(json.dumps(values, indent=2))
    if given.json:
        given.json.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
