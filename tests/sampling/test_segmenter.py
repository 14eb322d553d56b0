"""Labels from logits on the CPU: bits as torch's own arg-max gives them, in little memory."""

import subprocess
import sys

import pytest
import torch

from segcertify import InputError
from segcertify.sampling import label_rows, segmenter
from segcertify.sampling.segmenter import to_labels, upsampled

PEAK = """
import resource, sys, torch
from segcertify.sampling.segmenter import to_labels
torch.set_num_threads(1)
logits, batch = torch.rand(8, 12, 64, 96), torch.zeros(8, 1, 512, 768)
to_labels(logits[:1, :, :8, :8], batch[:1, :, :64, :64])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
to_labels(logits, batch)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def ties(*shape):
    """Logits of a few different values: most pixels have several largest ones."""
    torch.manual_seed(0)
    return (torch.randn(shape) * 2).round()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("shape", "size"), [((3, 5, 20, 31), (80, 124)), ((2, 11, 64, 70), (64, 70)), ((2, 300, 40, 40), (40, 40))]
)
def test_labels_are_torchs_arg_max(shape, size, layout, dtype, monkeypatch):
    """The lowest class of equal ones counts, in every block; weights of eighths round nothing."""
    monkeypatch.setattr(label_rows, "AT_ONCE", 5000)
    logits, batch = ties(*shape).to(dtype).to(memory_format=layout), torch.rand(shape[0], 3, *size)
    assert torch.equal(to_labels(logits, batch), upsampled(logits, batch).argmax(1))
    assert to_labels(logits, batch).dtype == torch.int64


@pytest.mark.parametrize(
    ("shape", "x"),
    [((3, 7), (6,)), ((2, 4, 2000), (2000, 3)), ((2, 3, 5), (5, 3)), ((2, 3, 12, 13, 14), (1, 12, 13, 14))],
)
def test_labels_of_vectors_clouds_and_volumes(shape, x):
    batch = torch.rand(shape[0], *x)
    assert torch.equal(to_labels(ties(*shape), batch), ties(*shape).argmax(1))


@pytest.mark.parametrize("size", [(9, 13), (17, 25), (21, 20)])
def test_labels_where_a_row_of_logits_stands_for_no_whole_number_of_rows(size):
    torch.manual_seed(0)
    logits, batch = torch.randn(2, 3, 8, 10), torch.rand(2, 3, *size)
    assert torch.equal(to_labels(logits, batch), upsampled(logits, batch).argmax(1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("entry", [0, 3])
def test_one_logit_that_is_not_finite_is_found_wherever_it_is(entry, bad):
    logits = torch.rand(4, 3, 40, 50)
    logits[entry, 1, -1, -1] = bad
    with pytest.raises(InputError, match="not finite"):
        to_labels(logits, torch.rand(4, 3, 80, 100))


def test_a_batch_is_never_upsampled_as_a_whole():
    """12 classes of 8 images of 512 x 768: 151 MB at full size, 19 MB of one, and 25 MB of labels."""
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert int(run.stdout) * 1024 < 100e6


def test_what_logits_of_images_are():
    batch = torch.zeros(2, 3, 8, 12)
    assert segmenter.coarse_logits(torch.zeros(2, 5, 8, 12), batch)
    assert segmenter.coarse_logits(torch.zeros(2, 5, 4, 6), batch)
    assert not segmenter.coarse_logits(torch.zeros(2, 5, 7), batch)
    assert not segmenter.coarse_logits(torch.zeros(2, 5, 12), batch)
    assert not segmenter.coarse_logits(torch.zeros(2, 8, 12, dtype=torch.int64), batch)
    with pytest.raises(InputError, match="have one class, so every label would be 0"):
        segmenter.coarse_logits(torch.zeros(2, 1, 8, 12), batch)
