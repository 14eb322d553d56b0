"""Augmentation: the identity, mirrors, scales and turns, image and target together, grey and ignored outside."""

import math

import numpy as np
import pytest
import torch

from segcertify.data.augmentation import UNLABELLED, Augmentation
from segcertify.data.images.augmentation import GREY
from segcertify.training.pool import ImagePool, take

H, W = 48, 64
PLAIN = {"rescale": (1.0, 1.0), "flip": False, "colour": 0.0, "crop": (H, W)}


def pool_of(images, targets, sizes=None):
    sizes = torch.tensor([targets.shape[1:]] * len(targets) if sizes is None else sizes)
    return ImagePool(images.to(torch.uint8), targets.to(torch.uint8), sizes, classes=3)


def noise_pool(count=3, size=(H, W), sizes=None):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, *size), generator=generator)
    targets = torch.randint(3, (count, *size), generator=generator)
    targets[torch.rand(targets.shape, generator=generator) < 0.1] = UNLABELLED
    return pool_of(images, targets, sizes)


def ramp_pool():
    """Red is the column's number, green the row's: they tell where a pixel comes from."""
    rows, columns = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
    return pool_of(torch.stack([columns, rows, rows])[None], torch.zeros(1, H, W))


def block_pool():
    """Blocks of red, green and blue, for the classes 0, 1 and 2."""
    target = torch.randint(3, (1, H // 8, W // 8), generator=torch.Generator().manual_seed(1))
    target = target.repeat_interleave(8, 1).repeat_interleave(8, 2)
    return pool_of(255 * torch.nn.functional.one_hot(target, 3).permute(0, 3, 1, 2), target)


def augmented(pool, indices, seed=0, **changes):
    torch.manual_seed(seed)
    return take(pool, torch.tensor(indices)).augmented(Augmentation(**PLAIN | changes))


def source(pool, count, seed=0, **changes):
    """The position in the image, (x, y) in its pixels, that each pixel of the crops comes from: (count, 2, ...)."""
    x, _ = augmented(pool, [0] * count, seed, **changes)
    return x[:, :2] * 255


def test_identity():
    pool = noise_pool()
    x, target = augmented(pool, [2, 0, 2])
    torch.testing.assert_close(x, pool.images[[2, 0, 2]] / 255, atol=1e-4, rtol=0)  # positions round at 1e-5 of a pixel
    assert torch.equal(target, pool.targets[[2, 0, 2]].long())
    assert target.dtype == torch.int64


def test_identity_of_an_image_smaller_than_the_canvas():
    pool = noise_pool(sizes=[(H, W), (20, 30), (H, 30)])
    x, target = augmented(pool, [1], crop=(20, 30))
    torch.testing.assert_close(x, pool.images[[1], :, :20, :30] / 255, atol=1e-4, rtol=0)
    assert torch.equal(target, pool.targets[[1], :20, :30].long())


def test_image_and_target_are_mirrored_together():
    """64 crops; all alike with probability 2e-19."""
    pool = noise_pool(count=1)
    images, targets = augmented(pool, [0] * 64, flip=True)
    mirrored = 0
    for x, target in zip(images, targets, strict=True):
        flip = not torch.equal(target, pool.targets[0].long())
        mirrored += flip
        expected = (pool.images[0] / 255, pool.targets[0].long())
        expected = tuple(part.flip(-1) for part in expected) if flip else expected
        torch.testing.assert_close(x, expected[0], atol=1e-4, rtol=0)
        assert torch.equal(target, expected[1])
    assert 10 < mirrored < 54  # false alarm: 4e-9


@pytest.mark.parametrize("changes", [{}, {"rotate": 45.0}, {"crop": (80, 96), "rotate": 20.0, "flip": True}])
def test_image_and_target_stay_together(changes):
    settings = {"rescale": (0.5, 2.0), "crop": (32, 40)} | changes
    images, targets = augmented(block_pool(), [0] * 40, **settings)
    decided = 0
    for kind in range(3):
        pure = (images[:, kind] > 0.99) & (images.sum(1) < 1.01)
        assert (targets[pure] == kind).all()
        assert pure.any()
        decided += int(pure.sum())
    grey = (images - GREY / 255).abs().amax(1) < 1e-4
    assert (targets[grey] == UNLABELLED).all()
    assert grey.any()
    assert decided + int(grey.sum()) > 0.6 * targets.numel()  # the rest are edges


def test_outside_is_grey_and_ignored_and_all_of_a_small_image_is_seen():
    images, targets = augmented(noise_pool(count=1), [0] * 50, crop=(80, 96))
    seen = ~torch.isclose(images, torch.tensor(GREY / 255), atol=1e-5).all(1)
    assert torch.isclose(images[:, :, 0, 0], torch.tensor(GREY / 255), atol=1e-6).float().mean() > 0.5
    corners = set()
    for crop, target in zip(seen, targets, strict=True):
        rows, columns = np.nonzero(crop.any(1).numpy())[0], np.nonzero(crop.any(0).numpy())[0]
        assert H <= rows[-1] - rows[0] + 1 <= H + 1  # bilinear: one more row or column at an edge
        assert W <= columns[-1] - columns[0] + 1 <= W + 1
        assert (target[~crop] == UNLABELLED).all()
        corners.add((rows[0], columns[0]))
    assert len(corners) > 20


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_crops_are_anywhere_in_the_image_and_not_beside_it(factor):
    """500 crops: no centre in the first or last tenth of its range with probability 4 * 0.9^500 < 1e-22."""
    settings = {"crop": (16, 16), "rescale": (factor, factor)}
    middle = source(ramp_pool(), 500, **settings)[:, :, 8, 8] + 0.5 - 0.5 / factor
    for axis, length in ((0, W), (1, H)):
        extent = 16 / factor  # of a crop, in the image's pixels
        share = (middle[:, axis] - extent / 2) / (length - extent)
        assert -0.001 < share.min() < 0.1
        assert 0.9 < share.max() < 1.001
    _, targets = augmented(ramp_pool(), [0] * 500, **settings)
    assert (targets == 0).all()


@pytest.mark.parametrize("factor", [0.8, 2.0])
def test_a_scale_enlarges(factor):
    positions = source(ramp_pool(), 20, crop=(16, 16), rescale=(factor, factor))
    across, down = positions.diff(dim=3)[:, :, 4:12, 4:11], positions.diff(dim=2)[:, :, 4:11, 4:12]
    for steps, own, other in ((across, 0, 1), (down, 1, 0)):
        assert steps[:, own].flatten().numpy() == pytest.approx(1 / factor, abs=1e-3)
        assert steps[:, other].flatten().numpy() == pytest.approx(0, abs=1e-3)


def test_scales_are_spread_over_their_range_each_image_its_own():
    """400 scales: none in the lowest or highest tenth of the logarithms with probability 2 * 0.9^400 < 1e-18."""
    positions = source(ramp_pool(), 400, crop=(16, 16), rescale=(0.5, 2.0))
    across = 1 / (positions[:, 0, 8, 8] - positions[:, 0, 8, 7])
    down = 1 / (positions[:, 1, 8, 8] - positions[:, 1, 7, 8])
    both = (across * down).sqrt().log2()
    assert -1.2 < both.min() < -0.75
    assert 0.75 < both.max() < 1.2
    apart = (across / down).log().abs()  # width and height by up to a tenth each
    assert 0.1 < apart.max() < 0.21


def test_turns_are_rigid_and_within_their_range():
    """400 angles: none in the outer tenth on a side with probability 2 * 0.95^400 < 1e-8."""
    positions = source(ramp_pool(), 400, crop=(16, 16), rotate=30.0)
    across = positions[:, :, 8, 8] - positions[:, :, 8, 7]
    down = positions[:, :, 8, 8] - positions[:, :, 7, 8]
    assert across.norm(dim=1).numpy() == pytest.approx(1, abs=2e-3)
    assert down.norm(dim=1).numpy() == pytest.approx(1, abs=2e-3)
    assert (across * down).sum(1).numpy() == pytest.approx(0, abs=2e-3)
    assert (across[:, 0] * down[:, 1] - across[:, 1] * down[:, 0] > 0.99).all()  # no mirror
    angles = torch.atan2(across[:, 1], across[:, 0]).rad2deg()
    assert -30.1 < angles.min() < -27
    assert 27 < angles.max() < 30.1
    assert abs(angles.mean()) < 5.5 * (30 / math.sqrt(3)) / math.sqrt(400)  # false alarm: 4e-8


def test_colours_change_within_bounds_and_leave_targets_alone():
    pool = noise_pool(count=1)
    plain, targets = augmented(pool, [0] * 20, colour=0.0, rescale=(0.5, 2.0), rotate=10.0)
    coloured, same = augmented(pool, [0] * 20, colour=2.0, rescale=(0.5, 2.0), rotate=10.0)
    assert torch.equal(targets, same)
    for x in (plain, coloured):
        assert 0 <= x.min() < 0.01
        assert 0.99 < x.max() <= 1
    assert ((coloured - plain).abs().mean((1, 2, 3)) > 0.01).all()
    one, _ = augmented(pool, [0] * 20, colour=0.5)
    assert len({x.mean().item() for x in one}) == 20  # each image its own


def test_colours_of_black_are_numbers():
    """Between black pixels rounding goes a little below zero, of which no power is a number."""
    black = pool_of(torch.zeros(1, 3, H, W), torch.zeros(1, H, W))
    x, _ = augmented(black, [0] * 40, colour=1.0, rescale=(0.5, 2.0), rotate=45.0)
    assert torch.isfinite(x).all()


def test_the_draws_depend_on_the_seed():
    pool = noise_pool()
    settings = {"rescale": (0.5, 2.0), "rotate": 10.0, "colour": 0.5, "flip": True}
    first, again, other = (augmented(pool, [0, 1, 2], seed, **settings)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_draws_are_those_of_before():
    """Numbers of the first version of this code, for the same seed; the next draw shows how many it took."""
    settings = {"rescale": (0.5, 2.0), "rotate": 30.0, "colour": 0.5, "flip": True, "crop": (16, 20)}
    x, target = augmented(noise_pool(), [2, 0, 1], 7, **settings)
    expected = [[0.6216841, 0.6357608, 0.6576529], [0.4740678, 0.4734510, 0.4850093], [0.4560536, 0.5175662, 0.5127152]]
    np.testing.assert_allclose(x.mean((2, 3)), expected, rtol=1e-5)
    np.testing.assert_allclose(x[1, :, 5, 11], [0.1872128, 0.2131417, 0.2964804], rtol=1e-4)
    assert target.sum((1, 2)).tolist() == [8716, 13530, 10488]
    assert torch.rand(1).item() == pytest.approx(0.2332, abs=1e-4)


def test_pasted_rectangles_bring_their_targets():
    """Each pixel and its target come from the crop itself or from the one before, and the latter are a rectangle."""
    pool = pool_of(
        torch.arange(1, 4).view(3, 1, 1, 1).expand(3, 3, H, W) * 50, torch.arange(3).view(3, 1, 1).expand(3, H, W)
    )
    pasted = 0
    for seed in range(20):
        x, target = augmented(pool, [0, 1, 2], seed, paste=1.0)
        assert torch.equal(x[:, 0], x[:, 2])
        torch.testing.assert_close(x[:, 0], (target + 1) * 50 / 255, atol=1e-4, rtol=0)
        for i in range(3):
            other = target[i] == (i - 1) % 3
            assert (other | (target[i] == i)).all()
            if other.any():
                rows, columns = (other.any(axis).nonzero().flatten() for axis in (1, 0))
                assert other.sum() == len(rows) * len(columns)
                assert len(rows) == rows[-1] - rows[0] + 1
                pasted += 1
    assert pasted > 40


def test_a_part_of_the_crops_is_pasted_into_and_none_by_default():
    """Of 2,001 crops 500, less some rectangles without a pixel (3 %); within 6 standard errors of 19: below 1e-8."""
    pool = pool_of(
        torch.arange(1, 4).view(3, 1, 1, 1).expand(3, 3, H, W) * 50, torch.arange(3).view(3, 1, 1).expand(3, H, W)
    )
    _, target = augmented(pool, [0, 1, 2] * 667, paste=0.25)
    own = torch.tensor([0, 1, 2] * 667).view(-1, 1, 1)
    assert 370 < int((target != own).flatten(1).any(1).sum()) < 615
    assert torch.equal(augmented(pool, [0, 1, 2])[1], pool.targets.long())
