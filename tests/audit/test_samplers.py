"""Audits of samplers: ours passes for every noise, and each planted defect is caught.

A right sampler fails with probability ``level`` (1e-6) at most; seeds are fixed besides.
"""

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify.audit import audit_sampler, own_draws
from segcertify.audit.samplers import SamplerFinding
from segcertify.noise.rotation import rotate, rotation_matrix
from segcertify.sampling.streams import DrawStream

pytestmark = pytest.mark.statistical

GAUSSIAN = sc.Gaussian(0.25)
NOISES = [
    GAUSSIAN,
    sc.Gaussian(0.25, channels=(0, 2)),
    sc.Laplace(0.2),
    sc.Uniform(0.5),
    sc.AxisRotation(0.3, "y"),
    sc.AxisRotation(2.0, (1, 2, 3)),
    sc.Rotation(0.3),
    sc.Rotation(2.2),
]
every = pytest.mark.parametrize("noise", NOISES, ids=repr)
ADDED = [GAUSSIAN, sc.Laplace(0.2), sc.Uniform(0.5)]
SMALLER = {
    GAUSSIAN: sc.Gaussian(0.2375),
    sc.Laplace(0.2): sc.Laplace(0.19),
    sc.Uniform(0.5): sc.Uniform(0.475),
    sc.AxisRotation(0.3, "y"): sc.AxisRotation(0.285, "y"),
    sc.Rotation(0.3): sc.Rotation(0.285),
}


def failed(draw, noise, **settings):
    return {check.name for check in audit_sampler(draw, noise, **{"seed": 0, **settings}).failed}


@every
def test_our_own_sampler_passes(noise):
    finding = audit_sampler(None, noise, seed=0)
    assert not finding.failed, finding.verdict
    assert "checks passed" in finding.verdict
    assert sum(check.level for check in finding.checks) == pytest.approx(1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize("noise", [GAUSSIAN, sc.Laplace(0.2), sc.Uniform(0.5)], ids=repr)
def test_our_own_sampler_passes_on_cuda(noise):
    finding = audit_sampler(None, noise, device="cuda", seed=0)
    assert not finding.failed, finding.verdict


def test_different_angles_far_out_are_no_repetition():
    """Normal scores are cut off at 2^-25: two angles of six sigma have the same, but are not the same draw."""

    def draw(x, phase, indices):
        angles = [DrawStream(0, "", phase, j).rng.standard_normal() for j in indices]
        if phase == "agree" and indices[0] == 0:
            angles[:2] = 6.0, 6.1
        return rotate(x, [rotation_matrix(np.array([0.0, 0.0, 1.0]), 0.3 * angle) for angle in angles])

    assert "no draw comes twice" not in failed(draw, sc.AxisRotation(0.3), n=200)


@every
def test_one_noise_for_a_whole_batch_is_caught(noise):
    own = own_draws(noise)

    def draw(x, phase, indices):
        return own(x, phase, indices[:1]).repeat(len(indices), *[1] * x.ndim)

    assert {"no draw comes twice", "draws of a batch are independent"} <= failed(draw, noise, n=1000)


def test_a_common_part_without_duplicates_is_caught():
    """A tenth of the variance is shared by the batch."""
    own = own_draws(GAUSSIAN)

    def draw(x, phase, indices):
        batch, shared = own(x, phase, indices), own(x, "probe", indices[:1])
        return x + 0.9**0.5 * (batch - x) + 0.1**0.5 * (shared - x)

    names = failed(draw, GAUSSIAN)
    assert "draws of a batch are independent" in names
    assert "no draw comes twice" not in names


@every
def test_the_same_batch_again_and_again_is_caught(noise):
    own = own_draws(noise)

    def draw(x, phase, indices):
        return own(x, phase, range(len(indices)))

    assert {"no draw comes twice", "batches are independent"} <= failed(draw, noise, n=1000)


@every
def test_n0_draws_used_again_as_n_draws_are_caught(noise):
    own = own_draws(noise)

    def draw(x, phase, indices):
        return own(x, "agree", indices)

    finding = audit_sampler(draw, noise, n=1000, seed=0)
    names = {check.name: check for check in finding.failed}
    assert {"no draw comes twice", "the n0 and the n draws are independent"} <= set(names)
    assert "200 among both the n0 and the n" in names["no draw comes twice"].detail


def test_a_few_draws_used_again_in_another_order_with_jitter_are_caught():
    own = own_draws(GAUSSIAN)

    def draw(x, phase, indices):
        batch = own(x, phase, indices)
        if phase == "candidate" and indices[0] == 0:
            batch[3] = own(x, "agree", [500])[0] + 1e-4 * (batch[3] - x)
        return batch

    assert failed(draw, GAUSSIAN) == {"no two draws resemble each other"}


@pytest.mark.parametrize("noise", SMALLER, ids=repr)
def test_a_scale_five_percent_too_small_is_caught(noise):
    assert "every entry has the stated variance" in failed(own_draws(SMALLER[noise]), noise)


@pytest.mark.parametrize("noise", ADDED, ids=repr)
def test_clipped_noise_is_caught(noise):
    """To [0, 1], from grey: 4.6 % of Gaussian numbers are beyond. Uniform noise of 0.5 is not, from a lighter grey."""
    own, x = own_draws(noise), torch.full((3, 16, 16), 0.6)

    def draw(x, phase, indices):
        return own(x, phase, indices).clamp(0, 1)

    assert "draws have the stated law" in failed(draw, noise, x=x)


def test_one_entry_without_noise_is_caught():
    own = own_draws(GAUSSIAN)

    def draw(x, phase, indices):
        batch = own(x, phase, indices)
        batch[:, 1, 5, 5] = x[1, 5, 5]
        return batch

    assert failed(draw, GAUSSIAN) == {"every entry has the stated variance"}


def test_the_same_noise_on_every_channel_is_caught():
    own = own_draws(GAUSSIAN)

    def draw(x, phase, indices):
        batch = own(x, phase, indices)
        return batch[:, :1].expand_as(batch)

    assert "entries of a draw are independent" in failed(draw, GAUSSIAN)


def test_noise_where_there_should_be_none_is_caught():
    noise = sc.Gaussian(0.25, channels=(0, 2))
    assert failed(own_draws(GAUSSIAN), noise) == {"only what the noise changes is changed"}
    about_x = own_draws(sc.AxisRotation(0.3, "x"))
    assert "only what the noise changes is changed" in failed(about_x, sc.AxisRotation(0.3, "y"), n=200)
    shifted = own_draws(sc.Rotation(0.3))
    assert failed(lambda x, phase, indices: shifted(x, phase, indices) + 0.1, sc.Rotation(0.3), n=200) >= {
        "only what the noise changes is changed"
    }


def test_the_papers_axis_angle_noise_is_not_the_heat_kernel():
    """Three normal numbers as axis times angle: another law, which proves nothing and is recognised at sigma = 1."""

    def draw(x, phase, indices):
        vectors = [DrawStream(0, "", phase, j).rng.standard_normal(3) for j in indices]
        return rotate(x, [rotation_matrix(v, float(np.linalg.norm(v))) for v in vectors])

    assert "draws have the stated law" in failed(draw, sc.Rotation(1.0))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Dropout(0.5), nn.Conv2d(8, 4, 1))

    def forward(self, batch):
        return self.layers(batch)


ITSELF = {"the model answers each draw by itself"}


def test_a_model_left_random_is_caught():
    assert not failed(None, GAUSSIAN, model=Net().eval())
    assert failed(None, GAUSSIAN, model=Net().train()) == ITSELF

    points = nn.Sequential(nn.Linear(3, 4), nn.Flatten())  # single precision, on rotations in double
    assert not failed(None, sc.Rotation(0.3), model=points.eval(), n=200)


class Seeded(Net):
    """A network with dropout of its own, from the seeds that ``chosen`` gives each entry."""

    random = True

    def __init__(self, chosen):
        super().__init__()
        self.chosen = chosen

    def forward(self, batch, seeds):
        for i, seed in enumerate(self.chosen(seeds)):
            kept = torch.rand(batch.shape[1:], generator=torch.Generator().manual_seed(seed % 2**32)) < 0.8
            batch = torch.cat([batch[:i], (batch[i] * kept)[None], batch[i + 1 :]])
        return super().forward(batch)


def test_a_random_model_must_take_its_randomness_from_each_entrys_seed():
    assert not failed(None, GAUSSIAN, model=Seeded(lambda seeds: seeds).eval())
    for chosen in (
        lambda seeds: seeds[:1] * len(seeds),  # once for a batch
        lambda seeds: seeds[:1] * len(seeds) if len(seeds) > 10 else seeds,
        lambda seeds: seeds[::-1],
        lambda seeds: torch.randint(2**31, (len(seeds),)).tolist(),  # a global generator
    ):
        assert failed(None, GAUSSIAN, model=Seeded(chosen).eval()) == ITSELF


def test_entries_that_influence_each_other_are_caught():
    network = Net().eval()
    for answer in (
        lambda batch: network(batch)[-1:].expand(len(batch), -1, -1, -1),
        lambda batch: network(batch - (batch.mean(0) if len(batch) > 10 else 0)),
    ):
        assert failed(None, GAUSSIAN, model=answer) == ITSELF


def test_bad_input():
    with pytest.raises(sc.InputError, match=r"n must be a multiple of batch_size=50, .* but got 1010: use 1050"):
        audit_sampler(None, GAUSSIAN, n=1010, seed=0)
    with pytest.raises(sc.InputError, match="x has 4 entries with noise, too few"):
        audit_sampler(None, GAUSSIAN, x=torch.zeros(4), seed=0)
    with pytest.raises(sc.InputError, match="points lie on a line"):
        audit_sampler(None, sc.Rotation(0.3), x=torch.ones(5, 3), seed=0)
    with pytest.raises(sc.InputError, match=r"the sampler gave shape \(3, 16, 16\) for 50 draws"):
        audit_sampler(lambda x, phase, indices: x, GAUSSIAN, seed=0)
    with pytest.raises(sc.InputError, match="device must be such as 'cpu' or 'cuda'"):
        audit_sampler(None, GAUSSIAN, device="nonsense", seed=0)


def test_the_level_in_a_verdict_is_not_rounded_down():
    assert "with probability at most 0.0123456449." in SamplerFinding(GAUSSIAN, (), 0.0123456449).verdict
