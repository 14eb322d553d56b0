"""Certifying a 1024 x 2048 frame with HRNetV2 (random weights): stages, bare network, released pipeline.

    python benchmarks/frames.py [--model tiny|w18|w48] [--scale 0.25 1.0] [--precision fp32 bf16] [--device cuda]
        [--baseline] [--draws 24] [--pixels 262144] [--name h200] [--out results/speed]

It is `segcertify bench` for several settings in one run. Each setting gives a file, written as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

import segcertify as sc
from segcertify.bench import cost, machine, released, tables
from segcertify.models import HRNet, MultiScale, adapt, with_precision
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture
from segcertify.sampling.segmenter import Segmenter

MODELS = {"tiny": Architecture(width=8, classes=19, blocks=1, modules=(1, 1, 1)), "w18": W18_SMALL_V2, "w48": W48}
SIGMA, SIZE = 0.25, (1024, 2048)


def segmenter(name: str, scale: float, precision: str, device: torch.device) -> Segmenter:
    """An HRNetV2 with random weights at a scale, as a user would certify it."""
    torch.manual_seed(0)
    model = MultiScale(adapt(HRNet(MODELS[name]).eval()), [scale]).eval()
    return with_precision(model.to(device), precision)


def frame() -> torch.Tensor:
    """A frame of smooth colours in [0, 1], so that labels differ between regions."""
    coarse = torch.rand(1, 3, 16, 32, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.interpolate(coarse, size=SIZE, mode="bilinear")[0]


def measure(arguments: argparse.Namespace, scale: float, precision: str, *, baseline: bool) -> dict[str, object]:
    """One setting, in plain values."""
    device = torch.device(arguments.device)
    model, x = segmenter(arguments.model, scale, precision, device), frame()
    smooth = sc.Smooth(model, sigma=SIGMA, seed=0, device=device)
    found = cost.measure(smooth, x, n=arguments.n, n0=arguments.n0, repeats=arguments.repeats)
    before = None
    if baseline:
        plain = segmenter(arguments.model, scale, "fp32", device)
        before = released.measure(
            plain, x.to(device), SIGMA, n=arguments.n, n0=arguments.n0, draws=arguments.draws, pixels=arguments.pixels
        )
    settings = {
        "model": arguments.model, "scale": scale, "input": [*x.shape], "noise": f"Gaussian(sigma={SIGMA})", "tau": 0.75,
        "alpha": 0.001, "precision": precision,
    }  # fmt: skip
    peak = tables.Peak(*machine.peak_of_products(device, precision))
    return tables.values(found, peak, before, device=device, settings=settings)


def main() -> None:
    """Measure each setting, print it, write its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--scale", type=float, nargs="+", default=[0.25])
    parser.add_argument("--precision", nargs="+", default=["fp32"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--n0", type=int, default=10)
    parser.add_argument("--baseline", action="store_true", help="also the released pipeline, once for each scale")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draws", type=int, help="of the released pipeline: draws that are made; all by default")
    parser.add_argument("--pixels", type=int, help="of the released pipeline: pixels tested one by one; all by default")
    parser.add_argument("--name", default="cpu", help="the machine's name in the files' names")
    parser.add_argument("--out", type=Path, default=Path("results/speed"), help="the folder of the files")
    arguments = parser.parse_args()
    for scale in arguments.scale:
        for precision in arguments.precision:
            first = arguments.baseline and precision == arguments.precision[0]
            values = measure(arguments, scale, precision, baseline=first)
            file = arguments.out / f"frames-{arguments.model}-scale{scale}-{precision}-{arguments.name}.json"
            file.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
            print(f"{arguments.model} at scale {scale}, {precision}", tables.stage_table(values), sep="\n", flush=True)
            if values["baseline"]:
                print(tables.baseline_table(values))
            for name, value in tables.facts(values).items():
                print(f"  {name:34} {value}", flush=True)


if __name__ == "__main__":
    main()
