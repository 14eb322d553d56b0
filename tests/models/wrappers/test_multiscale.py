"""Scales, flips and tiles against explicit loops in double precision; finite scores for any logits."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError
from segcertify.models import MultiScale
from segcertify.models.wrappers import multiscale
from segcertify.models.wrappers.multiscale import SETTINGS, setting

GAIN = 3.0


class Toy(nn.Module):
    """Logits at half the resolution: products of a pixel and its right neighbour, so that flips matter."""

    def __init__(self, gain=GAIN):
        super().__init__()
        self.gain, self.seen = nn.Parameter(torch.tensor(float(gain))), []

    def forward(self, batch):
        self.seen.append(tuple(batch.shape))
        here, right = batch[:, :, ::2, ::2], batch.roll(-1, 3)[:, :, ::2, ::2]
        return self.gain * torch.cat([here, here * right, here - 2 * right], 1)


def toy(image, gain=GAIN):
    """`Toy` for one image (channels, H, W) as an array."""
    channels, height, width = image.shape
    rows, columns = range(0, height, 2), range(0, width, 2)
    out = np.zeros((3 * channels, len(rows), len(columns)))
    for c in range(channels):
        for i, y in enumerate(rows):
            for j, x in enumerate(columns):
                here, right = image[c, y, x], image[c, y, (x + 1) % width]
                out[c, i, j], out[channels + c, i, j] = here, here * right
                out[2 * channels + c, i, j] = here - 2 * right
    return gain * out


def resize(planes, height, width):
    """Bilinear, half-pixel centres, edges held: one output pixel at a time."""
    channels, h, w = planes.shape
    out = np.zeros((channels, height, width))
    for y in range(height):
        for x in range(width):
            sy = min(max((y + 0.5) * h / height - 0.5, 0), h - 1)
            sx = min(max((x + 0.5) * w / width - 0.5, 0), w - 1)
            y0, x0 = math.floor(sy), math.floor(sx)
            y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
            top = (1 - sx + x0) * planes[:, y0, x0] + (sx - x0) * planes[:, y0, x1]
            bottom = (1 - sx + x0) * planes[:, y1, x0] + (sx - x0) * planes[:, y1, x1]
            out[:, y, x] = (1 - sy + y0) * top + (sy - y0) * bottom
    return out


def starts(side, tile, stride):
    """Where tiles start: a step apart until one would reach the end, which is then moved back to fit."""
    if side <= tile:
        return [0]
    found, start = [], 0
    while start + tile < side:
        found.append(start)
        start += max(1, math.floor(tile * stride))
    return [*found, side - tile]


def reference(image, scales, *, flip=False, tile=None, combine="exp", stride=1.0, base_size=None):
    """The paper's prediction for one image, in the order that it gives."""
    channels, height, width = image.shape
    given, total = tile, 0
    for scale in scales:
        h, w = math.floor(height * scale + 0.5), math.floor(width * scale + 0.5)
        if base_size is not None:  # the longer side is that of the base, the other keeps the ratio
            longer = math.floor(base_size * scale + 0.5)
            h, w = (longer if side == max(height, width) else round(side * longer / width) for side in (height, width))
        tile = given or ((h, w) if scale <= 1 else (height, width))
        resized = resize(image, h, w)
        scores, count = np.zeros((3 * channels, h, w)), np.zeros((h, w))
        for y in starts(h, tile[0], stride):
            for x in starts(w, tile[1], stride):
                crop = resized[:, y : y + tile[0], x : x + tile[1]]
                logits = resize(toy(crop), *crop.shape[1:])
                if flip:
                    mirrored = resize(toy(crop[:, :, ::-1]), *crop.shape[1:])
                    logits = (logits + mirrored[:, :, ::-1]) / 2
                score = np.exp(logits)
                if combine == "softmax":
                    score /= score.sum(0)
                scores[:, y : y + tile[0], x : x + tile[1]] += score
                count[y : y + tile[0], x : x + tile[1]] += 1
        total = total + resize(scores / count, height, width)
    return total


def images(size=(10, 14), batch=2):
    return torch.rand(batch, 2, *size, generator=torch.Generator().manual_seed(3)) * 2 - 0.5


def at_full_size(scores, size):
    """What the sampler does with coarser scores."""
    if scores.shape[2:] == size:
        return scores
    return nn.functional.interpolate(scores, size=size, mode="bilinear", align_corners=False)


CASES = [
    {"scales": (0.5,)},
    {"scales": (0.25,), "flip": True},
    {"scales": (1.0,), "flip": True},
    {"scales": (0.75,), "combine": "softmax"},
    {"scales": (1.5,)},
    {"scales": (1.75,), "stride": 2 / 3},
    {"scales": (2.0,), "tile": (6, 8), "stride": 0.5},
    {"scales": (1.0,), "tile": (4, 20)},
    {"scales": (0.5, 1.0)},
    {"scales": (0.5, 1.0, 1.75), "flip": True},
    {"scales": (0.5, 1.25), "flip": True, "combine": "softmax", "stride": 2 / 3},
    {"scales": SETTINGS["multi-pascal"].scales, "flip": True, "stride": 2 / 3},
    {"scales": (0.25,), "base_size": 16},
    {"scales": (1.0,), "base_size": 16},
    {"scales": (0.5, 1.0, 1.25), "flip": True, "base_size": 16},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_equal_explicit_loops(case):
    batch = images()
    with torch.no_grad():
        scores = MultiScale(Toy(), **case)(batch)
    expected = np.stack([reference(image.double().numpy(), **case) for image in batch])
    if len(case["scales"]) > 1:  # several scales: logarithms
        np.testing.assert_allclose(scores.numpy(), np.log(expected), atol=2e-4)
        return
    full = at_full_size(scores, batch.shape[2:]).double().numpy()
    ratio = full / expected  # one scale: up to one factor per image
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1, :1, :1], ratio.shape), rtol=1e-4)
    assert (full.argmax(1) == expected.argmax(1)).mean() > 0.999


def test_the_single_scale_one_is_the_model(votes, network, image):
    wrapped = MultiScale(network, (1.0,)).eval()
    batch = image[None]
    assert torch.equal(wrapped(batch), network(batch))
    ours, theirs = votes(wrapped), votes(network)
    assert (ours.candidate == theirs.candidate).all()
    assert (ours.agree == theirs.agree).all()


def test_one_scale_without_its_short_cuts_labels_as_the_model_does():
    batch = images((8, 12))
    model = lambda batch: Toy()(batch).repeat_interleave(2, 2).repeat_interleave(2, 3)  # noqa: E731
    with torch.no_grad():
        tiled = MultiScale(model, (1.0,), tile=(8, 12))(batch)  # one tile: exp, no resize
        assert torch.equal(tiled.argmax(1), model(batch).argmax(1))


@pytest.mark.parametrize("gain", [1.0, 30.0, 1e3, 1e6, 1e30])
@pytest.mark.parametrize("scales", [(0.5,), (1.5,), (0.5, 1.0, 1.5)])
@pytest.mark.parametrize("combine", ["exp", "softmax"])
def test_scores_are_finite_whatever_the_logits(gain, scales, combine):
    batch = images((12, 16))
    with torch.no_grad():
        scores = at_full_size(MultiScale(Toy(gain), scales, flip=True, combine=combine)(batch), batch.shape[2:])
    assert torch.isfinite(scores).all()
    best = scores.topk(2, 1).values
    assert ((best[:, 0] - best[:, 1]) != 0).float().mean() > 0.99  # no ties from underflow


def test_both_ways_to_sum_exponentials_agree(monkeypatch):
    batch = images((20, 28))
    wrapped = MultiScale(Toy(), (0.5,))
    with torch.no_grad():
        linear = at_full_size(wrapped(batch), batch.shape[2:])
        monkeypatch.setattr(multiscale, "SAFE_SPREAD", -1.0)
        logs = wrapped(batch)
    assert logs.shape == linear.shape
    shift = (logs - linear.log()).flatten(1)
    torch.testing.assert_close(shift, shift[:, :1].expand_as(shift), atol=1e-4, rtol=0)


@pytest.mark.parametrize("scales", [(0.5,), (1.5,), (0.5, 1.25)])
def test_entries_of_a_batch_do_not_influence_each_other(scales):
    batch = images((12, 16), batch=3)
    batch[1] *= 400  # this one alone needs the log domain
    wrapped = MultiScale(Toy(), scales, flip=True)
    with torch.no_grad():
        together = wrapped(batch)
        alone = [at_full_size(wrapped(entry[None]), batch.shape[2:])[0] for entry in batch]
    for entry, single in zip(together, alone, strict=True):
        assert torch.equal(entry, single)


def test_no_tile_exceeds_the_image():
    model = Toy()
    with torch.no_grad():
        MultiScale(model, SETTINGS["multi"].scales, flip=True)(images((10, 14), batch=1))
    assert max(shape[2] for shape in model.seen) == 10
    assert max(shape[3] for shape in model.seen) == 14
    model.seen.clear()
    with torch.no_grad():
        MultiScale(model, (1.0, 2.0), tile=(5, 6))(images((10, 14), batch=1))
    assert {shape[2:] for shape in model.seen} == {(5, 6)}


@pytest.mark.parametrize("scales", [(0.5,), (1.5,), (0.5, 1.0, 1.75)])
@pytest.mark.parametrize("gain", [GAIN, 1e3])
def test_gradients_reach_the_image(scales, gain):
    """Attacks need them; 1e3 takes the way through the log domain."""
    batch = images((12, 16)).requires_grad_()
    MultiScale(Toy(gain), scales, flip=True)(batch).sum().backward()
    assert torch.isfinite(batch.grad).all()
    assert (batch.grad != 0).float().mean() > 0.2


def test_coarse_scores_stay_coarse_for_one_small_scale():
    with torch.no_grad():
        assert MultiScale(Toy(), (0.25,))(images((16, 24))).shape == (2, 6, 4, 6)
        assert MultiScale(Toy(), (0.25, 0.5))(images((16, 24))).shape == (2, 6, 16, 24)


def test_pascal_context_has_the_sizes_of_the_released_code():
    """480 x 480 pixels: scale 1 is 520 x 520 in one pass; only above are there tiles of 480, a whole tile apart."""
    model = Toy()
    with torch.no_grad():
        MultiScale(model, **asdict(setting("multi-pascal")))(images((480, 480), batch=1))
    sizes = [shape[2:] for shape in model.seen][::2]  # the other ones are flipped
    one, two = [(480, 480)] * 4, [(480, 480)] * 9  # 650, 780 and 910 pixels in 2 x 2 tiles, 1040 in 3 x 3
    assert sizes == [(260, 260), (390, 390), (520, 520), *one, *one, *one, *two]
    assert MultiScale(model, (0.25,), base_size=520).resized((480, 480), 0.25) == (130, 130)
    assert MultiScale(model, (0.25,)).resized((480, 480), 0.25) == (120, 120)


def test_a_base_size_is_part_of_the_identity_only_where_there_is_one():
    assert "base_size" not in MultiScale(Toy(), (0.5,)).identity()
    assert MultiScale(Toy(), (0.5,), base_size=520).identity()["base_size"] == 520


def test_settings():
    assert setting("0.25").scales == (0.25,)
    assert setting("0.5,1").scales == (0.5, 1.0)
    assert setting("multi").scales == (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
    assert setting("multi-pascal").scales == (*setting("multi").scales, 2.0)
    assert setting("multi").flip
    assert (setting("multi").base_size, setting("multi-pascal").base_size) == (None, 520)
    assert not setting("1.0").flip


def test_a_random_model_stays_random(image):
    class Noisy(nn.Module):
        random = True

        def forward(self, batch, seeds):
            shifts = [torch.rand(3, 1, 1, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
            return batch + torch.stack(shifts)

    wrapped = MultiScale(Noisy().eval(), (0.5, 1.0))
    assert wrapped.random
    votes = sc.sample(wrapped, image, noise=sc.Gaussian(0.1), n=5, n0=2, seed=0)
    assert votes.candidate.shape == (16, 24)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiScale(Toy(), ()), "at least one scale"),
        (lambda: MultiScale(Toy(), (0.5, 0)), "a scale must be positive, but got 0"),
        (lambda: MultiScale(Toy(), (math.inf,)), "a scale must be finite"),
        (lambda: MultiScale(Toy(), combine="sum"), "'exp' or 'softmax', but got 'sum'"),
        (lambda: MultiScale(Toy(), tile=(0, 4)), "a side of tile must be an integer not less than 1"),
        (lambda: MultiScale(Toy(), tile=(4,)), r"tile must be \(height, width\)"),
        (lambda: MultiScale(Toy(), base_size=0), "base_size must be an integer not less than 1"),
        (lambda: MultiScale(Toy(), stride=1.5), r"stride must lie in \(0, 1\].*gaps"),
        (lambda: MultiScale(3), "model must be callable"),
        (
            lambda: setting("large"),
            "unknown scale 'large': use a number, a list such as 0.5,1.0, multi or multi-pascal",
        ),
        (lambda: MultiScale(Toy(), (0.5,))(torch.zeros(2, 3, 4)), r"images \(B, channels, H, W\), but got shape"),
        (lambda: MultiScale(lambda batch: batch.argmax(1), (0.5,))(images()), "scales combine logits.*torch.int64"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_model_that_gives_nan_is_refused(image):
    with pytest.raises(InputError, match="not finite"):
        sc.sample(
            MultiScale(lambda batch: batch * torch.nan, (0.5, 1.0)), image, noise=sc.Gaussian(0.1), n=2, n0=1, seed=0
        )
