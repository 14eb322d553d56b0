"""Certifying clouds of 2,048 points with PointNet++: our operations beside the plain loops of public code, in one run.

    python benchmarks/clouds.py [--device cuda] [--batch 10] [--draws 110] [--before FOLDER] [--json FILE]

The baseline is PointNet++ as public PyTorch code has it, in our own words: farthest points by a loop over samples,
balls by sorting all indices, neighbours copied out before every layer, nearest centres by sorting all distances. It is
timed twice, with the whole batch and with one cloud at a time. ``--before`` names a checkout of an earlier version of
segcertify, which is timed in turns with this one. Times are medians, of the device once it has finished.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv1d, conv2d, linear, log_softmax, one_hot

import segcertify as sc
from segcertify.models.networks import grouping
from segcertify.models.networks.pointnet2 import CENTRES, SCALES, PointNet2

SIGMA, CATEGORY = 0.25, 4


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances (B, len a, len b), expanded into products as the public code does."""
    return (a**2).sum(-1)[:, :, None] + (b**2).sum(-1)[:, None] - 2 * a @ b.transpose(1, 2)


def rows(values: Tensor, index: Tensor) -> Tensor:
    """The rows of values (B, N, C) that an index (B, ...) names."""
    batch = torch.arange(len(values), device=values.device).view(-1, *(1,) * (index.ndim - 1))
    return values[batch.expand_as(index), index]


def plain_farthest(xyz: Tensor, count: int, start: Tensor) -> Tensor:
    """Farthest points, one after the other."""
    chosen = torch.zeros(len(xyz), count, dtype=torch.int64, device=xyz.device)
    left = torch.full(xyz.shape[:2], 1e10, device=xyz.device)
    for i in range(count):
        chosen[:, i] = start
        apart = ((xyz - rows(xyz, start[:, None])) ** 2).sum(-1)
        left = torch.where(apart < left, apart, left)
        start = left.max(-1).indices
    return chosen


def plain_ball(xyz: Tensor, centres: Tensor, radius: float, most: int) -> Tensor:
    """The first points within a radius, by a sort of all indices."""
    places = torch.arange(xyz.shape[1], device=xyz.device).expand(*centres.shape[:2], -1).clone()
    places[distances(centres, xyz) > radius**2] = xyz.shape[1]
    places = places.sort(-1).values[..., :most]
    return torch.where(places == xyz.shape[1], places[..., :1], places)


def plain_group(xyz: Tensor, features: Tensor, centres: Tensor, index: Tensor) -> Tensor:
    """Each neighbour's features and its offset from the centre: (B, S, K, C + 3)."""
    return torch.cat([rows(features, index), rows(xyz, index) - centres[:, :, None]], -1)


def plain_interpolate(features: Tensor, centres: Tensor, xyz: Tensor) -> Tensor:
    """The features of the three nearest centres, by a sort of all distances."""
    apart, index = distances(xyz, centres).sort(-1)
    weights = 1 / (apart[..., :3] + 1e-8)
    return (rows(features, index[..., :3]) * (weights / weights.sum(-1, keepdim=True))[..., None]).sum(2)


def plain_network(model: PointNet2, points: Tensor, start: int = 0) -> Tensor:
    """The scores (B, parts, N) of the public network with the model's weights, channels first."""
    state = model.state_dict()

    def step(x: Tensor, conv: str, norm: str) -> Tensor:
        convolve = conv2d if state[f"{conv}.weight"].ndim == 4 else conv1d
        x = convolve(x, state[f"{conv}.weight"], state[f"{conv}.bias"])
        means = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        return batch_norm(x, *means, state[f"{norm}.weight"], state[f"{norm}.bias"]).relu()

    def layers(name: str, x: Tensor, count: int) -> Tensor:
        for j in range(count):
            x = step(x, f"{name}.mlp_convs.{j}", f"{name}.mlp_bns.{j}")
        return x

    def group(name: str, xyz: Tensor, features: Tensor, level: int) -> tuple[Tensor, Tensor]:
        first = torch.full(xyz.shape[:1], start, dtype=torch.int64, device=xyz.device)
        centres = rows(xyz, plain_farthest(xyz, CENTRES[level], first))
        found = []
        for i, scale in enumerate(SCALES[level]):
            index = plain_ball(xyz, centres, scale.radius, scale.most)
            x = plain_group(xyz, features, centres, index).permute(0, 3, 2, 1)
            for j in range(3):
                x = step(x, f"{name}.conv_blocks.{i}.{j}", f"{name}.bn_blocks.{i}.{j}")
            found.append(x.amax(2))
        return centres, torch.cat(found, 1).transpose(1, 2)

    xyz = points[..., :3]
    fine_xyz, fine = group("sa1", xyz, points, 0)
    coarse_xyz, coarse = group("sa2", fine_xyz, fine, 1)
    whole = layers("sa3", torch.cat([coarse_xyz, coarse], -1).transpose(1, 2)[..., None], 3).amax(2)
    x = layers("fp3", torch.cat([coarse.transpose(1, 2), whole.expand(-1, -1, CENTRES[1])], 1), 2).transpose(1, 2)
    x = torch.cat([fine, plain_interpolate(x, coarse_xyz, fine_xyz)], -1).transpose(1, 2)
    x = plain_interpolate(layers("fp2", x, 2).transpose(1, 2), fine_xyz, xyz)
    kind = torch.full((len(xyz),), CATEGORY, device=xyz.device)
    kind = one_hot(kind, model.categories).to(points)[:, None].expand(-1, points.shape[1], -1)
    x = layers("fp1", torch.cat([kind, xyz, points, x], -1).transpose(1, 2), 2)
    x = conv1d(step(x, "conv1", "bn1"), state["conv2.weight"], state["conv2.bias"])
    return log_softmax(x, 1)


def scene() -> Tensor:
    """A bundled chair: (2048, 6), with normals."""
    return torch.from_numpy(sc.data.load("shapes:?category=Chair&count=1&normals=true")[0].x).float()


def noisy(count: int) -> Tensor:
    """As many noisy copies of the chair, with noise on x, y and z."""
    clouds = scene().repeat(count, 1, 1)
    clouds[..., :3] += SIGMA * torch.randn(count, 2048, 3, generator=torch.Generator().manual_seed(0))
    return clouds


def seconds(work: Callable[[], Any], device: str, repeats: int = 3) -> float:
    """The median time of some calls, after one that is not counted: it may compile, or fill caches."""
    times = []
    for _ in range(repeats + (repeats > 1 or device == "cuda")):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:] or times)


def smoothed(model: sc.models.PartSegmenter, device: str, draws: int) -> Callable[[], Any]:
    """What certifies the chair; a tenth of the n draws are pilots."""
    smooth = sc.Smooth(model, sc.Gaussian(SIGMA, (0, 1, 2), 1), seed=0, device=device)
    x, n0 = scene(), draws // 11
    return lambda: smooth.certify(x, tau=0.75, n=draws - n0, n0=n0)


def plain_votes(model: PointNet2, device: str, draws: int, batch: int) -> None:
    """The public code's way to the votes: noise on the host, all label maps kept there, then counted."""
    x, labels = scene(), []
    for first in range(0, draws, batch):
        clouds = x.repeat(min(batch, draws - first), 1, 1)
        clouds[..., :3] += SIGMA * torch.randn(*clouds.shape[:2], 3)
        labels.append(plain_network(model, clouds.to(device)).argmax(1).cpu())
    maps = torch.cat(labels)
    n0 = max(1, draws // 11)
    (maps[n0:] == maps[:n0].mode(0).values).sum(0)


Work = dict[str, tuple[Callable[[], Any], Callable[[int], Any]]]


def operations(model: PointNet2, fast: Callable[..., Tensor], clouds: Tensor) -> tuple[Work, dict[str, float]]:
    """Each operation, ours on all clouds and the plain one on so many, and how many indices are the same.

    ``fast`` is the network as sampling runs it.
    """
    from segcertify.models.networks.trusted_kernels import kernel  # earlier versions have none

    xyz, start = clouds[..., :3].contiguous(), torch.zeros(len(clouds), dtype=torch.int64, device=clouds.device)
    scales, count = [(scale.radius, scale.most) for scale in SCALES[0]], CENTRES[0]
    chosen, balls, _ = grouping.neighbours(xyz, count, start, scales)
    centres, index = grouping.gather(xyz, chosen), balls[-1].points
    fine = torch.rand(*centres.shape[:2], 128, device=xyz.device)
    weight, bias = torch.rand(64, 9, device=xyz.device), torch.rand(64, device=xyz.device)

    def plain_neighbours(b: int) -> None:
        found = rows(xyz[:b], plain_farthest(xyz[:b], count, start[:b]))
        for scale in scales:
            plain_ball(xyz[:b], found, *scale)
        distances(xyz[:b], found).sort(-1)

    def first_layer() -> None:
        each = torch.arange(index.shape[0] * index.shape[1], device=xyz.device)
        points = linear(clouds, weight[:, :-3], bias)
        fused(points, xyz, centres, index, each, index.shape[2], weight[:, -3:])

    work: Work = {
        "all neighbours of the first level": (
            lambda: grouping.neighbours(xyz, count, start, scales), plain_neighbours),
        "network": (
            lambda: fast(clouds, [CATEGORY] * len(clouds), seeds=list(range(len(clouds)))),
            lambda b: plain_network(model, clouds[:b])),
    }  # fmt: skip
    if (fused := kernel("offset_features", xyz, 64)) is not None:  # a CPU does these in one step
        work |= {
            "farthest points": (
                lambda: grouping.farthest(xyz, count, start), lambda b: plain_farthest(xyz[:b], count, start[:b])),
            "three balls": (
                lambda: [grouping.ball(xyz, chosen, *scale) for scale in scales],
                lambda b: [plain_ball(xyz[:b], centres[:b], *scale) for scale in scales]),
            "grouping and first layer": (
                first_layer,
                lambda b: linear(plain_group(xyz[:b], clouds[:b], centres[:b], index[:b]), weight, bias).relu_()),
            "nearest and interpolation": (
                lambda: grouping.interpolate(fine, centres, xyz, grouping.nearest(xyz, chosen)),
                lambda b: plain_interpolate(fine[:b], centres[:b], xyz[:b])),
        }  # fmt: skip
    same = {
        "farthest points": (chosen == plain_farthest(xyz, count, start)).float().mean().item(),
        "largest ball": (index == plain_ball(xyz, centres, *scales[-1])).float().mean().item(),
    }
    return work, same


def compared(device: str, batch: int, draws: int) -> dict[str, Any]:
    """Every operation and the certified cloud: seconds, and how many times as fast as the plain ones."""
    segmenter = sc.models.load("parts?category=Chair&runs=1").to(device)
    fast, clouds = as_sampled(segmenter).model, noisy(batch).to(device)
    work, same = operations(segmenter.model, fast, clouds)
    work[f"certified cloud, {draws} draws"] = (
        smoothed(segmenter, device, draws),
        lambda b: plain_votes(segmenter.model, device, draws if b > 1 else 1, b),
    )
    found: dict[str, Any] = {}
    for name, (ours, plain) in work.items():
        alone = draws if name.startswith("certified") else batch
        with torch.no_grad():
            times = {
                "ours": seconds(ours, device),
                "plain": seconds(lambda plain=plain: plain(batch), device, 1),  # type: ignore[misc]
                "plain, one cloud at a time": seconds(lambda plain=plain: plain(1), device) * alone,  # type: ignore[misc]
            }
        times["times as fast"] = times["plain"] / times["ours"]
        times["times as fast as one at a time"] = times["plain, one cloud at a time"] / times["ours"]
        found[name] = times
        print(f"{name:36}", "  ".join(f"{key} {value:.4g}" for key, value in times.items()), flush=True)
    bound = least_seconds(fast, clouds) if device == "cpu" else {}
    return {"batch": batch, "indices_equal_to_the_plain": same, "operations": found, **bound}


def as_sampled(segmenter: sc.models.PartSegmenter) -> sc.models.PartSegmenter:
    """The faster copy that sampling runs; earlier versions have none."""
    return segmenter.for_sampling() if hasattr(segmenter, "for_sampling") else segmenter


def least_seconds(fast: Callable[..., Tensor], clouds: Tensor) -> dict[str, Any]:
    """What a cloud's matrix products take at the processor's peak, of which nothing else is part: no code is faster."""
    from segcertify.bench.machine import peak_of_products
    from segcertify.models.networks import fused_linear

    operations, product = 0, fused_linear._onednn

    def counted(layer: Any, x: Tensor, activation: Any) -> Tensor:
        nonlocal operations
        operations += 2 * x.numel() * len(layer.weight)
        return product(layer, x, activation)

    with mock.patch.object(fused_linear, "_onednn", counted), torch.no_grad():
        fast(clouds, [CATEGORY] * len(clouds), seeds=list(range(len(clouds))))
    gflop, (_, tflops) = operations / len(clouds) / 1e9, peak_of_products(torch.device("cpu"), "fp32")
    least = {"gflop": gflop, "peak_gflops": 1000 * tflops, "seconds": gflop / 1000 / tflops}
    return {"products of a cloud at the peak": least}


def timed_alone(batch: int, draws: int) -> dict[str, float]:
    """This version's seconds a cloud on a CPU, for a comparison of versions: also of those with other functions."""
    segmenter, clouds = sc.models.load("parts?category=Chair&runs=1"), noisy(batch)
    fast = as_sampled(segmenter).model
    xyz, start = clouds[..., :3].contiguous(), torch.zeros(batch, dtype=torch.int64)

    def neighbours() -> None:
        points: Tensor = xyz
        for count, level in zip(CENTRES, SCALES, strict=True):
            scales = [(scale.radius, scale.most) for scale in level]
            if hasattr(grouping, "neighbours"):
                chosen = grouping.neighbours(points, count, start, scales).chosen
            else:
                chosen, apart = grouping.farthest(points, count, start)
                for scale in scales:
                    grouping.ball(apart, *scale)
                grouping.nearest(apart)
            points = grouping.gather(points, chosen)

    with torch.no_grad():
        network = seconds(lambda: fast(clouds, [CATEGORY] * batch, seeds=list(range(batch))), "cpu")
        return {
            "neighbours of both levels": seconds(neighbours, "cpu") / batch,
            "network": network / batch,
            f"certified cloud, {draws} draws": seconds(smoothed(segmenter, "cpu", draws), "cpu", 1),
        }


def before_and_now(before: Path, arguments: list[str], rounds: int) -> dict[str, Any]:
    """An earlier version and this one in turns, each in a process of its own: the least of each one's times."""
    found: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    for _ in range(rounds):
        for name, folder in (("before", before), ("now", Path(__file__).parents[1])):
            environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
            command = [sys.executable, __file__, "--alone", *arguments]
            printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[name].append(json.loads(printed))
            print(name, printed.strip(), flush=True)
    least = {name: {key: min(each[key] for each in times) for key in times[0]} for name, times in found.items()}
    return {**least, "times as fast": {key: least["before"][key] / least["now"][key] for key in least["now"]}}


def write(numbers: dict[str, Any], file: Path | None) -> None:
    """Keep what is known so far."""
    if file:
        file.write_text(json.dumps(numbers, indent=2) + "\n")


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=10, help="clouds at once, two at least")
    parser.add_argument("--draws", type=int, default=110)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--rounds", type=int, default=3, help="of both versions")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.alone:
        print(json.dumps(timed_alone(given.batch, given.draws)))
        return
    from segcertify.bench.machine import machine, versions  # not of the version before

    numbers: dict[str, Any] = {
        "machine": machine(torch.device(given.device)), "versions": versions(), "date": date.today().isoformat(),
        "settings": {"batch": given.batch, "draws": given.draws, "rounds": given.rounds},
    }  # fmt: skip
    if given.before:
        same = ["--batch", str(given.batch), "--draws", str(given.draws), "--threads", str(given.threads)]
        numbers["before and now, seconds a cloud"] = before_and_now(given.before, same, given.rounds)
        numbers["load"] = os.getloadavg()
        write(numbers, given.json)
    numbers |= compared(given.device, given.batch, given.draws)
    numbers["load"] = os.getloadavg()
    write(numbers, given.json)
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
