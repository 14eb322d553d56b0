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


@pytest.mark.parametrize("at_once", [1, 300, 2**19])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_they_are_torchs_but_for_rounding(shape, size, at_once, monkeypatch):
    monkeypatch.setattr(label_rows, "AT_ONCE", at_once)
    torch.manual_seed(0)
    logits = 5 * torch.randn(shape)
    for layout in (torch.contiguous_format, torch.channels_last):
        labels = labels_of(logits.to(memory_format=layout), size)
        ahead, expected = wanted(logits, size)
        assert labels.dtype == torch.int64
        assert torch.equal(labels[ahead > 1e-5], expected[ahead > 1e-5])
    assert (ahead > 1e-5).float().mean() > 0.99
    assert len(expected.unique()) == shape[1]


def test_of_equal_logits_the_lowest_class_counts():
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
