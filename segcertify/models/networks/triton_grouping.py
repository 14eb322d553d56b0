"""The points' neighbours as Triton kernels, for CUDA: the same indices as `segcertify.models.networks.grouping` finds.

Each distance is (dx^2 + dy^2) + dz^2 in single precision, every step rounded by itself: the kernels are compiled
without fused multiply-adds, which would round otherwise. No program reads another cloud than its own.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,misc"

import torch
import triton
import triton.language as tl
from torch import Tensor

LARGEST = 2**14
"""How many points a cloud may have here: `farthest` keeps it in the registers of one program."""
EXACT = {"enable_fp_fusion": False}
ENTRIES = 2**12
"""How many numbers a program of `offset_features` writes."""


@triton.jit
def _farthest(xyz, start, chosen, N, S, BLOCK: tl.constexpr):
    """One program chooses all S points of one cloud, which stays in its registers with the separations."""
    cloud = tl.program_id(0).to(tl.int64)
    xyz += cloud * N * 3
    at = tl.arange(0, BLOCK)
    real = at < N
    x = tl.load(xyz + at * 3, mask=real, other=0.0)
    y = tl.load(xyz + at * 3 + 1, mask=real, other=0.0)
    z = tl.load(xyz + at * 3 + 2, mask=real, other=0.0)
    separation = tl.where(real, float("inf"), -1.0)
    last = tl.load(start + cloud).to(tl.int32)
    for i in range(S):
        tl.store(chosen + cloud * S + i, last.to(tl.int64))
        dx = x - tl.load(xyz + last * 3)
        dy = y - tl.load(xyz + last * 3 + 1)
        dz = z - tl.load(xyz + last * 3 + 2)
        separation = tl.minimum(separation, (dx * dx + dy * dy) + dz * dz)
        last = tl.argmax(separation, axis=0, tie_break_left=True).to(tl.int32)


@triton.jit
def _ball(xyz, chosen, index, size, N, S, squared_radius, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A program fills the balls of some centres of one cloud, and walks over its points in their order."""
    cloud = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real_rows = rows < S
    xyz += cloud * N * 3
    centre = tl.load(chosen + cloud * S + rows, mask=real_rows, other=0)
    cx = tl.load(xyz + centre * 3)[:, None]
    cy = tl.load(xyz + centre * 3 + 1)[:, None]
    cz = tl.load(xyz + centre * 3 + 2)[:, None]
    room = index + (cloud * S + rows) * K
    found = tl.zeros([ROWS], tl.int32)
    first = tl.zeros([ROWS], tl.int32) + N
    for begin in range(0, N, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        real = at < N
        dx = tl.load(xyz + at * 3, mask=real, other=0.0)[None, :] - cx
        dy = tl.load(xyz + at * 3 + 1, mask=real, other=0.0)[None, :] - cy
        dz = tl.load(xyz + at * 3 + 2, mask=real, other=0.0)[None, :] - cz
        inside = ((dx * dx + dy * dy) + dz * dz <= squared_radius) & real[None, :] & real_rows[:, None]
        place = found[:, None] + tl.cumsum(inside.to(tl.int32), axis=1) - 1
        value = tl.zeros([ROWS, BLOCK], tl.int32) + at[None, :]
        tl.store(room[:, None] + place, value.to(tl.int64), mask=inside & (place < K))
        first = tl.minimum(first, tl.min(tl.where(inside, value, N), axis=1))
        found += tl.sum(inside.to(tl.int32), axis=1)
    found = tl.minimum(found, K)
    tl.store(size + cloud * S + rows, found.to(tl.int64), mask=real_rows)
    filler = tl.zeros([ROWS, BLOCK], tl.int32) + tl.where(first < N, first, 0)[:, None]
    for begin in range(0, K, BLOCK):
        place = begin + tl.arange(0, BLOCK)[None, :]
        empty = (place >= found[:, None]) & (place < K) & real_rows[:, None]
        tl.store(room[:, None] + place, filler.to(tl.int64), mask=empty)


@triton.jit
def _nearest(xyz, chosen, index, N, S, BLOCK: tl.constexpr):
    """A program finds the three nearest of all S centres for some points of one cloud; of equals, the first."""
    cloud = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = at < N
    xyz += cloud * N * 3
    x = tl.load(xyz + at * 3, mask=real, other=0.0)
    y = tl.load(xyz + at * 3 + 1, mask=real, other=0.0)
    z = tl.load(xyz + at * 3 + 2, mask=real, other=0.0)
    d0 = tl.full([BLOCK], float("inf"), tl.float32)
    d1 = d0
    d2 = d0
    i0 = tl.zeros([BLOCK], tl.int32)
    i1 = i0 + 1
    i2 = i0 + 2
    for s in range(S):
        centre = tl.load(chosen + cloud * S + s)
        dx = tl.load(xyz + centre * 3) - x
        dy = tl.load(xyz + centre * 3 + 1) - y
        dz = tl.load(xyz + centre * 3 + 2) - z
        d = (dx * dx + dy * dy) + dz * dz
        best = d < d0
        second = d < d1
        third = d < d2
        d2 = tl.where(second, d1, tl.where(third, d, d2))
        i2 = tl.where(second, i1, tl.where(third, s, i2))
        d1 = tl.where(best, d0, tl.where(second, d, d1))
        i1 = tl.where(best, i0, tl.where(second, s, i1))
        d0 = tl.where(best, d, d0)
        i0 = tl.where(best, s, i0)
    room = index + (cloud * N + at) * 3
    tl.store(room, i0.to(tl.int64), mask=real)
    tl.store(room + 1, i1.to(tl.int64), mask=real)
    tl.store(room + 2, i2.to(tl.int64), mask=real)


@triton.jit
def _offset_features(
    features,
    xyz,
    centres,
    index,
    rows,
    weight,
    out,
    N,
    S,
    K,
    C,
    room,
    total,
    ENTRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program writes the first layer's output for some neighbours: the point's share, plus that of its offset."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    real = at < total
    ball = tl.load(rows + at // room, mask=real, other=0)
    cloud = ball // S
    point = cloud * N + tl.load(index + ball * K + at % room, mask=real, other=0)
    dx = (tl.load(xyz + point * 3) - tl.load(centres + ball * 3))[:, None]
    dy = (tl.load(xyz + point * 3 + 1) - tl.load(centres + ball * 3 + 1))[:, None]
    dz = (tl.load(xyz + point * 3 + 2) - tl.load(centres + ball * 3 + 2))[:, None]
    for begin in range(0, C, BLOCK):
        channel = begin + tl.arange(0, BLOCK)
        known = channel < C
        both = real[:, None] & known[None, :]
        wx = tl.load(weight + channel, mask=known, other=0.0)[None, :]
        wy = tl.load(weight + C + channel, mask=known, other=0.0)[None, :]
        wz = tl.load(weight + 2 * C + channel, mask=known, other=0.0)[None, :]
        share = tl.load(features + point[:, None] * C + channel[None, :], mask=both, other=0.0)
        value = share + ((dx * wx + dy * wy) + dz * wz)
        tl.store(out + at[:, None] * C + channel[None, :], tl.maximum(value, 0.0), mask=both)


def fits(xyz: Tensor) -> bool:
    """Whether the kernels take these clouds (B, N, 3)."""
    return xyz.dtype == torch.float32 and 0 < xyz.shape[1] <= LARGEST and len(xyz) > 0


def farthest(xyz: Tensor, count: int, start: Tensor) -> Tensor:
    """`segcertify.models.networks.grouping.farthest`, all clouds in one launch."""
    xyz = xyz.detach().contiguous()
    size, points = xyz.shape[:2]
    chosen = torch.empty(size, count, dtype=torch.int64, device=xyz.device)
    block = max(32, triton.next_power_of_2(points))
    warps = min(max(block // 256, 1), 16)
    _farthest[(size,)](xyz, start.contiguous(), chosen, points, count, BLOCK=block, num_warps=warps, **EXACT)
    return chosen


def ball(xyz: Tensor, chosen: Tensor, radius: float, most: int) -> tuple[Tensor, Tensor]:
    """`segcertify.models.networks.grouping.ball`, with one program for 8 centres."""
    xyz = xyz.detach().contiguous()
    (size, points), count = xyz.shape[:2], chosen.shape[1]
    index = torch.empty(size, count, most, dtype=torch.int64, device=xyz.device)
    sizes = torch.empty(size, count, dtype=torch.int64, device=xyz.device)
    grid = triton.cdiv(count, 8), size
    _ball[grid](xyz, chosen, index, sizes, points, count, radius**2, K=most, ROWS=8, BLOCK=128, **EXACT)
    return index, sizes


def nearest(xyz: Tensor, chosen: Tensor) -> Tensor:
    """`segcertify.models.networks.grouping.nearest`, with one program for 128 points."""
    xyz = xyz.detach().contiguous()
    (size, points), count = xyz.shape[:2], chosen.shape[1]
    index = torch.empty(size, points, 3, dtype=torch.int64, device=xyz.device)
    _nearest[(triton.cdiv(points, 128), size)](xyz, chosen, index, points, count, BLOCK=128, **EXACT)
    return index


def offset_features(
    features: Tensor, xyz: Tensor, centres: Tensor, index: Tensor, rows: Tensor, room: int, weight: Tensor
) -> Tensor:
    """max(0, features of each neighbour + weight (C, 3) times its offset from the centre): (len(rows) room, C).

    ``rows`` names balls of all clouds together, and the first ``room`` neighbours of each count.
    """
    (_, points, channels), (_, count, most) = features.shape, index.shape
    total = len(rows) * room
    out = features.new_empty(total, channels)
    block = min(triton.next_power_of_2(channels), 128)
    entries = ENTRIES // block
    arrays = (each.contiguous() for each in (features, xyz, centres, index, rows, weight.t()))
    sizes = points, count, most, channels, room, total
    _offset_features[(triton.cdiv(total, entries),)](*arrays, out, *sizes, ENTRIES=entries, BLOCK=block)
    return out
