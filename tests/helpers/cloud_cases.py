"""Small clouds that decide how neighbours are found, and the neighbours, by slow loops in NumPy.

Run as a program, it finds them with the kernels in Triton's interpreter, which a process has to choose before Triton
is imported, and writes them to the file that is named:

    TRITON_INTERPRET=1 python tests/helpers/cloud_cases.py FILE.npz

With --compile it compiles them for a GPU instead, which need not be there.
"""

import sys
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """Clouds (B, N, 3), where sampling starts, how many centres, and balls."""

    xyz: np.ndarray
    start: tuple
    count: int
    balls: tuple


def swapped(pairs, seed):
    """Twins (a, b, c) and (b, a, c): equally far from the origin, but not if a sum is rounded less than its terms."""
    points = np.random.default_rng(seed).normal(size=(pairs, 3)).astype(np.float32)
    cloud = np.concatenate([points, points[:, [1, 0, 2]]])
    cloud[0] = cloud[pairs] = 0
    return cloud


def cases():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(3, 100, 3)).astype(np.float32)
    line = np.zeros((2, 64, 3), np.float32)
    line[..., 0] = rng.permuted(np.tile(np.arange(64) / 4, (2, 1)), axis=1)
    grid = np.stack(np.meshgrid(*[np.arange(5)] * 3), -1).reshape(1, -1, 3).astype(np.float32) / 4
    drawn = np.stack([cloud[rng.integers(11, size=100)] for cloud in normal])
    origin = np.stack([swapped(32, seed) for seed in range(4)])
    exact = float(np.sqrt(float(np.square(origin[0, 5]).sum(dtype=np.float32))))
    return {
        "random": Case(normal, (0, 99, 17), 20, ((0.01, 4), (0.7, 8), (1.2, 100), (9.0, 5))),
        "one cloud": Case(normal[1:2], (99,), 20, ((0.7, 8),)),
        "many clouds": Case(rng.normal(size=(19, 40, 3)).astype(np.float32), tuple(range(19)), 9, ((0.9, 12),)),
        "drawn from few": Case(drawn, (5, 6, 7), 20, ((0.7, 8), (9.0, 100))),
        "one point only": Case(np.ones((2, 33, 3), np.float32), (32, 3), 5, ((0.1, 4), (0.2, 64))),
        "a line": Case(line, (3, 60), 33, ((0.25, 2), (0.5, 7), (3.0, 16))),  # distances equal to radii
        "a grid": Case(grid, (62,), 34, ((0.25, 3), (0.5, 40))),
        "far from the origin": Case(normal + np.float32(1000), (1, 2, 3), 20, ((0.5, 8),)),
        "sums of rounded squares": Case(origin, (0, 0, 0, 0), 40, ((exact, 70), (1.0, 8))),
        "lonely points": Case(normal * 1000, (0, 1, 2), 30, ((0.5, 6),)),
        "three centres": Case(normal[:, :37], (36, 0, 5), 3, ((1.0, 37),)),
    }


def squared(a, b):
    """All squared distances (len(a), len(b)), in the order of additions that the code has."""
    difference = (np.asarray(a)[:, None] - np.asarray(b)[None]) ** 2
    return difference[..., 0] + difference[..., 1] + difference[..., 2]


def slow_farthest(xyz, count, start):
    chosen = [start]
    while len(chosen) < count:
        chosen.append(int(squared(xyz, xyz[chosen]).min(1).argmax()))
    return chosen


def slow_ball(centre, xyz, radius, most):
    """The ball's indices, and how many are no copies."""
    within = np.float32(radius**2)
    inside = [j for j, distance in enumerate(squared([centre], xyz)[0]) if distance <= within][:most]
    return inside + inside[:1] * (most - len(inside)), len(inside)


def slow_nearest(xyz, centres):
    return np.argsort(squared(xyz, centres), axis=1, kind="stable")[:, :3]


def slow(case):
    """All neighbours, in the order of `found`."""
    chosen = [slow_farthest(cloud, case.count, first) for cloud, first in zip(case.xyz, case.start, strict=True)]
    balls = []
    for radius, most in case.balls:
        each = [
            [slow_ball(cloud[centre], cloud, radius, most) for centre in centres]
            for cloud, centres in zip(case.xyz, chosen, strict=True)
        ]
        balls += [np.array([[ball[part] for ball in cloud] for cloud in each]) for part in (0, 1)]
    nearest = [slow_nearest(cloud, cloud[centres]) for cloud, centres in zip(case.xyz, chosen, strict=True)]
    return [np.array(chosen), *balls, np.array(nearest)]


def found(near):
    """Chosen points, each ball's indices and sizes, and nearest centres, as arrays."""
    arrays = [near.chosen, *(each for ball in near.balls for each in ball), near.nearest]
    return [each.cpu().numpy() for each in arrays]


def by_functions(module, case, device="cpu"):
    """The neighbours by a module's functions `farthest`, `ball` and `nearest`."""
    import torch

    from segcertify.models.networks.grouping import Ball, Neighbours

    xyz = torch.from_numpy(case.xyz).to(device)
    chosen = module.farthest(xyz, case.count, torch.tensor(case.start, device=device))
    balls = [Ball(*module.ball(xyz, chosen, *each)) for each in case.balls]
    return found(Neighbours(chosen, balls, module.nearest(xyz, chosen)))


def first_layers():
    """Arguments of `offset_features`: points' features and coordinates, centres, balls, some of them, and a weight."""
    import torch

    draw = torch.Generator().manual_seed(0)
    for channels, most, room in ((20, 8, 5), (64, 16, 16), (150, 4, 1)):
        arrays = (torch.rand(size, generator=draw) for size in ((2, 50, channels), (2, 50, 3), (2, 9, 3)))
        index = torch.randint(50, (2, 9, most), generator=draw)
        yield (
            *arrays,
            index,
            torch.randperm(18, generator=draw)[:7],
            room,
            torch.rand(channels, 3, generator=draw) - 0.5,
        )


def interpret(file):
    """Write what the kernels find, and which of them are trusted."""
    import torch

    from segcertify.models.networks import triton_grouping
    from segcertify.models.networks.trusted_kernels import trusted

    arrays = {f"{name}:{i}": each for name, case in cases().items()
              for i, each in enumerate(by_functions(triton_grouping, case))}  # fmt: skip
    for i, arguments in enumerate(first_layers()):
        arrays[f"first layer:{i}"] = triton_grouping.offset_features(*arguments).numpy()
    asked = ("farthest", 100), ("farthest", 512), ("ball", 32), ("ball", 128), ("nearest", 0), ("offset_features", 64)
    right = [trusted(triton_grouping, name, torch.device("cpu"), size) for name, size in asked]
    np.savez(file, trusted=np.array(right), **arrays)


def compile_kernels():
    """Compile the kernels for a GPU of compute capability 9.0, and print how many multiply-adds each one fuses."""
    import inspect

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from segcertify.models.networks import triton_grouping

    constants = {"K": 128, "ROWS": 8, "BLOCK": 128, "ENTRIES": 64}
    kinds = {"xyz": "*fp32", "features": "*fp32", "centres": "*fp32", "weight": "*fp32", "out": "*fp32",
             "start": "*i64", "chosen": "*i64", "index": "*i64", "size": "*i64", "rows": "*i64",
             "squared_radius": "fp32"}  # fmt: skip
    for name in ("_farthest", "_ball", "_nearest", "_offset_features"):
        function = getattr(triton_grouping, name)
        parameters = inspect.signature(function.fn).parameters.values()
        fixed = [each.name for each in parameters if "constexpr" in str(each.annotation)]
        signature = {each.name: "constexpr" if each.name in fixed else kinds.get(each.name, "i32")
                     for each in parameters}  # fmt: skip
        values = {(list(signature).index(each),): constants[each] for each in fixed}
        options = {} if name == "_offset_features" else triton_grouping.EXACT
        source = ASTSource(function, signature, values)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        print(name, made.asm["ptx"].count("fma.rn"))


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        compile_kernels()
    else:
        interpret(sys.argv[1])
