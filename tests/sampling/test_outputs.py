"""Outputs: counted through label maps here; by kernels in `kernels` and on CUDA."""

import pytest
import torch
from torch.nn.functional import interpolate

import segcertify as sc
from segcertify.sampling.outputs import Outputs, require_finite


def outputs(output, size=(8, 12), **options):
    return Outputs(torch.rand(len(output), 3, *size), output, torch.zeros(1, dtype=torch.int32), **options)


def logits(seed=0):
    return torch.randn(5, 4, 2, 3, generator=torch.Generator().manual_seed(seed))


def test_counts_are_of_the_label_maps():
    drawn = outputs(logits())
    labels = interpolate(logits(), size=(8, 12), mode="bilinear", align_corners=False).argmax(1)
    assert torch.equal(drawn.labels, labels)
    assert drawn.components == (8, 12)
    agree = torch.full((8, 12), 2, dtype=torch.uint8)
    drawn.add_agreement(labels[1].to(torch.int16), agree)
    assert torch.equal(agree, 2 + (labels == labels[1]).sum(0, dtype=torch.uint8))
    counts = drawn.with_class_counts(torch.ones(1, 8, 12, dtype=torch.uint8), None)
    expected = torch.stack([(labels == k).sum(0) for k in range(int(labels.max()) + 1)])
    expected[0] += 1
    assert torch.equal(counts, expected.to(torch.uint8))


def test_labels_beyond_the_classes_are_refused():
    drawn = outputs(torch.full((2, 8, 12), 5))
    with pytest.raises(sc.InputError, match="the model gave the label 5, but it has classes=4"):
        drawn.with_class_counts(torch.zeros(4, 8, 12, dtype=torch.uint8), 4)


def test_logarithms_of_a_smaller_image_are_at_the_images_size():
    drawn = outputs(logits(), size=(2, 3), logs_at=(8, 12))
    expected = interpolate(logits().exp(), size=(8, 12), mode="bilinear", align_corners=False).argmax(1)
    assert torch.equal(drawn.labels, expected)
    assert drawn.components == (8, 12)


def test_a_class_of_score_0_hides_no_change_of_others():
    """Its logarithm is minus infinity, and no difference of two is a number."""
    said = logits()
    said[:, 3] = -torch.inf
    assert outputs(said, size=(2, 3), logs_at=(8, 12)).answers().output.isfinite().all()


def test_answers_have_memory_of_their_own():
    said = logits()
    kept = outputs(said).at([4, 0])
    said.zero_()
    assert torch.equal(kept.output, logits()[[4, 0]])


def test_a_part_keeps_its_labels_while_the_model_is_called_again():
    """Labels that were made are in memory of their own: of a part nothing is computed anew from the model's output."""
    said = logits()
    expected = outputs(logits()).labels
    drawn = outputs(said)
    first, rest = drawn.part(slice(2)), drawn.part(slice(2, None))
    said.zero_()
    assert torch.equal(first.labels, expected[:2])
    assert torch.equal(rest.labels, expected[2:])
    assert len(rest.batch) == len(rest.output) == 3


def test_a_raised_flag_refuses_all_that_was_counted():
    require_finite(torch.zeros(1))
    with pytest.raises(sc.InputError, match="logits that are not finite"):
        require_finite(torch.ones(1))
