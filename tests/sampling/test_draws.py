"""Draws: addressed noise, any model, refused models and inputs (points 1 and 3 of the sampling contract)."""

import itertools
import math

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes
from torch import nn

import segcertify as sc
from segcertify.errors import InputError
from segcertify.sampling.segmenter import for_category, require_ready, upsampled
from segcertify.sampling.streams import DrawStream


def recorded(noise=NOISE, **arguments):
    """All inputs that the model saw in batches of more than two, in order: probes and checks have two."""
    seen = []

    def model(batch):
        if len(batch) > 2:
            seen.append(batch.clone())
        return stripes(batch)

    votes = sc.sample(model, image(), noise=noise, **{"seed": 0, **arguments})
    return votes, torch.cat(seen)


# --- 1. Draw j's noise depends on (seed, input id, j) alone ---


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 64, None])
def test_votes_do_not_depend_on_the_batch_size(batch_size):
    assert same(
        sc.sample(stripes, image(), noise=NOISE, batch_size=5, seed=0),
        sc.sample(stripes, image(), noise=NOISE, batch_size=batch_size, seed=0),
    )


def test_votes_do_not_depend_on_whether_candidates_share_a_batch_with_other_draws(monkeypatch):
    """On CUDA they do: each draw still counts where it counts alone."""
    model, sizes = Conv(stride=2).eval(), []
    apart = sc.sample(model, image(), noise=NOISE, n=30, n0=5, batch_size=7, seed=0)
    monkeypatch.setattr("segcertify.sampling.draws.like_cuda", lambda tensor: True)
    model.register_forward_hook(lambda model, batch, output: sizes.append(len(output)))
    assert same(apart, sc.sample(model, image(), noise=NOISE, n=30, n0=5, seed=0))
    assert [size for size in sizes if size > 2] == [21, 21]  # 35 draws, 6 that are asked again, and one to fill up


def test_all_draws_of_a_run_differ():
    """The released SegCertify code gives every entry of a batch the same noise."""
    _, runs = recorded(n=60, n0=20, batch_size=16)
    assert len(runs) == 80
    assert len({entry.numpy().tobytes() for entry in runs}) == 80
    noise = (runs - image()).flatten(1)
    correlation = np.corrcoef(noise.numpy())[np.triu_indices(80, 1)]
    assert abs(correlation).max() < 6 / np.sqrt(noise.shape[1])  # 3,160 pairs, false alarms below 1e-5


def test_candidate_and_agreement_draws_share_nothing():
    _, seen = recorded(n=40, n0=40, batch_size=40)
    candidate, agree = seen[:40], seen[40:]
    assert len(agree) == 40
    assert not any(torch.equal(a, b) for a, b in itertools.product(candidate, agree))


def test_keys_decide():
    base = {"noise": NOISE, "n": 30, "n0": 5}
    reference = sc.sample(stripes, image(), **base, seed=1, input_id="a")
    assert same(reference, sc.sample(stripes, image(), **base, seed=1, input_id="a"))
    assert not same(reference, sc.sample(stripes, image(), **base, seed=2, input_id="a"))
    assert not same(reference, sc.sample(stripes, image(), **base, seed=1, input_id="b"))


def test_global_random_state_is_neither_read_nor_set():
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    first = sc.sample(stripes, image(), noise=NOISE, seed=0)
    states = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    torch.manual_seed(2)
    np.random.seed(1)  # noqa: NPY002
    assert same(first, sc.sample(stripes, image(), noise=NOISE, seed=0))
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(1)
    assert torch.equal(states[0], torch.get_rng_state())


def test_seeds_that_torchs_cpu_generator_would_confuse_do_not_collide():
    """torch.Generator().manual_seed keeps 32 bits on the CPU; 100,000 draws of ours have 100,000 keys."""
    a, b = (torch.empty(8).normal_(generator=torch.Generator().manual_seed(s)) for s in (5, 5 + 2**32))
    assert torch.equal(a, b)  # why we do not use it
    keys = {DrawStream(0, "", "agree", j).rng.bit_generator.state["state"]["state"].tobytes() for j in range(100_000)}
    assert len(keys) == 100_000
    assert len({DrawStream(s, "", "agree", 0).model_seed for s in (5, 5 + 2**32, 5 + 2**64)}) == 3


# --- models ---


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_logits_are_upsampled_to_the_image(stride):
    model = Conv(stride).eval()
    votes = sc.sample(model, image(), noise=NOISE, n=20, n0=5, seed=0)
    assert votes.candidate.shape == (12, 16)

    def labels(batch):
        with torch.no_grad():
            return nn.functional.interpolate(model(batch), (12, 16), mode="bilinear", align_corners=False).argmax(1)

    assert same(votes, sc.sample(labels, image(), noise=NOISE, n=20, n0=5, seed=0))


@pytest.mark.parametrize("size", [(9, 10), (13, 29), (64, 48), (33, 100)])
@pytest.mark.parametrize("stride", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("rounds", [math.floor, math.ceil, round])
def test_logits_of_any_stride_are_upsampled(size, stride, rounds):
    sides = [max(1, rounds(side / stride)) for side in size]
    batch = torch.rand(1, 3, *size)
    assert upsampled(torch.rand(1, 4, *sides), batch).shape == (1, 4, *size)


@pytest.mark.parametrize(
    ("logits", "extent"),
    [((4, 8, 8), (24, 48)), ((4, 128, 128), (480, 640)), ((4, 16, 16, 16), (16, 64, 64)), ((3, 4, 16), (12, 16))],
)
def test_logits_of_a_size_of_their_own_are_upsampled(logits, extent):
    """Of models that resize inside, or have other strides along other axes."""
    assert upsampled(torch.rand(1, *logits), torch.rand(1, 3, *extent)).shape == (1, logits[0], *extent)


def test_coarse_logits_with_classes_last_are_refused():
    with pytest.raises(sc.InputError, match="seem to have their classes last"):
        sc.sample(lambda b: b[..., ::4, ::4].permute(0, 2, 3, 1).repeat(1, 1, 1, 4), image(), noise=NOISE, seed=0)


@pytest.mark.parametrize(
    ("shape", "model", "components"),
    [
        ((3, 12, 16), lambda b: torch.stack([b.sum(1), -b.sum(1)], 1), (12, 16)),  # image
        ((1, 6, 7, 8), lambda b: torch.cat([b, -b], 1), (6, 7, 8)),  # volume
        ((2, 8, 8, 8), lambda b: nn.functional.avg_pool3d(b, 2), (8, 8, 8)),  # coarse volume
        ((50, 3), lambda b: torch.stack([b[..., 0], b[..., 1]], 1), (50,)),  # points
        ((9,), lambda b: torch.stack([b, -b], 1), (9,)),  # vector
        ((9,), lambda b: b > 0, (9,)),  # boolean labels
        ((3, 4, 5), lambda b: b.flatten(1)[:, :4], ()),  # classifier
        ((3, 4, 5), lambda b: (b.flatten(1)[:, :7] > 0.5).to(torch.uint8), (7,)),  # components of their own
    ],
)
def test_any_components(shape, model, components):
    x = image(shape=shape) - 0.2
    votes = sc.sample(model, x, noise=sc.Gaussian(0.1), n=30, n0=9, seed=0)
    assert votes.candidate.shape == components
    assert votes.input_shape == shape
    brute = slow_votes(model, x, sc.Gaussian(0.1), n=30, n0=9)
    assert same(votes, brute)


def slow_votes(model, x, noise, n, n0):
    """All labels kept, counted with plain Python."""

    def labels(phase, count):
        maps = []
        for j in range(count):
            out = model(noise.draw(x, [DrawStream(0, "", phase, j)]))
            if out.is_floating_point() and out.ndim == x.ndim + 1 and x.ndim > 2:
                mode = "trilinear" if x.ndim == 4 else "bilinear"
                out = nn.functional.interpolate(out, x.shape[1:], mode=mode, align_corners=False)
            maps.append((out.argmax(1) if out.is_floating_point() else out.long())[0].numpy())
        return np.stack(maps)

    pilot, main = labels("candidate", n0), labels("agree", n)
    candidate = np.apply_along_axis(lambda column: np.bincount(column).argmax(), 0, pilot.reshape(n0, -1))
    candidate = candidate.reshape(pilot.shape[1:])
    return sc.Votes(candidate, (main == candidate).sum(0), n=n, n0=n0, noise=noise)


class Script:
    """A random model that answers from a list, draw by draw: it knows them by their seeds."""

    random = True

    def __init__(self, **answers):
        self.answers = {
            DrawStream(0, "", phase, j).model_seed: answer
            for phase, each in answers.items()
            for j, answer in enumerate(each)
        }

    def __call__(self, batch, seeds):
        return torch.tensor([self.answers.get(seed, 0) for seed in seeds])[:, None].expand(-1, 4).clone()


def test_ties_go_to_the_lowest_label():
    model = Script(candidate=[3, 1, 1, 3], agree=[1, 1, 3])
    votes = sc.sample(model, image(), noise=NOISE, n=3, n0=4, seed=0, batch_size=2)
    assert votes.candidate.tolist() == [1, 1, 1, 1]
    assert votes.agree.tolist() == [2, 2, 2, 2]


def test_a_half_precision_model_gets_half_precision_inputs_with_single_precision_noise():
    seen = []
    model = Conv().to(torch.bfloat16).eval()
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    votes = sc.sample(model, image(), noise=NOISE, n=4, n0=2, seed=0)
    assert set(seen) == {torch.bfloat16}
    assert votes.candidate.shape == (12, 16)


def test_numpy_inputs_and_noncontiguous_inputs_give_the_same_votes():
    x = image()
    reference = sc.sample(stripes, x, noise=NOISE, n=20, seed=0)
    assert same(reference, sc.sample(stripes, x.numpy(), noise=NOISE, n=20, seed=0))
    odd = x.numpy().astype(">f4")[:, ::-1][:, ::-1]  # big-endian, and once with negative strides
    assert same(reference, sc.sample(stripes, odd, noise=NOISE, n=20, seed=0))
    assert sc.sample(stripes, x.numpy()[::-1], noise=NOISE, n=20, seed=0).n == 20
    swapped = x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert same(reference, sc.sample(stripes, swapped, noise=NOISE, n=20, seed=0))


class Dice:
    """A model that is itself random: labels from the seeds alone."""

    random = True

    def __call__(self, batch, seeds):
        rows = [np.random.default_rng(seed).integers(0, 3, batch.shape[1:]) for seed in seeds]
        return torch.from_numpy(np.stack(rows))


def test_random_models_get_a_seed_per_draw():
    votes = sc.sample(Dice(), image(), noise=NOISE, n=60, n0=9, batch_size=7, seed=0)
    assert same(votes, sc.sample(Dice(), image(), noise=NOISE, n=60, n0=9, batch_size=60, seed=0))
    assert 0.2 < votes.agree.mean() / 60 < 0.5
    assert ((votes.agree > 3) & (votes.agree < 42)).all()  # Bin(60, 1/3): beyond with probability below 1e-6 each


class Shrinking(Conv):
    """A network that on CUDA is asked at the size to which it resizes images: it keeps the seeds given to it there."""

    def __init__(self, random=False):
        super().__init__()
        self.random, self.given = random, []

    def resized_to(self, size):
        return 6, 8

    def log_scores(self, image, seeds=None):
        self.given.append(seeds)
        return self.layer(image)[:, :, ::2, ::2]

    def forward(self, image, seeds=None):
        return self.layer(image)


@pytest.mark.parametrize("random", [False, True])
def test_a_model_that_is_asked_at_the_size_it_reads_gets_a_seed_per_draw_if_it_is_random(monkeypatch, random):
    """On CUDA noise goes on at that size, and the model gives scores: here the noise is of the whole image."""
    model = Shrinking(random).eval()
    draws = sc.Smooth(model, NOISE, seed=5).draws(image(), "x")
    monkeypatch.setattr(type(draws), "_read_size", (6, 8))
    drawn = draws.made([("agree", j) for j in range(3)])
    streams = [DrawStream(5, "x", "agree", index) for index in range(3)]
    assert model.given == [[stream.model_seed for stream in streams] if random else None]
    assert drawn.labels.shape == (3, 12, 16)


def test_where_noise_is_drawn_on_the_whole_image_a_model_that_resizes_gives_its_own_labels(monkeypatch):
    monkeypatch.setattr("segcertify.sampling.draws.fused", lambda tensor: False)  # as on the CPU
    model, settings = Shrinking().eval(), {"noise": NOISE, "n": 20, "n0": 5, "seed": 0}
    assert same(sc.sample(model, image(), **settings), sc.sample(Conv().eval(), image(), **settings))
    assert model.given == []


def test_mask_chooses_what_is_tested():
    mask = np.zeros((3, 12, 16), bool)
    mask[0] = True
    votes = sc.sample(stripes, image(), noise=NOISE, mask=mask, seed=0)
    assert votes.N == 192
    whole = sc.sample(stripes, image(), noise=NOISE, seed=0)
    assert same(votes, whole)
    assert sc.certify_votes(votes, tau=0.75, alpha=0.5).labels[1:].max() == sc.ABSTAIN


def test_noise_is_never_clipped():
    _, seen = recorded(n=20, n0=2)
    assert seen.min() < 0
    assert seen.max() > 1


# --- 3. bad input ---


def nan_model(batch):
    logits = torch.stack([batch, -batch], 1)
    logits[-1, 0, 0, 0, 0] = float("nan")
    return logits


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (Conv(), image(), r"in training mode \(Conv and others\).* Call model.eval\(\) first"),
        (nan_model, image(), "logits that are not finite"),
        (lambda b: torch.stack([b, b * float("inf")], 1), image(), "logits that are not finite"),
        (lambda b: b[:1], image(), r"gave shape \(1, 3, 12, 16\) for a batch of 2"),
        (lambda b: b.sum(), image(), r"gave shape \(\) for a batch of 2"),
        (lambda b: b.sum((1, 2, 3)), image(), r"logits must be \(B, classes, \*components\)"),
        (
            lambda b: {"a": b, "b": b},
            image(),
            "a dict with the keys 'a', 'b' and tensors .* say which holds the scores",
        ),
        (lambda b: stripes(b)[:, 0, :6, :8], image(), r"labels of size \(6, 8\) do not cover the input's \(12, 16\)"),
        (lambda b: b.repeat(1, 1, 2, 2), image(), r"logits of size \(24, 32\) are finer than the input's \(12, 16\)"),
        (lambda b: stripes(b) - 30, image(), r"labels must lie in 0 .. 32766, but the model gave -"),
        (lambda b: stripes(b)[:, :0], image(), "no components"),
        (Conv().eval(), image()[None], r"failed when called .* of shape \(2, 1, 3, 12, 16\).*without a batch axis"),
        (lambda b: stripes(b + torch.rand(1)), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b - b.mean()), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b[:1].expand_as(b)), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b if len(b) < 3 else b[:1].expand_as(b)), image(), "different answers to the same noisy"),
        (lambda b: torch.stack([b, 1 - b + b.mean()], 1), image(), "different answers to the same noisy input"),
        (lambda b: b.mean(1, keepdim=True), image(), "have one class, so every label would be 0"),
        (lambda b: b.mean(1), image(), "have no class axis: return logits, or integer labels"),
        (lambda b: b.permute(0, 2, 3, 1), image(), "have their classes last"),
        (lambda b: b, torch.rand(50, 3), "have their classes last"),
        (stripes, [1.0, "a"], "x must be a tensor or an array of floats, but got list"),
        (stripes, None, "x must be a tensor or an array of floats"),
        (stripes, image().to_sparse(), "x must be dense"),
        (stripes, (image() * 255).to(torch.uint8), "x must hold floats, but got torch.uint8: for 8-bit images divide"),
        (stripes, image() / 0, "x has 576 entries that are NaN or infinite"),
        (stripes, torch.zeros(3, 0), "x is empty"),
        (42, image(), "model must be callable"),
    ],
)
def test_bad_models_and_inputs(model, x, message):
    with pytest.raises(sc.InputError, match=message):
        sc.sample(model, x, noise=NOISE, seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be an integer not less than 1, but got 0"),
        ({"n0": -1}, "n0 must be"),
        ({"seed": -1}, "seed must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"first": -1}, "first must be"),
        ({"prefixes": 5}, "prefixes must be a sequence"),
        ({"device": "gpu"}, "device must be such as 'cpu' or 'cuda'"),
        ({"noise": sc.Gaussian}, "noise must be a noise such as Gaussian"),
        ({"checkpoint": "/"}, "it is a folder"),
        ({"checkpoint": "/proc/none/file"}, "cannot write /proc/none/file"),
        ({"prefixes": (101,)}, "prefixes must not exceed n=100, but got 101"),
        ({"mask": np.ones((2, 2), bool)}, r"mask must be boolean of shape \(3, 12, 16\)"),
        ({"noise": 0.25}, "noise must be a noise"),
        ({"noise": sc.Rotation(0.25)}, r"rotations need inputs of shape \(points, columns\)"),
        ({"noise": sc.Gaussian(0.25, channels=(3,))}, "which has 3"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(sc.InputError, match=message):
        sc.sample(stripes, image(), **({"noise": NOISE, "seed": 0} | arguments))


def test_nan_that_comes_late_is_still_caught():
    """A model that breaks for rare noise only, long after the probe."""

    calls = []

    def rare(batch):
        calls.append(len(batch))
        logits = torch.stack([batch, -batch], 1)
        return torch.where(batch[:, None] > 1.9, float("nan"), logits)

    with pytest.raises(sc.InputError, match="not finite"):
        sc.sample(rare, image(), noise=NOISE, n=4000, batch_size=4, seed=0)
    assert len(calls) > 6  # the probe and the first batches went well


def test_a_model_with_the_method_of_version_1_is_refused():
    class Old:
        def given(self, category):
            return self

    with pytest.raises(InputError, match="now called for_category: rename it"):
        for_category(Old(), "Chair")
    for_category(Old(), "")  # of an image nothing is to be told: a method of that name may be another
    model = lambda batch: batch  # noqa: E731
    assert for_category(model, "Chair") is model


@pytest.mark.parametrize("size", [7, 8])
def test_logits_that_are_hardly_coarser_are_no_classes_last(size):
    """As many classes as the image has rows but one: a network without padding loses a row."""
    assert upsampled(torch.rand(1, 7, 7, size), torch.rand(1, 3, 8, 8)).shape == (1, 7, 8, 8)


def test_a_network_on_another_device_of_the_same_kind_is_refused():
    """As a network on the first GPU, if sampling is on the second: here on devices that hold no numbers."""
    network = nn.Linear(1, 1, device="meta").eval()
    require_ready(network, torch.device("meta"))
    with pytest.raises(sc.InputError, match="parameter weight is on meta, but sampling is on meta:1"):
        require_ready(network, torch.device("meta:1"))


@pytest.mark.parametrize(
    ("counts", "size", "even", "planned"),
    [
        ((25, 10), 8, False, [8, 2, 8, 8, 8, 1]),
        ((5, 0), 3, False, [3, 2]),
        ((25, 10), 8, True, [7] * 6),  # 41 with the six that are asked again, and one to fill up
        ((25, 10), 24, True, [21, 21]),  # draws for agreement join the candidates
        ((25, 10), 400, True, [21, 21]),
        ((100, 0), 400, True, [53, 53]),
        ((90, 10), 30, True, [27] * 4),
        ((3, 0), 8, True, [3, 2, 1]),  # too few for another batch: asked again at once
    ],
)
def test_the_batches_of_a_run(monkeypatch, counts, size, even, planned):
    """As on CUDA where ``even``. However draws are put together, each is what it is in a batch of its own."""
    (n, n0), sizes = counts, []

    def model(batch):
        sizes.append(len(batch))
        return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

    monkeypatch.setattr("segcertify.sampling.draws.like_cuda", lambda tensor: True)
    smooth = sc.Smooth(model, NOISE, seed=0, batch_size=size)
    draws = smooth.draws(image())
    draws.even, draws.ahead = even, range(n)
    sizes.clear()
    draws._verified_sizes.update(() if even else range(size + 1))
    draws.probe.sizes.update(range(2, size + 1))  # no answers of a few
    phases = [("candidate", n0), ("agree", n)] if n0 else [("agree", n)]
    found = {phase: [drawn.labels for _, drawn in draws.outputs(phase, 0, count)] for phase, count in phases}
    assert sizes == planned
    for phase, count in phases:
        alone = [draws.made([(phase, index)]).labels for index in range(count)]
        assert torch.equal(torch.cat(found[phase]), torch.cat(alone))
