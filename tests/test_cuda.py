"""The sampling contract on a GPU. Needs no package that the GPU machine lacks."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, kstest, laplace, norm, uniform
from torch import nn

import segcertify as sc
from segcertify.models import MultiScale
from segcertify.sampling.identity import Execution
from segcertify.sampling.kernels import philox, scores
from segcertify.sampling.kernels.scores import Scores
from segcertify.sampling.streams import DrawStream, Wanted, key_words

pytestmark = pytest.mark.cuda

NOISES = [
    (sc.Gaussian(0.25), (3, 16, 20)),
    (sc.Gaussian(0.25, channels=(0, 2)), (3, 16, 20)),
    (sc.Laplace(0.25), (3, 16, 20)),
    (sc.Uniform(0.25), (3, 16, 20)),
    (sc.AxisRotation(0.25), (64, 6)),
    (sc.Rotation(0.25), (64, 6)),
]
every = pytest.mark.parametrize(("noise", "shape"), NOISES, ids=[str(noise) for noise, _ in NOISES])


def an_input(shape):
    return torch.from_numpy(np.random.default_rng(0).random(shape)).float()


def stripes(batch):
    return torch.clamp((4 * batch).floor(), -40, 40).long() + 40


def same(a, b):
    return np.array_equal(a.candidate, b.candidate) and np.array_equal(a.agree, b.agree)


@every
def test_draws_differ_and_do_not_depend_on_the_batch(noise, shape):
    x = an_input(shape).cuda()
    whole = noise.draw(x, [DrawStream(0, "", "agree", j) for j in range(9)])
    parts = [noise.draw(x, [DrawStream(0, "", "agree", j) for j in range(a, b)]) for a, b in [(0, 1), (1, 5), (5, 9)]]
    assert torch.equal(whole, torch.cat(parts))
    assert len({entry.cpu().numpy().tobytes() for entry in whole}) == 9


@every
@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_votes_do_not_depend_on_the_batch_size(noise, shape, batch_size):
    settings = {"noise": noise, "n": 40, "n0": 5, "device": "cuda", "seed": 0}
    reference = sc.sample(stripes, an_input(shape), **settings, batch_size=13)
    assert same(reference, sc.sample(stripes, an_input(shape), **settings, batch_size=batch_size))


def test_the_first_draws_for_agreement_share_the_candidates_batch():
    """One pass instead of two, and the same votes; looks and counts of all classes too.

    Of a model that gives logits there are two, of which the second asks six draws of the first again.
    """
    sizes = []

    def model(batch):
        sizes.append(len(batch))
        return stripes(batch)

    def logits(batch):
        sizes.append(len(batch))
        return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

    x, settings = an_input((3, 16, 20)), {"n": 40, "n0": 8}
    smooth, apart = (sc.Smooth(model, sc.Gaussian(0.25), seed=0, device="cuda", batch_size=b) for b in (None, 7))
    joined = smooth.votes(x, **settings)
    assert [size for size in sizes if size > 2] == [48]
    assert same(joined, apart.votes(x, **settings))
    for more in ({"looks": (20, 40)}, {"counts": True}, {"prefixes": (10,)}):
        assert same(smooth.votes(x, **settings, **more), apart.votes(x, **settings, **more))
    smooth, apart = (sc.Smooth(logits, sc.Gaussian(0.25), seed=0, device="cuda", batch_size=b) for b in (None, 7))
    sizes.clear()
    joined = smooth.votes(x, **settings)
    assert [size for size in sizes if size > 2] == [27, 27]
    assert same(joined, apart.votes(x, **settings))


class Copy(nn.Module):
    """What passes for a faster copy: its second answers are asked for beside its batches, on a stream of their own."""

    def __init__(self, leak):
        super().__init__()
        self.leak, self.execution = leak, Execution({"weights": "w", "classes": [], "settings": {}}, "", {"fused": 1})
        self.sizes = []

    def forward(self, batch):
        self.sizes.append(len(batch))
        logits = torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
        return self.leak(logits) if self.leak else logits


LEAKS = {
    "mean": lambda logits: torch.lerp(logits, logits.mean(0, keepdim=True), 0.1),
    "last": lambda logits: torch.lerp(logits, logits[-1:], 0.1),
    "neighbour": lambda logits: torch.lerp(logits, logits.roll(1, 0), 0.1),
    "ends": lambda logits: torch.lerp(logits, (logits[:1] + logits[-1:]) / 2, 0.1),
}


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("name", [None, *LEAKS])
def test_what_entries_of_a_faster_copys_batches_do_to_each_other_is_found(name, one):
    """In two batches, where six draws of the first are asked again in the second, and in one, where threes are."""
    x, model = an_input((3, 16, 20)), Copy(None).eval()
    smooth = sc.Smooth(model, sc.Gaussian(0.25), seed=0, device="cuda")
    if one:
        smooth.votes(x, n=100, n0=10, input_id="first")
    else:
        smooth.draws(x)  # probed
    model.sizes.clear()
    model.leak = LEAKS.get(name)
    if name:
        with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
            smooth.votes(x, n=100, n0=10)
        return
    votes = smooth.votes(x, n=100, n0=10)
    assert sorted(model.sizes) == ([3, 3, 110] if one else [3, 3, 58, 58])
    assert same(votes, sc.Smooth(model, sc.Gaussian(0.25), seed=0, device="cuda", batch_size=9).votes(x, n=100, n0=10))


@pytest.mark.parametrize("n", [40, 300])
def test_the_histogram_is_the_one_of_the_counts(n):
    """The device counts it: it is what NumPy makes of the same counts, and what decides is the same."""
    votes = sc.sample(stripes, an_input((3, 16, 20)), noise=sc.Gaussian(0.25), n=n, n0=5, seed=0, device="cuda")
    assert votes._counted is not None
    assert np.array_equal(votes.histogram(), np.bincount(votes.agree.ravel(), minlength=n + 1))
    mask = np.ones(votes.agree.shape, bool)
    masked = sc.sample(
        stripes, an_input((3, 16, 20)), noise=sc.Gaussian(0.25), n=n, n0=5, seed=0, device="cuda", mask=mask
    )
    assert masked._counted is None
    assert np.array_equal(masked.histogram(), votes.histogram())


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "law"),
    [(sc.Gaussian(0.25), norm(0, 0.25)), (sc.Laplace(0.25), laplace(0, 0.25)), (sc.Uniform(0.25), uniform(-0.25, 0.5))],
)
def test_the_law_is_that_of_the_cpu(noise, law):
    """Kolmogorov-Smirnov on 200,000 numbers and pairwise correlation; false alarms 2e-6."""
    batch = noise.draw(torch.zeros(20_000, device="cuda"), [DrawStream(0, "", "agree", j) for j in range(10)])
    batch = batch.cpu().numpy()
    assert kstest(batch.ravel(), law.cdf).pvalue > 1e-6
    assert abs(np.corrcoef(batch)[np.triu_indices(10, 1)]).max() < 5.9 / np.sqrt(20_000)


@pytest.mark.statistical
def test_the_family_wise_error_of_the_fused_path():
    """All nulls are true, at their edge: p = tau exactly, so every label is a false one. At alpha = 0.2 at most a fifth
    of 400 runs may have one; false alarms 1e-6. Labels of the right class are certified at p = 0.999."""
    x, logits = torch.full((1, 5, 8), 0.25 * norm.ppf(0.75)), lambda batch: torch.cat([-batch, batch], 1)

    def certified(x, seed):
        return sc.certify(logits, x, sigma=0.25, tau=0.75, n=30, alpha=0.2, seed=seed, device="cuda").certified

    false = sum(certified(x, seed) > 0 for seed in range(400))
    assert false > 0
    assert binomtest(false, 400, 0.2, alternative="greater").pvalue > 1e-6
    assert certified(torch.full((1, 5, 8), 0.25 * norm.ppf(0.999)), 0) > 35


@every
def test_all_draws_at_once_are_those_that_streams_fill(noise, shape):
    """The sampler draws a batch in one launch: with the numbers of its streams, each alone and cast later.

    Of noise on every entry alone it asks for another precision.
    """
    x, whole = an_input(shape).cuda(), [DrawStream(3, "", "agree", j) for j in range(6)]
    everywhere = noise.additive and getattr(noise, "channels", None) is None
    together = noise.draw(x, Wanted(whole, dtype=torch.bfloat16 if everywhere else None))
    alone = torch.cat([noise.draw(x, [DrawStream(3, "", "agree", j)]) for j in range(6)])
    assert torch.equal(together, alone.to(together.dtype))


@pytest.mark.parametrize("noise", [sc.Gaussian(0.25), sc.Laplace(0.25), sc.Uniform(0.25)], ids=str)
def test_kernels_are_their_twins(noise):
    """Noise to a few last bits, at full size and where only the pixels are drawn that a resize reads."""
    law, scale, shift = {"Gaussian": ("normal", 0.25, 0.0), "Laplace": ("laplace", 0.25, 0.0),
                         "Uniform": ("uniform", 0.5, -0.5)}[type(noise).__name__]  # fmt: skip
    x, streams = an_input((3, 21, 30)).cuda(), [DrawStream(0, "", "agree", j) for j in range(5)]
    keys = key_words(streams, x.device)
    for size in (None, (5, 8), (21, 30)):
        ours = philox.plus(x, keys, law, scale, shift=shift, size=size)
        twin = philox.plus_twin(x, keys, law, scale, shift, 0, size, x.dtype)
        assert (ours - twin).abs().max() < 5e-6
    assert torch.equal(noise.draw(x, streams), philox.plus(x, keys, law, scale, shift=shift))


def logits_of(coarse, logs):
    values = 4 * torch.randn(6, 5, *coarse, generator=torch.Generator().manual_seed(0))
    if logs:
        values[0] *= 40  # beyond the range of exp
        values[1, 2] = -torch.inf
    return values.cuda()


@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("size", [(28, 60), (19, 33), (7, 15)])
def test_counts_are_the_twins(size, logs):
    """Labels may differ where the two best scores differ by rounding alone: of 10,000 such pixels at most a few."""
    asked, bad = Scores(logits_of((7, 15), logs), size, logs), torch.zeros(1, dtype=torch.int32, device="cuda")
    twin, ours = scores.labels_twin(asked, bad.clone()), scores.label_maps(asked, bad)
    assert (twin != ours).sum() <= 2
    candidate, agree = ours[0].to(torch.int16), torch.full(size, 3, dtype=torch.uint8, device="cuda")
    counts = torch.ones(7, *size, dtype=torch.int16, device="cuda")
    scores.add_agreement(asked, candidate, agree, bad)
    scores.add_class_counts(asked, counts, bad)
    assert torch.equal(agree, 3 + (ours == candidate).sum(0).to(torch.uint8))
    assert torch.equal(counts, torch.ones_like(counts).scatter_add_(0, ours, counts.new_ones(ours.shape)))
    assert not int(bad)
    for value in (torch.nan, torch.inf):
        spoilt = asked.values.clone()
        spoilt[-1, -1, -1, -1] = value
        bad.zero_()
        scores.add_agreement(Scores(spoilt, size, logs), candidate, agree, bad)
        assert int(bad)


def test_votes_do_not_depend_on_how_much_is_fused(monkeypatch):
    """A network behind a resize: noise, scores and counts in kernels; in twins; and as any other model."""
    torch.manual_seed(0)
    model = MultiScale(nn.Conv2d(3, 5, 5, stride=2, padding=2), [0.5]).cuda().eval()
    x, settings = an_input((3, 64, 96)), {"noise": sc.Gaussian(0.25), "n": 30, "n0": 6, "seed": 0, "device": "cuda"}
    fused = sc.sample(model, x, **settings)
    assert same(fused, sc.sample(model, x, **settings, batch_size=7))
    counted = sc.sample(model, x, **settings, counts=True)
    assert same(fused, counted)
    plain = sc.sample(model.forward, x, **settings)
    monkeypatch.setattr("segcertify.sampling.kernels.fused.has_triton", lambda: False)
    twins = sc.sample(model, x, **settings)
    for other in (plain, twins):  # rounding decides near ties
        assert (fused.candidate != other.candidate).mean() < 0.002
        assert np.abs(fused.agree.astype(int) - other.agree).mean() < 0.01


def test_scores_that_are_not_finite_never_leave_the_sampler(tmp_path):
    """Late and rare, in the fused path: no votes, no counts, and no checkpoint is written from then on."""
    calls = []

    def late(batch):
        calls.append(1)
        logits = nn.functional.avg_pool2d(batch, 4)
        if len(calls) > 12:
            logits[-1, 1, 3, 4] = torch.nan
        return logits

    path, x = tmp_path / "resume", an_input((3, 32, 48))
    settings = {"noise": sc.Gaussian(0.25), "n": 60, "n0": 6, "batch_size": 6, "seed": 0, "device": "cuda"}
    with pytest.raises(sc.InputError, match="not finite"):
        sc.sample(late, x, **settings, checkpoint=path, checkpoint_every=0)
    calls.clear()
    with pytest.raises(sc.InputError, match="not finite"):
        sc.Smooth(late, sc.Gaussian(0.25), batch_size=6, seed=0, device="cuda").counts(x, n=90)
    resumed = sc.sample(lambda batch: nn.functional.avg_pool2d(batch, 4), x, **settings, checkpoint=path)
    assert same(resumed, sc.sample(lambda batch: nn.functional.avg_pool2d(batch, 4), x, **settings))


def test_a_model_may_use_its_output_again():
    """As a captured CUDA graph does."""
    held = {}

    def thrifty(batch):
        logits = nn.functional.avg_pool2d(batch, 4)
        return held.setdefault(batch.shape, torch.empty_like(logits)).copy_(logits)

    settings = {"noise": sc.Gaussian(0.25), "n": 40, "n0": 8, "seed": 0, "device": "cuda"}
    plain = sc.sample(lambda batch: nn.functional.avg_pool2d(batch, 4), an_input((3, 32, 48)), **settings)
    assert same(sc.sample(thrifty, an_input((3, 32, 48)), **settings), plain)


def test_cross_talk_is_found_in_the_fused_path():
    """Entries that are all the last one, in batches above the probe's; also behind a resize."""
    network = nn.Conv2d(3, 4, 3, padding=1).cuda().eval()

    def leaking(batch):
        logits = network(batch)
        return logits[-1:].expand_as(logits).clone() if len(batch) > 2 else logits

    for model in (leaking, MultiScale(leaking, [0.5])):
        with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
            sc.sample(model, an_input((3, 32, 48)), noise=sc.Gaussian(0.25), seed=0, device="cuda")


def test_the_loop_does_not_wait_for_the_device():
    """From noise to counts, once the batch size is verified: torch is told to fail at any synchronisation."""
    model = nn.Conv2d(3, 5, 4, stride=4).cuda().eval()
    x = an_input((3, 64, 96)).cuda()
    draws = sc.Smooth(model, sc.Gaussian(0.25), seed=0, batch_size=8).draws(x)
    agree, candidate = draws.zeros(80), draws.zeros(32_766)
    batches = draws.outputs("agree", 0, 80)
    next(batches)[1].add_agreement(candidate, agree)
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(8):
            next(batches)[1].add_agreement(candidate, agree)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    assert int(agree.sum()) > 0


def test_a_network_in_memory_that_runs_out_halves_its_batch():
    """A batch far too large for the card: the sampler halves it and finishes with the right votes."""

    class Hungry(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3, padding=1)
            self.sizes = []

        def forward(self, batch):
            self.sizes.append(len(batch))
            torch.empty(len(batch) * 2**31, dtype=torch.uint8, device="cuda")  # 2 GiB an entry
            return self.layer(batch)

    torch.manual_seed(0)
    model = Hungry().cuda().eval()
    x = an_input((3, 32, 32))
    votes = sc.sample(model, x, noise=sc.Gaussian(0.25), n=300, n0=4, batch_size=256, seed=0)
    assert max(model.sizes) == 256
    assert sorted(set(model.sizes))[-2] in (128, 64, 44, 32)
    assert votes.agree.max() <= 300
    automatic = sc.sample(model, x, noise=sc.Gaussian(0.25), n=300, n0=4, seed=0)
    assert (automatic.agree != votes.agree).mean() < 0.01  # the same noise; rounding may move a near tie


def test_an_interrupted_run_resumes(tmp_path):
    class StopError(BaseException):
        pass

    calls = []

    def mortal(batch):
        calls.append(1)
        if len(calls) == 9:
            raise StopError
        return stripes(batch)

    settings = {"noise": sc.Gaussian(0.25), "n": 60, "n0": 6, "batch_size": 6, "device": "cuda", "seed": 0}
    x, path = an_input((3, 16, 20)), tmp_path / "resume"
    with pytest.raises(StopError):
        sc.sample(mortal, x, **settings, checkpoint=path, checkpoint_every=0)
    resumed = sc.sample(stripes, x, **settings, checkpoint=path)
    assert same(resumed, sc.sample(stripes, x, **settings))
    with pytest.raises(sc.InputError, match="its device is 'cuda', now it is 'cpu'"):
        sc.sample(stripes, x, **(settings | {"device": "cpu"}), checkpoint=path)


def test_a_model_on_another_device_is_refused():
    with pytest.raises(sc.InputError, match=r"is on cpu, but sampling is on cuda"):
        sc.sample(nn.Conv2d(3, 4, 1).eval(), an_input((3, 8, 8)), noise=sc.Gaussian(0.25), device="cuda", seed=0)


def test_certificates_agree_between_devices():
    """Different bits, the same law: no certified label differs, and as many are certified (5 standard errors)."""
    x = an_input((3, 64, 64))
    cpu, cuda = (sc.certify(stripes, x, sigma=0.05, n=100, device=device, seed=0) for device in ("cpu", "cuda"))
    both = ~cpu.abstained & ~cuda.abstained
    assert np.array_equal(cpu.labels[both], cuda.labels[both])
    wavering = (cpu.abstained != cuda.abstained).sum()
    assert abs(cpu.certified - cuda.certified) < 5 * np.sqrt(wavering)


def test_full_size_frames():
    """1024 x 2048 with 19 classes at a quarter of the resolution, on the GPU, within 30 GiB."""
    model = nn.Conv2d(3, 19, 4, stride=4).cuda().eval()
    x = torch.rand(3, 1024, 2048)
    torch.cuda.reset_peak_memory_stats()
    votes = sc.sample(model, x, noise=sc.Gaussian(0.25), n=20, n0=4, batch_size=4, seed=0)
    assert votes.candidate.shape == (1024, 2048)
    assert torch.cuda.max_memory_allocated() < 30 * 2**30


@pytest.mark.filterwarnings("default")
def test_models_on_the_gpu(tmp_path):
    """HRNet, scales, bf16 and an exported program give the votes of the plain model, but for a few near ties."""
    from segcertify.models import load, with_precision
    from segcertify.models.networks.hrnet import Architecture, HRNet

    torch.manual_seed(0)
    model = HRNet(Architecture(width=8, classes=5, blocks=1, modules=(1, 1, 1))).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.rand(2, 3, 64, 96),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "a.pt2")
    x, settings = an_input((3, 64, 96)), {"noise": sc.Gaussian(0.25), "n": 20, "n0": 5, "device": "cuda", "seed": 0}
    reference = sc.sample(model.cuda(), x, **settings)
    for other in (
        load(f"pt2:{tmp_path / 'a.pt2'}", trust_code=True).cuda(),
        MultiScale(model, [1.0]).eval(),
        with_precision(model, "bf16"),
    ):
        votes = sc.sample(other, x, **settings)
        assert (votes.candidate != reference.candidate).mean() < 0.1
    scaled = sc.sample(MultiScale(model, [0.5, 1.0, 1.5], flip=True).eval(), x, **settings)
    assert scaled.candidate.shape == (64, 96)


def test_a_model_that_moves_gets_a_new_fast_copy():
    model, x = sc.models.load("pets"), an_input((3, 64, 96))
    settings = {"noise": sc.Gaussian(0.25), "n": 4, "n0": 2, "seed": 0}
    for device in ("cuda", "cpu", "cuda"):
        model.to(device)
        assert sc.sample(model, x, **settings).N == 64 * 96


def network():
    """A small network with batch statistics and dropout, on the CPU, in training mode."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2), nn.Conv2d(8, 3, 1)
    return nn.Sequential(*layers).train()


def training_steps(name, *, graphed):
    """Losses and gradients of seven steps, each with its own batch and noise; and the network after them."""
    from segcertify.training import Recipe
    from segcertify.training.objectives import PixelLoss, objective
    from segcertify.training.step import Step

    model = network().cuda()
    update = torch.optim.SGD(model.parameters(), lr=0.05)
    taught = name == "distillation"
    teacher = network().cuda().eval().requires_grad_(False) if taught else None
    recipe = Recipe(objective=name, sigma=(0.1, 0.5), precision="fp32", ohem=0.5, teacher="any" if taught else "")
    step = Step(model, objective(recipe, PixelLoss(), "cuda", teacher=teacher), recipe, graphed=graphed)
    found = []
    for seed in range(7):
        torch.manual_seed(seed)
        x, target = torch.rand(4, 3, 32, 40, device="cuda"), torch.randint(3, (4, 32, 40), device="cuda")
        loss = step(x, target)["loss"].item()
        found.append((loss, torch.cat([weight.grad.flatten() for weight in model.parameters()])))
        update.step()
    return found, model


@pytest.mark.parametrize("name", ["non-robust", "noise", "consistency", "smoothadv", "distillation"])
def test_a_replayed_training_step_is_a_plain_one(name):
    """The same noise, dropout, loss, gradients and batch statistics; from the fourth step on it is replayed."""
    (plain, one), (graphed, two) = (training_steps(name, graphed=graphed) for graphed in (False, True))
    assert len({loss for loss, _ in plain}) == len(plain)  # each step has its own
    for (loss, gradients), (expected, slope) in zip(graphed, plain, strict=True):
        assert loss == pytest.approx(expected, rel=0.01)
        assert (gradients - slope).norm() < 0.05 * slope.norm()
    for ours, theirs in zip(two.buffers(), one.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("how", [{"optimiser": "adamw", "ema": 0.9}, {"optimiser": "sgd", "ema": 0}])
def test_training_on_the_gpu_is_resumed_and_leaves_its_seed_alone(tmp_path, how):
    image = pytest.importorskip("PIL.Image")
    from segcertify.training import Intervals, Recipe, pool, train
    from segcertify.training.log import read_log

    for i in range(4):
        label = np.kron(np.random.default_rng(i).integers(0, 3, (5, 6)), np.ones((8, 8), int))
        for kind, pixels in (("images", 30 + 190 * np.eye(3)[label]), ("labels", label)):
            (tmp_path / kind).mkdir(exist_ok=True)
            image.fromarray(pixels.astype(np.uint8)).save(tmp_path / kind / f"{i}.png")
    (tmp_path / "dataset.toml").write_text('classes = ["a", "b", "c"]')
    data = sc.data.load(f"folder:{tmp_path}")
    recipe = Recipe(iterations=10, batch_size=4, crop=(32, 32), lr=0.03, precision="fp32", **how)

    def losses(out, **settings):
        model, seed = network(), torch.cuda.get_rng_state()
        settings |= {"out": tmp_path / out, "spec": "python:test_cuda:network", "device": "cuda"}
        path = train(model, data, recipe, intervals=Intervals(1, 6, 10), **settings)
        assert torch.equal(torch.cuda.get_rng_state(), seed)
        return [row["loss"] for row in read_log(path.with_name("log.csv"))]

    whole = losses("whole")
    assert len(whole) == 10
    assert whole[-1] < 0.9 * whole[0]
    assert losses("plain", graphed=False) == pytest.approx(whole, rel=0.02)
    assert losses("streamed", memory=0) == pytest.approx(whole, rel=0.02)  # also while a step is captured
    real, calls = pool.augment_images, []

    def mortal(*arguments, **options):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "augment_images", mortal)
        with pytest.raises(KeyboardInterrupt):
            losses("parts")
    assert losses("parts") == pytest.approx(whole, rel=0.02)
