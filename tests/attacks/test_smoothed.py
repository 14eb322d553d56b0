"""Attacks on smoothed models whose probabilities are known: they raise the loss, and move nothing certified."""

import math

import numpy as np
import pytest
import torch
from scipy import special
from torch.nn.functional import cross_entropy

import segcertify as sc
from segcertify.attacks import attack_smoothed, recount
from segcertify.attacks.loss_and_gradient import NoisyCopies
from segcertify.sampling.streams import DrawStream

N = 12
THRESHOLDS = torch.linspace(-0.3, 0.3, N).double()
STEEP = 40.0


def half_spaces(batch):
    """Logits of vectors: label 1 where entry i exceeds its threshold, softly, so that there are gradients."""
    score = STEEP * (batch[..., :N] - THRESHOLDS.to(batch))
    return torch.stack([torch.zeros_like(score), score], 1)


def probability(noise, x):
    """P(label 1) of every component: x_i + noise above its threshold, exactly."""
    margin = (x - THRESHOLDS).numpy()
    if isinstance(noise, sc.Gaussian):
        return special.ndtr(margin / noise.sigma)
    if isinstance(noise, sc.Laplace):
        return 0.5 + 0.5 * np.sign(margin) * -np.expm1(-np.abs(margin) / noise.b)
    return np.clip(0.5 + margin / (2 * noise.lam), 0, 1)


def mean_entropy(noise, x, certificate, draws=2000):
    """The expected loss of the certified components at x, over draws of its own."""
    labels = torch.from_numpy(certificate.labels).long()
    copies = next(NoisyCopies(noise, draws, draws, seed=99)(x[None], 0))
    losses = cross_entropy(half_spaces(copies), labels.clamp(min=0).expand(draws, N), reduction="none")
    return float(losses[:, labels >= 0].mean())


@pytest.mark.parametrize(
    ("noise", "norm"),
    [(sc.Gaussian(0.25), "l2"), (sc.Gaussian(0.25), "linf"), (sc.Laplace(0.2), "l1"), (sc.Uniform(0.5), "l1")],
)
def test_no_certified_label_moves_and_the_loss_rises(noise, norm):
    """The true arg-max at the attacked input, from exact probabilities, is the certified label."""
    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, noise=noise, tau=0.6, n=500, alpha=0.001, norm=norm, seed=0)
    assert 4 <= certificate.certified < N
    attack = attack_smoothed(half_spaces, x, certificate, draws=16, steps=20, restarts=2, box=None)
    found = attack.x[0]
    order = {"l2": 2, "linf": math.inf, "l1": 1}[certificate.norm]
    assert 0.9 * certificate.radius < float((found - x).norm(order)) <= certificate.radius
    assert mean_entropy(noise, found, certificate) > mean_entropy(noise, x, certificate)
    claimed = ~certificate.abstained
    truth = probability(noise, found) > 0.5
    assert (truth[claimed] == (certificate.labels[claimed] == 1)).all()
    again = recount(half_spaces, found, certificate, n=500, seed=0)
    assert again.refuted == 0
    assert again.certified == certificate.certified


def test_beyond_the_radius_labels_move_and_recount_says_so():
    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, sigma=0.25, tau=0.6, n=500, alpha=0.001, seed=0)
    far = x + 2.0 * torch.where(torch.from_numpy(certificate.labels) == 1, -1, 1)
    again = recount(half_spaces, far, certificate, n=200, seed=0)
    assert again.moved == again.refuted == certificate.certified
    here = recount(half_spaces, x, certificate, n=200, seed=0)
    assert here.moved == here.refuted == 0
    assert here.labels.shape == (N,)


def test_channels_without_noise_stay():
    noise = sc.Gaussian(0.25, channels=(0, 1, 3), axis=-1)
    x = torch.zeros(5, N).double()

    def model(batch):
        return half_spaces(batch.mean(1) + batch[:, 0])

    certificate = sc.certify(model, x, noise=noise, tau=0.6, n=300, seed=0)
    attack = attack_smoothed(model, x, certificate, steps=5, box=None)
    still = [i for i in range(N) if i not in noise.channels]
    assert not attack.shift[0][:, still].any()
    assert attack.shift[0][:, [0, 1, 3]].any()
    assert float(attack.shift.norm()) <= certificate.radius


@pytest.mark.parametrize("noise", [sc.AxisRotation(0.3, "z"), sc.Rotation(0.3)], ids=repr)
def test_rotations(noise):
    """Points on a circle, labelled by a half-plane: those far from its edge are certified and stay."""
    angles = torch.linspace(-math.pi, math.pi, 25)[:-1].double()
    x = torch.stack([angles.cos(), angles.sin(), torch.zeros(24)], 1)

    def model(batch):
        return torch.stack([torch.zeros_like(batch[..., 1]), 20 * batch[..., 1]], 1)

    certificate = sc.certify(model, x, noise=noise, tau=0.75, n=300, seed=0)
    attack = attack_smoothed(model, x, certificate, steps=10, restarts=2)
    assert 0 < float(attack.shift.norm()) <= certificate.radius * (1 + 1e-9)
    torch.testing.assert_close(attack.x[0].norm(dim=1), torch.ones(24).double())
    assert bool(attack.x[0, :, 2].any()) == isinstance(noise, sc.Rotation)  # about z, heights stay
    assert recount(model, attack.x[0], certificate, n=300, seed=0).refuted == 0


@pytest.mark.parametrize(
    "noise",
    [
        sc.Gaussian(0.3),
        sc.Gaussian(0.3, channels=(1,), axis=1),
        sc.Laplace(0.3),
        sc.Uniform(0.3),
        sc.AxisRotation(0.3),
        sc.Rotation(0.3),
    ],
    ids=repr,
)
def test_noisy_copies_are_the_noise_and_have_its_gradient(noise):
    """By finite differences, with the same draws."""
    from segcertify.sampling.streams import DrawStream

    x = torch.randn(1, 7, 3, generator=torch.Generator().manual_seed(0)).double().requires_grad_(True)
    copies = NoisyCopies(noise, 4, 3, seed=1)
    batches = list(copies(x, 2))
    assert [len(batch) for batch in batches] == [3, 1]
    streams = [DrawStream(1, "attack", "agree", 8 + j) for j in range(4)]
    torch.testing.assert_close(torch.cat(batches).detach(), noise.draw(x[0].detach(), streams))
    assert torch.autograd.gradcheck(lambda moved: torch.cat(list(copies(moved, 2))).square(), (x,))


def test_draws_in_batches_give_the_same_attack():
    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, sigma=0.25, tau=0.6, n=500, seed=0)
    whole, parts = (
        attack_smoothed(half_spaces, x, certificate, draws=6, steps=4, box=None, batch_size=size) for size in (6, 4)
    )
    torch.testing.assert_close(whole.x, parts.x)
    assert torch.equal(whole.moved, parts.moved)


def test_a_random_models_seeds_stay_with_their_copies_when_memory_runs_out():
    """With room for two of five copies, the model gets the same (copy, seed) pairs, in two, two and one."""
    seen = {True: [], False: []}

    class Random:
        random = True

        def __init__(self, tight):
            self.tight = tight

        def __call__(self, batch, seeds):
            if self.tight and len(batch) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            seen[self.tight] += [(float(row[0]), seed) for row, seed in zip(batch.detach(), seeds, strict=True)]
            return half_spaces(batch)

    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, sigma=0.25, tau=0.6, n=500, seed=0)
    for tight in seen:
        attack_smoothed(Random(tight), x, certificate, draws=5, steps=1, box=None)
    assert len(seen[False]) == 1 + 2 * 5  # the probe, and the two steps' ends
    assert [seed for _, seed in seen[True]] == [seed for _, seed in seen[False]]
    assert [value for value, _ in seen[True]] == pytest.approx([value for value, _ in seen[False]])


def test_arrays_and_other_precisions_are_what_certify_takes():
    """A double array, and a network in single precision."""
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 3, 3, padding=1).eval()
    x = np.random.default_rng(0).random((3, 8, 8))
    certificate = sc.certify(network, x, sigma=0.02, tau=0.6, n=100, seed=0)
    assert certificate.certified > 20
    attack = attack_smoothed(network, x, certificate, steps=3)
    assert attack.x.dtype == torch.float64
    assert 0 < np.linalg.norm(attack.x[0].numpy() - x) <= certificate.radius
    assert recount(network, attack.x[0].numpy(), certificate, n=100, seed=0).refuted == 0


def test_a_recount_draws_afresh():
    """Its draws are neither the certificate's nor the attack's, though all three have the same seed and input."""
    seen = []

    class Watched(sc.Gaussian):
        def draw(self, x, streams):
            seen.extend(stream._key for stream in streams)
            return super().draw(x, streams)

    x, groups = torch.zeros(N).double(), []
    certificate = sc.certify(half_spaces, x, noise=Watched(0.25), tau=0.6, n=500, seed=3, input_id="cat")
    for use in (
        lambda: None,
        lambda: attack_smoothed(half_spaces, x, certificate, steps=3, draws=500, box=None, seed=3),
        lambda: recount(half_spaces, x, certificate, n=500, seed=3),
    ):
        use()
        groups.append(set(seen))
        seen.clear()
    probes = {DrawStream(0, "probe", "probe", 1 + j)._key for j in range(4)}  # of a fixed input, counted nowhere
    certified, attacked, counted = (group - probes for group in groups)
    assert len(counted) >= 500
    assert not counted & (certified | attacked)


def test_noisy_copies_for_a_random_model_have_seeds_of_their_own():
    seen = []

    class Random:
        random = True

        def __call__(self, batch, seeds):
            assert len(seeds) == len(batch)
            seen.append(seeds)
            return half_spaces(batch)

    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, sigma=0.25, tau=0.6, n=500, seed=0)
    attack_smoothed(Random(), x, certificate, draws=6, steps=3, box=None, batch_size=4)
    probe, *steps = seen
    assert [len(seeds) for seeds in steps] == [4, 2] * 4
    assert len({seed for seeds in steps for seed in seeds}) == 6 * 4
    assert len(probe) == 1


def test_bad_input():
    x = torch.zeros(N).double()
    certificate = sc.certify(half_spaces, x, sigma=0.25, tau=0.6, n=500, seed=0)
    with pytest.raises(sc.InputError, match="draws must be an integer not less than 1"):
        attack_smoothed(half_spaces, x, certificate, draws=0)
    with pytest.raises(sc.InputError, match="outside the box"):
        attack_smoothed(half_spaces, x - 1, certificate)
    votes = sc.Votes(np.ones(N, int), np.full(N, 30), n=100, n0=10, noise=sc.Gaussian(0.25))
    nothing = sc.certify_votes(votes, tau=0.75, alpha=0.001)
    with pytest.raises(sc.InputError, match="nothing to attack: 0 components are certified"):
        attack_smoothed(half_spaces, x, nothing)
    with pytest.raises(sc.InputError, match=r"certificate is for components \(12,\), but the model has \(11,\)"):
        recount(lambda batch: half_spaces(batch)[:, :, :11], x, certificate, seed=0)
