"""Labels of upsampled logits on the CPU: torch's interpolation and arg-max, whatever the strips."""

import pytest
import torch
from torch.nn.functional import interpolate

from segcertify.sampling import label_rows
from segcertify.sampling.label_rows import first_largest, labels_of

CASES = [
    ((2, 11, 9, 12), (36, 48)), ((13, 3, 10, 10), (40, 40)), ((1, 5, 7, 9), (21, 35)), ((3, 4, 1, 6), (8, 11)),
    ((2, 3, 6, 5), (6, 50)), ((1, 2, 40, 1), (80, 1)),
]  # fmt: skip


def wanted(logits, size):
    """Torch's logits at full size: how far the largest is above the next, and its class."""
    whole = interpolate(logits, size=size, mode="bilinear", align_corners=False)
    best = whole.topk(2, 1).values
    return best[:, 0] - best[:, 1], whole.argmax(1)


@pytest.mark.parametrize("many", [-1.0, 1.0])
@pytest.mark.parametrize("at_once", [1, 300, 2**19])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_they_are_torchs_but_for_rounding(shape, size, at_once, many, monkeypatch):
    """By rows, and by cells of which all are looked at one by one, where a form for them is there."""
    monkeypatch.setattr(label_rows, "AT_ONCE", at_once)
    monkeypatch.setattr(label_rows, "MANY", many)
    torch.manual_seed(0)
    logits = 5 * torch.randn(shape)
    for layout in (torch.contiguous_format, torch.channels_last):
        labels = labels_of(logits.to(memory_format=layout), size)
        ahead, expected = wanted(logits, size)
        assert labels.dtype == torch.int64
        assert torch.equal(labels[ahead > 1e-5], expected[ahead > 1e-5])
    assert (ahead > 1e-5).float().mean() > 0.99
    assert len(expected.unique()) == shape[1]


@pytest.mark.parametrize("factor", [2, 4, 8, 16])
@pytest.mark.parametrize("extent", [(1, 1), (1, 7), (6, 1), (9, 12)])
def test_cells_of_one_class_need_no_upsampling(extent, factor, monkeypatch):
    """Regions of a few classes, with borders between them and at the image's edge."""
    torch.manual_seed(0)
    coarse = torch.randn(3, 6, 3, 3)
    logits = interpolate(coarse, size=extent, mode="bicubic") + 0.01 * torch.randn(3, 6, *extent)
    size = tuple(factor * side for side in extent)
    monkeypatch.setattr(label_rows, "MANY", 1.0)
    ahead, expected = wanted(logits, size)
    labels = labels_of(logits, size)
    assert labels.shape == expected.shape
    assert torch.equal(labels[ahead > 1e-5], expected[ahead > 1e-5])


def test_few_cells_are_upsampled(monkeypatch):
    """Those with several classes, each pixel once; of many, all rows are."""
    sizes, largest = [], first_largest
    monkeypatch.setattr(
        label_rows, "first_largest", lambda logits: sizes.append(logits[:, 0].numel()) or largest(logits)
    )
    logits = torch.zeros(2, 3, 20, 30)
    logits[:, 1, :, 15:] = 1.0  # a border of 21 cells in each image
    labels = labels_of(logits, (80, 120))
    assert sizes == [2 * 20 * 30, 2 * 21 * 16]
    assert labels[:, :, :58].sum() == 0
    assert (labels[:, :, 58:] == 1).all()
    sizes.clear()
    labels_of(torch.randn(2, 3, 20, 30), (80, 120))
    assert sum(sizes) == 2 * 20 * 30 + 2 * 80 * 120


def test_an_images_labels_do_not_depend_on_those_beside_it():
    """One of many borders is upsampled row by row, one of few is not, in one batch as in batches of one."""
    torch.manual_seed(0)
    smooth = interpolate(torch.randn(3, 4, 3, 3), size=(20, 30), mode="bicubic")
    batch = torch.cat([smooth[:1], torch.randn(1, 4, 20, 30), smooth[1:], torch.randn(2, 4, 20, 30)])
    alone = torch.cat([labels_of(logits[None], (80, 120)) for logits in batch])
    assert torch.equal(labels_of(batch, (80, 120)), alone)


@pytest.mark.parametrize("many", [-1.0, 1.0])
def test_of_equal_logits_the_lowest_class_counts(many, monkeypatch):
    monkeypatch.setattr(label_rows, "MANY", many)
    logits = torch.randn(2, 5, 8, 8)
    logits[:, 3] = logits[:, 1]
    labels = labels_of(logits, (32, 32))
    assert 1 in labels
    assert 3 not in labels


@pytest.mark.parametrize("at_once", [1, 5000, 2**19])
def test_the_arg_max_is_torchs(at_once, monkeypatch):
    monkeypatch.setattr(label_rows, "AT_ONCE", at_once)
    torch.manual_seed(0)
    ties = (torch.randn(3, 6, 40, 50) * 2).round()
    for logits in (ties, ties.to(memory_format=torch.channels_last), ties.bfloat16(), ties[:, :, :3], ties.flatten(2)):
        assert torch.equal(first_largest(logits), logits.argmax(1))


def test_memory_does_not_grow_with_the_image(monkeypatch):
    """No more than so many upsampled logits are blended at once, but for one row of an image."""
    sizes, lerp = [], torch.lerp
    monkeypatch.setattr(label_rows, "AT_ONCE", 2**12)
    monkeypatch.setattr(torch, "lerp", lambda *given: sizes.append(given[0].numel()) or lerp(*given))
    labels_of(torch.randn(5, 3, 30, 20), (120, 80))
    assert max(sizes) <= 2**12
    labels_of(torch.randn(2, 40, 30, 50), (120, 200))
    assert max(sizes) == 40 * 200


def test_memory_does_not_grow_with_the_cells(monkeypatch):
    sizes, largest = [], first_largest
    monkeypatch.setattr(label_rows, "AT_ONCE", 2**12)
    monkeypatch.setattr(label_rows, "MANY", 1.0)
    monkeypatch.setattr(label_rows, "first_largest", lambda logits: sizes.append(logits.numel()) or largest(logits))
    labels_of(torch.randn(2, 3, 30, 20), (120, 80))
    assert max(sizes[1:]) <= 2**12
    assert len(sizes) > 10
