"""Counting kernels beside their twin, and the twin beside torch's resize and arg-max.

Kernels run in Triton's interpreter (`test_interpreted` starts it), and on CUDA in `test_cuda`.
"""

import pytest
import torch
from torch.nn.functional import interpolate

from segcertify.sampling.kernels.fused import interpreted
from segcertify.sampling.kernels.scores import (
    FACTORS,
    Scores,
    add_agreement,
    add_class_counts,
    label_maps,
    labels_twin,
    resize_exp,
)

in_the_interpreter = pytest.mark.skipif(not interpreted(), reason="run by test_interpreted, where Triton is installed")


def values_of(shape, *, logs=False, seed=0):
    values = 4 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if logs:
        values[0] *= 40  # beyond the range of exp
        values[-1, 1] = -torch.inf
    return values


def flag():
    return torch.zeros(1, dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [(12, 20), (9, 11), (3, 5)])
def test_the_twin_is_torchs_resize_and_arg_max(size, dtype):
    values = values_of((4, 6, 3, 5)).to(dtype)
    expected = interpolate(values.float(), size=size, mode="bilinear", align_corners=False).argmax(1)
    assert torch.equal(labels_twin(Scores(values, size), flag()), expected)


def test_logarithms_are_resized_as_their_exponentials():
    values = values_of((3, 4, 3, 5)) / 4
    expected = interpolate(values.exp(), size=(12, 20), mode="bilinear", align_corners=False)
    assert torch.allclose(resize_exp(values, (12, 20)).exp(), expected, rtol=1e-4)
    assert torch.equal(labels_twin(Scores(values, (12, 20), logs=True), flag()), expected.argmax(1))


@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_the_twin_flags_what_is_not_finite(value, logs):
    bad, values = flag(), values_of((2, 3, 2, 2))
    labels_twin(Scores(values, (4, 4), logs), bad)
    assert not bad
    values[1, 2, 0, 1] = value
    labels_twin(Scores(values, (4, 4), logs), bad)
    assert bool(bad) == (not logs or value != -torch.inf)  # the logarithm of a score of 0
    values[1, :, 0, 1] = -torch.inf
    bad.zero_()
    labels_twin(Scores(values, (4, 4), logs), bad)
    assert bad


@pytest.mark.parametrize(
    ("size", "factor"), [((8, 12), 4), ((4, 6), 2), ((6, 9), 0), ((2, 3), 0), ((8, 6), 0), ((9, 12), 0), ((32, 48), 16)]
)
def test_which_sizes_have_a_form_of_their_own(size, factor):
    assert Scores(torch.zeros(1, 2, 2, 3), size).factor == factor


@in_the_interpreter
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 3, 2, 3), (4, 6)), ((1, 2, 1, 2), (4, 8)), ((1, 2, 1, 1), (8, 8)), ((1, 2, 1, 1), (16, 16)),
     ((2, 3, 2, 3), (2, 3)), ((2, 3, 2, 3), (3, 5)), ((2, 3, 2, 3), (6, 9))],
)  # fmt: skip
def test_the_kernels_are_the_twin(shape, size, logs):
    values = values_of(shape, logs=logs).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # of any strides
    asked, bad = Scores(values, size, logs), flag()
    labels = label_maps(asked, bad)
    assert torch.equal(labels, labels_twin(asked, flag()))
    candidate, agree = labels[0].to(torch.int16), torch.full(size, 3, dtype=torch.uint8)
    counts = torch.full((shape[1] + 1, *size), 3, dtype=torch.int16)
    add_agreement(asked, candidate, agree, bad)
    add_class_counts(asked, counts, bad)
    assert torch.equal(agree, 3 + (labels == candidate).sum(0, dtype=torch.uint8))
    assert torch.equal(counts, torch.full_like(counts, 3).scatter_add_(0, labels, counts.new_ones(labels.shape)))
    assert not bad


@in_the_interpreter
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, of which the interpreter is made
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("size", [(4, 6), (3, 5)])
def test_the_kernels_flag_every_score_that_is_not_finite(size, logs):
    shape = (1, 2, 2, 3)
    for where in range(12):
        values, bad = values_of(shape), flag()
        values.view(-1)[where] = torch.nan if where % 2 else torch.inf
        add_agreement(Scores(values, size, logs), torch.zeros(size, dtype=torch.int16), torch.zeros(size), bad)
        assert bad, where


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [0, *FACTORS])
def test_the_scores_that_trust_rests_on_have_no_near_ties(factor, dtype):
    """Rounding must not make a right kernel look wrong."""
    values = torch.randn((3, 5, 4, 6), generator=torch.Generator().manual_seed(8)).mul_(8).to(dtype).float()
    size = (4 * factor, 6 * factor) if factor else (9, 11)
    for scores in (interpolate(values, size=size, mode="bilinear", align_corners=False), resize_exp(values, size)):
        best = scores.topk(2, 1).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-4
