"""Labels of upsampled logits on the CPU: bilinear upsampling and arg-max where they can differ from their neighbours'.

Between four logits that have one class as their largest no other class is larger: most pixels need no upsampling. Where
many do, some rows are upsampled at a time. The logits at full size are never in memory: neither that of a large image,
nor all of a batch, which no cache holds. `torch.argmax` alone takes up to a quarter of a network's time there.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

SMALL = 2**10
"""The fewest pixels whose arg-max is computed by planes."""
MANY = 1 / 4
"""The share of an image's cells with several classes beyond which all its rows are upsampled."""
AT_ONCE = 2**19
"""About how many upsampled logits are in memory at once: enough for two threads, in the caches of two cores."""


def labels_of(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """The arg-max over classes, the lowest of equals, of logits (B, classes, h, w) upsampled to a size: (B, H, W).

    The size's height must be a multiple of h. Up to rounding it is the arg-max of torch's bilinear interpolation.
    """
    height, width = logits.shape[2:]
    factor = size[0] // height
    if factor % 2 or size != (factor * height, factor * width):
        return _by_rows(logits, size)
    around = _around(logits)
    mixed = _mixed(around)
    few = (
        mixed.flatten(1).sum(1) <= MANY * mixed[0].numel()
    )  # each image for itself, whatever is beside it in its batch
    if few.all():
        return _by_cells(logits, around, mixed, factor)
    if not few.any():
        return _by_rows(logits, size)
    labels = torch.empty((len(logits), *size), dtype=torch.int64)
    labels[few] = _by_cells(logits[few], around[few], mixed[few], factor)
    labels[~few] = _by_rows(logits[~few], size)
    return labels


def _by_rows(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """The labels, all rows of them upsampled."""
    count, classes, height, _ = logits.shape
    factor = size[0] // height
    labels = torch.empty((count, height, factor, size[1]), dtype=torch.int64)
    entries = max(1, AT_ONCE // (classes * height * size[1]))
    rows = max(1, AT_ONCE // (entries * classes * size[1]))
    for first in range(0, count, entries):
        some = slice(first, first + entries)
        for top in range(0, height, rows):
            strip = slice(top, min(top + rows, height))
            for phase, blended in enumerate(_rows(logits[some], strip, size[1], factor)):
                labels[some, strip, phase] = first_largest(blended)
    return labels.view(count, *size)


def _around(logits: Tensor) -> Tensor:
    """The class of the largest of each logit, (B, h + 2, w + 2): at the border again those beside it."""
    return pad(first_largest(logits).float()[:, None], (1, 1, 1, 1), mode="replicate")[:, 0].to(torch.int64)


def _mixed(around: Tensor) -> Tensor:
    """Which cells between four neighbouring logits have several classes, (B, h + 1, w + 1)."""
    corner = around[:, :-1, :-1]
    return (around[:, :-1, 1:] != corner) | (around[:, 1:, :-1] != corner) | (around[:, 1:, 1:] != corner)


def _by_cells(logits: Tensor, around: Tensor, mixed: Tensor, factor: int) -> Tensor:
    """The labels, of which those in mixed cells alone are upsampled."""
    height, width = logits.shape[2:]
    cells = around[:, :-1, None, :-1, None].expand(-1, -1, factor, -1, factor).contiguous()
    image, row, column = mixed.nonzero(as_tuple=True)
    cells[image, row, :, column] = _blended(logits, image, row, column, factor)
    half = factor // 2
    whole = cells.view(len(logits), (height + 1) * factor, (width + 1) * factor)
    return whole[:, half : half + height * factor, half : half + width * factor]


def _blended(logits: Tensor, image: Tensor, row: Tensor, column: Tensor, factor: int) -> Tensor:
    """The labels of all pixels of some cells, (cells, factor, factor): a part of the cells at a time."""
    classes, height, width = logits.shape[1:]
    places = (torch.arange(factor, dtype=logits.dtype) + 0.5) / factor
    ends = torch.stack([1 - places, places])  # the weights of both ends of a side
    weights = torch.einsum("ay,bx->abyx", ends, ends).view(4, -1)
    rows, columns = (
        ((row - 1).clamp(min=0), row.clamp(max=height - 1)),
        ((column - 1).clamp(min=0), column.clamp(max=width - 1)),
    )
    labels = torch.empty((len(image), factor, factor), dtype=torch.int64)
    once = max(1, AT_ONCE // (classes * factor**2))
    for first in range(0, len(image), once):
        some = slice(first, first + once)
        corners = [logits[image[some], :, i[some], j[some]] for i in rows for j in columns]  # (cells, classes) each
        blended = torch.stack(corners, 2).transpose(0, 1) @ weights  # (classes, cells, pixels)
        labels[some] = first_largest(blended.flatten(1)[None])[0].view(-1, factor, factor)
    return labels


def _rows(logits: Tensor, strip: slice, width: int, factor: int) -> Iterator[Tensor]:
    """Upsampled logits that begin in a strip of rows, of each row the first, then the second of ``factor`` and so on.

    Each lies at a fixed place between its row and the one above or below; at the border between it and itself.
    """
    above, below = strip.start > 0, strip.stop < logits.shape[2]
    found = logits[:, :, strip.start - above : strip.stop + below].contiguous()
    wide = interpolate(found, size=(found.shape[2], width), mode="bilinear", align_corners=False)
    ends = [[] if above else [wide[:, :, :1]], [] if below else [wide[:, :, -1:]]]
    wide = torch.cat([*ends[0], wide, *ends[1]], 2)
    count = strip.stop - strip.start
    for phase in range(factor):
        place = (phase + 0.5) / factor + 0.5  # in rows below the one above
        upper = int(place)
        yield torch.lerp(wide[:, :, upper : upper + count], wide[:, :, upper + 1 : upper + 1 + count], place - upper)


def first_largest(logits: Tensor) -> Tensor:
    """The arg-max over classes of logits (B, classes, *components), the lowest of equals, some pixels at a time.

    A class comes before the largest one if the largest logit up to it is not yet the largest of all, so that the
    arg-max is the number of such classes: comparisons of whole planes.
    """
    if logits.device.type != "cpu" or logits[0, 0].numel() < SMALL:
        return logits.argmax(1)
    if not logits.is_contiguous():
        return logits.max(1).indices
    once = max(SMALL, AT_ONCE // (logits.shape[0] * logits.shape[1]))
    found = [_classes_before(some) for some in torch.split(logits.flatten(2), once, 2)]
    return (found[0] if len(found) == 1 else torch.cat(found, 1)).view(-1, *logits.shape[2:])


def _classes_before(logits: Tensor) -> Tensor:
    """How many classes come before the largest one, of logits (B, classes, N)."""
    largest, so_far = logits.amax(1), logits[:, 0].clone()
    less, before = torch.empty_like(so_far), torch.zeros(so_far.shape)
    for plane in logits.unbind(1)[1:]:
        before += torch.lt(so_far, largest, out=less)
        torch.maximum(so_far, plane, out=so_far)
    return before.to(torch.int64)
