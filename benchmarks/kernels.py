"""The fused kernels on a GPU: equal to their twins, then their times and bandwidths at 1024 x 2048, 19 classes.

    python benchmarks/kernels.py [--draws 10 100] [--times-only] [--json FILE]

Noise is timed at full size and resized to a quarter; counting at scores of 256 x 512. Bandwidth is that of what must be
read and written at least, beside that of a plain copy in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path

import torch

from segcertify.bench.machine import machine, versions
from segcertify.sampling.kernels import philox, scores
from segcertify.sampling.kernels.scores import Scores

SIZE, CLASSES, COARSE = (1024, 2048), 19, (256, 512)


def milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """The median time of a piece of work on the device, after a first run."""
    work()
    found = []
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


def noise_differs() -> dict[str, float]:
    """The largest difference of noise from its twin, at full size and resized."""
    x, keys = torch.rand(3, 61, 83, device="cuda"), torch.randint(-(2**31), 2**31, (5, 4), device="cuda").int()
    found = {}
    for law, size in (
        ("normal", None),
        ("normal", (15, 21)),
        ("normal", (100, 90)),
        ("laplace", None),
        ("uniform", None),
    ):
        ours = philox.plus(x, keys, law, 0.25, shift=-0.5, call=3, size=size)
        twin = philox.plus_twin(x, keys, law, 0.25, -0.5, 3, size, x.dtype)
        found[f"{law} {size or 'full'}"] = float((ours - twin).abs().max())
    return found


CASES = [
    ((12, 17), (48, 68), torch.float32, True), ((12, 17), (48, 68), torch.float32, False),
    ((12, 17), (31, 40), torch.float32, True), ((12, 17), (31, 40), torch.float32, False),
    ((12, 17), (12, 17), torch.float32, False), ((9, 300), (36, 1200), torch.bfloat16, False),
    ((9, 300), (18, 600), torch.float32, False),
]  # fmt: skip
"""Scores' size, image's size, precision, and whether they are logarithms; labels and class counts of the first ones."""


def labels_differ() -> dict[str, str]:
    """How many labels and counts differ from the twin's, and whether bad scores are seen."""
    found = {}
    for case, (coarse, size, dtype, logs) in enumerate(CASES):
        values = (4 * torch.randn(6, 7, *coarse, device="cuda")).to(dtype)
        if logs:
            values[0] *= 30
            values[1, 2] = -torch.inf
        values = values.to(memory_format=torch.channels_last)
        asked, bad = Scores(values, size, logs), torch.zeros(1, dtype=torch.int32, device="cuda")
        twin = scores.labels_twin(asked, bad.clone())
        candidate = twin[0].to(torch.int16)
        agree = torch.ones(size, dtype=torch.uint8, device="cuda")
        scores.add_agreement(asked, candidate, agree, bad)
        differ = {"agreement": int((agree != 1 + (twin == candidate).sum(0)).sum())}
        if case < 4:
            counts = torch.ones(9, *size, dtype=torch.uint8, device="cuda")
            scores.add_class_counts(asked, counts, bad)
            right = torch.ones_like(counts).scatter_add_(0, twin, counts.new_ones(twin.shape))
            differ["counts"] = int((counts != right).any(0).sum())
            differ["labels"] = int((scores.label_maps(asked, bad) != twin).sum())
        fine = not int(bad)
        values[3, 1, -1, -2] = torch.nan
        scores.add_agreement(asked, candidate, agree, bad)
        seen = "ok" if fine and bool(int(bad)) else "WRONG"
        key = f"{coarse} {size} {str(dtype)[6:]}{' logs' if logs else ''}"
        found[key] = f"differ in {differ} of {twin.numel()}, flag {seen}"
    return found


def times(draws: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each stage for so many draws, and GB/s of what it must read and write."""
    keys = torch.randint(-(2**31), 2**31, (draws, 4), device="cuda").int()
    x = torch.rand(3, *SIZE, device="cuda")
    bad, pixels = torch.zeros(1, dtype=torch.int32, device="cuda"), SIZE[0] * SIZE[1]
    logits = torch.randn(draws, CLASSES, *COARSE, device="cuda")
    candidate = torch.randint(CLASSES, SIZE, device="cuda").to(torch.int16)
    agree, counts = (torch.zeros(*more, *SIZE, dtype=torch.uint8, device="cuda") for more in ((), (CLASSES,)))
    coarse, half = logits.nbytes, logits.bfloat16()
    stages: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (logits.clone, 2 * coarse),
        "noise, full": (lambda: philox.plus(x, keys, "normal", 0.25), draws * x.nbytes),
        "noise, resized": (lambda: philox.plus(x, keys, "normal", 0.25, size=COARSE), draws * x.nbytes // 16),
        "noise by torch.randn": (lambda: torch.randn(draws, *x.shape, device="cuda"), draws * x.nbytes),
        "agreement": (lambda: scores.add_agreement(Scores(logits, SIZE), candidate, agree, bad), coarse),
        "agreement of logs": (lambda: scores.add_agreement(Scores(logits, SIZE, True), candidate, agree, bad), coarse),
        "agreement, bf16": (lambda: scores.add_agreement(Scores(half, SIZE), candidate, agree, bad), coarse // 2),
        "class counts": (lambda: scores.add_class_counts(Scores(logits, SIZE), counts, bad), coarse),
        "label maps": (lambda: scores.label_maps(Scores(logits, SIZE), bad), coarse + 8 * draws * pixels),
        "agreement, 3/8": (
            lambda: scores.add_agreement(Scores(logits[..., :192, :384], SIZE), candidate, agree, bad), coarse * 9 // 16
        ),
    }  # fmt: skip
    found = {}
    for name, (work, nbytes) in stages.items():
        try:
            took = milliseconds(work)
        except Exception as error:  # one failing stage must not lose the others
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            continue
        found[name] = {"milliseconds": round(took, 3), "GB/s": round(nbytes / took / 1e6, 1)}
        torch.cuda.empty_cache()
    return found


def main() -> None:
    """Check, then time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--times-only", action="store_true", help="leave out the comparison with the twins")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    numbers: dict[str, object] = {
        "machine": machine(torch.device("cuda")), "versions": versions(), "date": date.today().isoformat(),
        "settings": {"draws": arguments.draws, "image": SIZE, "classes": CLASSES, "scores": COARSE},
    }  # fmt: skip
    parts: dict[str, Callable[[], Mapping[str, object]]] = {"noise": noise_differs, "labels": labels_differ}
    parts = {} if arguments.times_only else parts
    for name, work in (parts | {f"{n} draws": partial(times, n) for n in arguments.draws}).items():
        found = numbers[name] = work()
        print(name)
        for key, value in found.items():
            print(f"    {key:40} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
