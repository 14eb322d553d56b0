"""The sampling contract on a GPU. Needs no package that the GPU machine lacks."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, laplace, norm, uniform
from torch import nn

import segcertify as sc
from segcertify.sampling.streams import DrawStream

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
    from segcertify.models import MultiScale, load, with_precision
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
