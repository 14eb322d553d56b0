"""Certifying a 1024 x 2048 frame with HRNetV2 (random weights): stages, bare network, released pipeline.

    python benchmarks/frames.py [--model tiny|w18|w48] [--scale 0.25 1.0] [--precision fp32 bf16] [--device cuda]
        [--baseline] [--compiled] [--draws 24] [--pixels 262144] [--name h200] [--out results/speed]

It is `segcertify bench` for several settings in one run. Each setting gives a file, written as soon as it is measured.
``--compiled`` also times the bare network as `torch.compile` makes it of the folded one, on the same batches.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # torch is not imported here: the released pipeline's processes import this file again
    import torch

    from segcertify.sampling.segmenter import Segmenter
    from segcertify.sampling.smooth import Smooth

ARCHITECTURES = {
    "tiny": {"width": 8, "blocks": 1, "modules": (1, 1, 1)},
    "w18": {"width": 18, "blocks": 2, "modules": (1, 3, 2)},
    "w48": {},
}
SIGMA, SIZE = 0.25, (1024, 2048)


def segmenter(name: str, scale: float, precision: str, device: torch.device) -> Segmenter:
    """An HRNetV2 with random weights at a scale, sampled by a faster copy as loaded models are."""
    import torch

    from segcertify.models import HRNet, MultiScale, adapt, with_precision
    from segcertify.models.networks.hrnet import Architecture

    torch.manual_seed(0)
    model = MultiScale(adapt(HRNet(Architecture(**ARCHITECTURES[name])).eval()), [scale]).eval()
    loaded = with_precision(model.to(device), precision)
    loaded.fast = True
    return loaded


def frame() -> torch.Tensor:
    """A frame of smooth colours in [0, 1], so that labels differ between regions."""
    import torch

    coarse = torch.rand(1, 3, 16, 32, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.interpolate(coarse, size=SIZE, mode="bilinear")[0]


def measured(arguments: argparse.Namespace, scale: float, precision: str) -> Iterator[dict[str, Any]]:
    """One setting in plain values, and again with the released pipeline, if that is wanted in this precision."""
    import torch

    import segcertify as sc
    from segcertify.bench import cost, machine, released, tables

    device, x = torch.device(arguments.device), frame()
    smooth = sc.Smooth(segmenter(arguments.model, scale, precision, device), sigma=SIGMA, seed=0, device=device)
    draws = {"n": arguments.n, "n0": arguments.n0}
    found = cost.measure(smooth, x, **draws, repeats=arguments.repeats)
    peak = tables.Peak(*machine.peak_of_products(device, precision))
    settings = {
        "model": arguments.model, "scale": scale, "input": [*x.shape], "noise": f"Gaussian(sigma={SIGMA})", "tau": 0.75,
        "alpha": 0.001, "precision": precision,
    }  # fmt: skip
    more = {"compiled": compiled(smooth, x, scale, precision, arguments) if arguments.compiled else None}
    yield tables.values(found, peak, None, device=device, settings=settings) | more
    if arguments.baseline and precision == arguments.precision[0]:
        del smooth
        plain = segmenter(arguments.model, scale, "fp32", device)
        limits = {"draws": arguments.draws, "pixels": arguments.pixels}
        before = released.measure(plain, x.to(device), SIGMA, **draws, **limits)
        yield tables.values(found, peak, before, device=device, settings=settings) | more


def compiled(
    smooth: Smooth, x: torch.Tensor, scale: float, precision: str, arguments: argparse.Namespace
) -> dict[str, float]:
    """The bare network, folded, channels last and compiled: the median of its passes over the same batches."""
    import torch

    from segcertify.bench import network
    from segcertify.bench.cost import passes, repeated
    from segcertify.models import optimised
    from segcertify.models.wrappers.wrapper import unwrapped
    from segcertify.sampling.partition import evenly

    device, draws = torch.device(arguments.device), smooth.draws(x)
    made = optimised(segmenter(arguments.model, scale, precision, device), precision=precision, compile=True)
    inner = unwrapped(made)
    calls = [
        [replace(call, network=inner) for call in batch]
        for batch in passes(draws, evenly(arguments.n0 + arguments.n, draws.most))
    ]
    start = time.perf_counter()
    network.run(calls, device)
    preparing = time.perf_counter() - start
    times = repeated(device, lambda: network.run(calls, device), arguments.repeats)
    return {"network_seconds": statistics.median(times), "preparing_seconds": preparing}


def main() -> None:
    """Measure each setting, print it, write its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=ARCHITECTURES, default="tiny")
    parser.add_argument("--scale", type=float, nargs="+", default=[0.25])
    parser.add_argument("--precision", nargs="+", default=["fp32"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--n0", type=int, default=10)
    parser.add_argument("--baseline", action="store_true", help="also the released pipeline, once for each scale")
    parser.add_argument("--compiled", action="store_true", help="also the bare network, compiled")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--draws", type=int, help="of the released pipeline: draws that are made; all by default")
    parser.add_argument("--pixels", type=int, help="of the released pipeline: pixels tested one by one; all by default")
    parser.add_argument("--name", default="cpu", help="the machine's name in the files' names")
    parser.add_argument("--out", type=Path, default=Path("results/speed"), help="the folder of the files")
    arguments = parser.parse_args()
    for scale, precision in itertools.product(arguments.scale, arguments.precision):
        file = arguments.out / f"frames-{arguments.model}-scale{scale}-{precision}-{arguments.name}.json"
        for values in measured(arguments, scale, precision):
            file.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
            show(f"{arguments.model} at scale {scale}, {precision}", values)


def show(title: str, values: dict[str, Any]) -> None:
    """Print a measurement."""
    from segcertify.bench import tables

    print(title, tables.stage_table(values) if values["baseline"] is None else tables.baseline_table(values), sep="\n")
    for name, value in tables.facts(values).items():
        print(f"  {name:34} {value}", flush=True)
    if values["compiled"] is not None:
        seconds = values["compiled"]["network_seconds"]
        ratio = values["total_seconds"] / seconds
        print(
            f"  {'bare network, compiled':34} {tables.duration(seconds)}: ours takes {ratio:.2f} times as long",
            flush=True,
        )


if __name__ == "__main__":
    main()
