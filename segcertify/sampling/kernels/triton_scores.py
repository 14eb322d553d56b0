# mypy: ignore-errors
"""`scores` as Triton kernels: a program owns a tile of pixels and goes through all draws and classes.

Where an image is 2, 4, 8 or 16 times as large as the scores, a thread takes the pixels between four neighbouring
scores (a cell), reads these once, and weights are constants. Else a thread takes one pixel.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from segcertify.sampling.kernels.fused import on_device_of
from segcertify.sampling.kernels.scores import FACTORS, Scores

BLOCK = 128
SIZES = ["sb", "sc", "sh", "sw", "draws", "classes", "h", "w", "height", "width"]
"""One compiled kernel serves all sizes."""


def add_agreement(scores: Scores, candidate: torch.Tensor, agree: torch.Tensor, bad: torch.Tensor) -> None:
    """`scores.add_agreement`."""
    _run(_add_agreement, scores, (candidate, agree, bad))


def add_class_counts(scores: Scores, counts: torch.Tensor, bad: torch.Tensor) -> None:
    """`scores.add_class_counts`."""
    _run(_add_class_counts, scores, (counts, bad))


def label_maps(scores: Scores, bad: torch.Tensor) -> torch.Tensor:
    """The labels (B, H, W), in int16."""
    out = torch.empty((len(scores.values), *scores.size), dtype=torch.int16, device=scores.values.device)
    _run(_label_maps, scores, (out, bad))
    return out


def _run(kernel: triton.JITFunction, scores: Scores, results: tuple[torch.Tensor, ...]) -> None:
    """Launch a kernel on all tiles of the image."""
    values, (height, width) = scores.values, scores.size
    draws, classes, h, w = values.shape
    factor = scores.factor
    rows = FACTORS[factor] if factor else 1
    cells = (w + 1) * (h + 1) * factor // rows if factor else width * height
    with on_device_of(values):
        kernel[(triton.cdiv(cells, BLOCK),)](
            values, *values.stride(), *results, draws, classes, h, w, height, width, h / height, w / width,
            LOGS=scores.logs, FACTOR=factor, ROWS=rows, BLOCK=BLOCK,
        )  # fmt: skip


@triton.jit
def _source(at, ratio, side):
    """The two source indices of a target index and the weight of the second, as torch has them."""
    where = tl.maximum((at + 0.5) * ratio - 0.5, 0.0)
    low = tl.minimum(where.to(tl.int32), side - 1)
    return low, tl.minimum(low + 1, side - 1), where - low


@triton.jit
def _tile(h, w, height, width, down, across, FACTOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Of this program: source rows and columns; then a row, a column and two weights for each of a thread's pixels."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # row by row
    if FACTOR == 0:
        y, at = place // width, place % width
        i0, i1, wy = _source(y, down, h)
        j0, j1, wx = _source(at, across, w)
        ys, xs, wys, wxs = (y,), (at,), (wy,), (wx,)
    else:
        parts: tl.constexpr = FACTOR // ROWS
        line, at = place // (w + 1), place % (w + 1)
        cell, first = line // parts - 1, line % parts * ROWS
        i0, i1 = (
            tl.minimum(tl.maximum(cell, 0), h - 1),
            tl.minimum(cell + 1, h - 1),
        )  # threads of the last program go on
        j0, j1 = tl.minimum(tl.maximum(at - 1, 0), w - 1), tl.minimum(at, w - 1)
        ys, xs, wys, wxs = (), (), (), ()
        for n in tl.static_range(ROWS * FACTOR):
            row = first + n // FACTOR
            ys = ys + (cell * FACTOR + FACTOR // 2 + row,)
            xs = xs + ((at - 1) * FACTOR + FACTOR // 2 + n % FACTOR,)
            wys = wys + ((2 * row + 1) / (2.0 * FACTOR),)
            wxs = wxs + ((2 * (n % FACTOR) + 1) / (2.0 * FACTOR),)
    return i0, i1, j0, j1, ys, xs, wys, wxs


@triton.jit
def _corners(plane, sh, sw, i0, i1, j0, j1):
    a = tl.load(plane + i0 * sh + j0 * sw).to(tl.float32)
    b = tl.load(plane + i0 * sh + j1 * sw).to(tl.float32)
    c = tl.load(plane + i1 * sh + j0 * sw).to(tl.float32)
    d = tl.load(plane + i1 * sh + j1 * sw).to(tl.float32)
    return a, b, c, d


@triton.jit
def _largest(image, sc, sh, sw, i0, i1, j0, j1, wy, wx, classes, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    """The largest logarithm among the four neighbours that have a weight: all, but at pixels that lie on one."""
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for k in range(classes):
        a, b, c, d = _corners(image + tl.cast(k, tl.int64) * sc, sh, sw, i0, i1, j0, j1)
        if FACTOR == 0:
            b = tl.where(wx > 0, b, a)
            d = tl.where(wx > 0, d, c)
            c = tl.where(wy > 0, c, a)
            d = tl.where(wy > 0, d, b)
        largest = tl.maximum(largest, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)))
    return largest


@triton.jit
def _labels(
    values, sb, sc, sh, sw, draw, classes, i0, i1, j0, j1, wy, wx,
    LOGS: tl.constexpr, FACTOR: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The labels of a thread's pixels in one draw, and whether one of the scores is bad."""
    image = values + tl.cast(draw, tl.int64) * sb
    bad = tl.zeros((BLOCK,), tl.int1)
    largest = tl.zeros((BLOCK,), tl.float32)
    if LOGS:
        largest = _largest(image, sc, sh, sw, i0, i1, j0, j1, wy[0], wx[0], classes, FACTOR, BLOCK)
        bad = bad | ~(tl.abs(largest) < float("inf"))
    best, label = (), ()
    for _n in tl.static_range(PIXELS):
        best = best + (tl.full((BLOCK,), float("-inf"), tl.float32),)
        label = label + (tl.zeros((BLOCK,), tl.int32),)
    for k in range(classes):
        a, b, c, d = _corners(image + tl.cast(k, tl.int64) * sc, sh, sw, i0, i1, j0, j1)
        if LOGS:
            bad = bad | ~((a < float("inf")) & (b < float("inf")) & (c < float("inf")) & (d < float("inf")))
            a = tl.exp(tl.minimum(a - largest, 0.0))  # above 0 only where its weight is 0
            b = tl.exp(tl.minimum(b - largest, 0.0))
            c = tl.exp(tl.minimum(c - largest, 0.0))
            d = tl.exp(tl.minimum(d - largest, 0.0))
        else:
            bad = bad | ~((tl.abs(a) < float("inf")) & (tl.abs(b) < float("inf")))
            bad = bad | ~((tl.abs(c) < float("inf")) & (tl.abs(d) < float("inf")))
        new_best, new_label = (), ()
        for n in tl.static_range(PIXELS):
            score = (1 - wy[n]) * ((1 - wx[n]) * a + wx[n] * b) + wy[n] * ((1 - wx[n]) * c + wx[n] * d)
            new_label = new_label + (tl.where(score > best[n], k, label[n]),)
            new_best = new_best + (tl.maximum(score, best[n]),)
        best, label = new_best, new_label
    return label, bad


@triton.jit(do_not_specialize=SIZES)
def _add_agreement(
    values, sb, sc, sh, sw, candidate, agree, flag, draws, classes, h, w, height, width, down, across,
    LOGS: tl.constexpr, FACTOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i0, i1, j0, j1, ys, xs, wy, wx = _tile(h, w, height, width, down, across, FACTOR, ROWS, BLOCK)
    PIXELS: tl.constexpr = ROWS * FACTOR if FACTOR else 1
    found = ()
    for _n in tl.static_range(PIXELS):
        found = found + (tl.zeros((BLOCK,), tl.int32),)
    ever = tl.zeros((BLOCK,), tl.int1)
    for draw in range(draws):
        label, bad = _labels(
            values, sb, sc, sh, sw, draw, classes, i0, i1, j0, j1, wy, wx, LOGS, FACTOR, PIXELS, BLOCK
        )  # fmt: skip
        ever = ever | bad
        more = ()
        for n in tl.static_range(PIXELS):
            inside = (xs[n] >= 0) & (xs[n] < width) & (ys[n] >= 0) & (ys[n] < height)
            wanted = tl.load(candidate + ys[n] * width + xs[n], mask=inside, other=-1)
            more = more + (found[n] + (label[n] == wanted).to(tl.int32),)
        found = more
    for n in tl.static_range(PIXELS):
        inside = (xs[n] >= 0) & (xs[n] < width) & (ys[n] >= 0) & (ys[n] < height)
        where = agree + ys[n] * width + xs[n]
        tl.store(where, tl.load(where, mask=inside) + found[n].to(agree.dtype.element_ty), mask=inside)
    _raise(flag, ever)


@triton.jit(do_not_specialize=SIZES)
def _add_class_counts(
    values, sb, sc, sh, sw, counts, flag, draws, classes, h, w, height, width, down, across,
    LOGS: tl.constexpr, FACTOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i0, i1, j0, j1, ys, xs, wy, wx = _tile(h, w, height, width, down, across, FACTOR, ROWS, BLOCK)
    PIXELS: tl.constexpr = ROWS * FACTOR if FACTOR else 1
    ever = tl.zeros((BLOCK,), tl.int1)
    for draw in range(draws):
        label, bad = _labels(
            values, sb, sc, sh, sw, draw, classes, i0, i1, j0, j1, wy, wx, LOGS, FACTOR, PIXELS, BLOCK
        )  # fmt: skip
        ever = ever | bad
        for n in tl.static_range(PIXELS):
            inside = (xs[n] >= 0) & (xs[n] < width) & (ys[n] >= 0) & (ys[n] < height)
            where = counts + label[n].to(tl.int64) * height * width + ys[n] * width + xs[n]
            tl.store(where, (tl.load(where, mask=inside) + 1).to(counts.dtype.element_ty), mask=inside)
        tl.debug_barrier()  # the next draw of a program may add to the same count
    _raise(flag, ever)


@triton.jit(do_not_specialize=SIZES)
def _label_maps(
    values, sb, sc, sh, sw, out, flag, draws, classes, h, w, height, width, down, across,
    LOGS: tl.constexpr, FACTOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i0, i1, j0, j1, ys, xs, wy, wx = _tile(h, w, height, width, down, across, FACTOR, ROWS, BLOCK)
    PIXELS: tl.constexpr = ROWS * FACTOR if FACTOR else 1
    ever = tl.zeros((BLOCK,), tl.int1)
    for draw in range(draws):
        label, bad = _labels(
            values, sb, sc, sh, sw, draw, classes, i0, i1, j0, j1, wy, wx, LOGS, FACTOR, PIXELS, BLOCK
        )  # fmt: skip
        ever = ever | bad
        for n in tl.static_range(PIXELS):
            inside = (xs[n] >= 0) & (xs[n] < width) & (ys[n] >= 0) & (ys[n] < height)
            where = out + (tl.cast(draw, tl.int64) * height + ys[n]) * width + xs[n]
            tl.store(where, label[n].to(out.dtype.element_ty), mask=inside)
    _raise(flag, ever)


@triton.jit
def _raise(flag, ever):
    """Set the flag if any score of the program was bad."""
    if tl.max(ever.to(tl.int32), 0) != 0:
        tl.store(flag, 1)
