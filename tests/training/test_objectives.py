"""What a step minimises: the pixel loss, the noise, and each objective against a second computation."""

import math

import numpy as np
import pytest
import torch
from scipy.special import entr, log_softmax, rel_entr, softmax
from torch import nn
from torch.nn.functional import cross_entropy
from toys import Recorder, batch, quick, small

from segcertify.sampling.segmenter import predict
from segcertify.training.objectives import (
    Consistency,
    Denoising,
    Distillation,
    NoiseObjective,
    OwnLabels,
    PixelLoss,
    SmoothAdv,
    disagreement,
    full_size,
    gaussian_noise,
    objective,
    repeat_batch,
)

SIGMA = torch.tensor([0.25])
WEIGHTS = torch.tensor([0.2, 1.0, 3.0])


def logits_like(target, seed=1, classes=3):
    return torch.randn(len(target), classes, *target.shape[1:], generator=torch.Generator().manual_seed(seed))


# The pixel loss


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_pixel_loss_is_the_weighted_cross_entropy_of_valid_pixels(weights):
    _, target = batch()
    logits = logits_like(target)
    expected = cross_entropy(logits, target, weights, ignore_index=255)
    assert PixelLoss(weights)(logits, target).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("hardest", [0.1, 0.5, 0.95])
def test_only_the_hardest_part_counts(weights, hardest):
    _, target = batch()
    logits = logits_like(target)
    valid = target.flatten() != 255
    weight = torch.ones(len(valid)) if weights is None else weights[target.flatten() * valid]
    loss = cross_entropy(logits, target, ignore_index=255, reduction="none").flatten() * weight
    order = [i for i in loss.argsort(descending=True).tolist() if valid[i]]
    order = order[: math.ceil(hardest * len(order))]
    expected = loss[order].sum() / weight[order].sum()
    assert PixelLoss(weights, hardest)(logits, target).item() == pytest.approx(expected.item(), rel=1e-5)


def test_pixels_without_ground_truth_are_no_easy_ones():
    """Grey around an image leaves the part of its pixels that count as it is."""
    _, target = batch()
    logits = logits_like(target)
    wider = [nn.functional.pad(part, (0, 60), value=value) for part, value in ((logits, 0), (target, 255))]
    alone, beside = PixelLoss(hardest=0.25)(logits, target), PixelLoss(hardest=0.25)(*wider)
    assert beside.item() == pytest.approx(alone.item(), rel=1e-5)
    assert alone > 1.1 * PixelLoss()(logits, target)


@pytest.mark.parametrize("loss", [PixelLoss(), PixelLoss(WEIGHTS), PixelLoss(WEIGHTS, 0.25)])
def test_a_batch_without_ground_truth_costs_nothing(loss):
    target = torch.full((2, 5, 6), 255)
    logits = logits_like(target).requires_grad_()
    value = loss(logits, target)
    value.backward()
    assert value.item() == 0
    assert (logits.grad == 0).all()


# The noise


def test_non_robust_training_sees_the_image_itself():
    x, target = batch()
    model = Recorder(small())
    objective(quick(objective="non-robust"), PixelLoss(), "cpu")(model, x, target)
    assert torch.equal(model.seen[0], x)


def test_copies_are_whole_batches_in_a_row():
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(repeat_batch(x, 3), torch.cat([x, x, x]))


def test_logits_are_upsampled_as_the_sampler_does():
    x, _ = batch()
    model = small().eval()
    assert full_size(model, x).shape == (4, 3, 16, 20)
    assert torch.equal(full_size(model, x).argmax(1), predict(model, x, None))
    assert full_size(lambda x: x.bfloat16(), x).dtype == torch.float32  # at full size already


# The objectives


def test_the_names_of_objectives():
    for name in ("noise", "non-robust"):
        assert isinstance(objective(quick(objective=name), PixelLoss(), "cpu"), NoiseObjective)
    made = objective(quick(objective="consistency", sigma=(0.1, 0.5), m=3, lam=2.0, eta=0.1), PixelLoss(), "cpu")
    assert isinstance(made, Consistency)
    assert (made.m, made.lam, made.eta) == (3, 2.0, 0.1)
    assert made.sigma.tolist() == pytest.approx([0.1, 0.5])
    made = objective(quick(objective="smoothadv", m=4, epsilon=0.7, attack_steps=5), PixelLoss(), "cpu")
    assert isinstance(made, SmoothAdv)
    assert (made.m, made.epsilon, made.steps) == (4, 0.7, 5)


@pytest.mark.parametrize("m", [2, 3])
def test_consistency_equals_a_second_computation(m):
    x, target = batch()
    model = Recorder(nn.Conv2d(3, 3, 1))
    nn.init.normal_(model.model.weight, std=3, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    losses = Consistency(PixelLoss(), SIGMA, m=m, lam=0.7, eta=0.3)(model, x, target)
    logits = model.model(model.seen[0]).detach().double().numpy().reshape(m, 4, 3, 16, 20)
    p = softmax(logits, 2)
    mean = p.mean(0)
    consistency = np.mean([rel_entr(mean, copy).sum(1) for copy in p])
    entropy = entr(mean).sum(1).mean()
    truth = target.numpy()
    natural = np.mean(
        [-logs[b, truth[b, i, j], i, j] for logs in log_softmax(logits, 2) for b, i, j in np.argwhere(truth != 255)]
    )
    assert losses["cross-entropy"].item() == pytest.approx(natural, rel=1e-5)
    assert losses["consistency"].item() == pytest.approx(consistency, rel=1e-4)
    assert losses["entropy"].item() == pytest.approx(entropy, rel=1e-5)
    assert losses["loss"].item() == pytest.approx(natural + 0.7 * consistency + 0.3 * entropy, rel=1e-5)


def test_copies_that_agree_do_not_disagree():
    one = logits_like(torch.zeros(2, 4, 5))
    consistency, entropy = disagreement(torch.stack([one, one + 3.0]))  # a shift of logits is no disagreement
    assert consistency.item() == pytest.approx(0, abs=1e-6)
    assert entropy.item() == pytest.approx(entr(softmax(one.numpy(), 1)).sum(1).mean(), rel=1e-5)


def test_uniform_and_certain_probabilities():
    consistency, entropy = disagreement(torch.zeros(3, 2, 7, 4, 5))
    assert (consistency.item(), entropy.item()) == pytest.approx((0, np.log(7)), abs=1e-6)
    certain = torch.zeros(2, 1, 7, 4, 5)
    certain[:, :, 3] = 200  # probabilities that single precision cannot tell from 0 and 1
    certain.requires_grad_()
    consistency, entropy = disagreement(certain)
    assert (consistency.item(), entropy.item()) == pytest.approx((0, 0), abs=1e-6)
    (consistency + entropy).backward()
    assert torch.isfinite(certain.grad).all()


# Distillation


def teachers(seed=0, scale=3.0):
    """A teacher of one layer."""
    model = nn.Conv2d(3, 3, 1)
    nn.init.normal_(model.weight, std=scale, generator=torch.Generator().manual_seed(seed))
    return model


@pytest.mark.parametrize("m", [1, 2, 3])
def test_distillation_equals_a_second_computation(m):
    (x, target), teacher, model = batch(), teachers(1), Recorder(teachers(2))
    torch.manual_seed(1)
    losses = Distillation(PixelLoss(WEIGHTS), SIGMA, teacher, weight=0.7, m=m, lam=0.4)(model, x, target)
    noisy = model.seen[0]
    answers = [net(noisy).detach().double().numpy().reshape(m, 4, 3, 16, 20) for net in (teacher, model.model)]
    q, p = softmax(answers[0], 2).mean(0), softmax(answers[1], 2)
    distillation = np.mean([rel_entr(q, copy).sum(1) for copy in p])
    consistency = np.mean([rel_entr(p.mean(0), copy).sum(1) for copy in p])
    natural = cross_entropy(model.model(noisy), repeat_batch(target, m), WEIGHTS, ignore_index=255).item()
    assert losses["distillation"].item() == pytest.approx(distillation, rel=1e-4)
    assert losses["cross-entropy"].item() == pytest.approx(natural, rel=1e-4)
    assert losses["loss"].item() == pytest.approx(0.7 * distillation + 0.3 * natural + 0.4 * consistency, rel=1e-4)


def test_the_teacher_gets_no_gradient_and_sees_the_students_noise():
    (x, target), teacher, model = batch(), Recorder(small(seed=1).eval()), Recorder(small().train())
    Distillation(PixelLoss(), SIGMA, teacher)(model, x, target)["loss"].backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert all(weight.grad is not None for weight in model.parameters())
    assert torch.equal(teacher.seen[0], model.seen[0])
    assert teacher.modes == [False]


def test_the_loss_is_least_where_the_student_is_the_teacher():
    """Without labels, with one copy: there it is 0 with no slope, and it rises in 20 random directions."""
    (x, target), teacher = batch(), teachers()
    student = nn.Conv2d(3, 3, 1)
    student.load_state_dict(teacher.state_dict())
    learn = Distillation(PixelLoss(), SIGMA, teacher, weight=1.0, m=1)
    torch.manual_seed(5)
    least = learn(student, x, target)["loss"]
    least.backward()
    assert least.item() == pytest.approx(0, abs=1e-6)
    assert student.weight.grad.abs().max() < 1e-6
    for seed in range(20):
        moved = nn.Conv2d(3, 3, 1)
        step = 0.1 * torch.randn(3, 3, 1, 1, generator=torch.Generator().manual_seed(seed))
        moved.load_state_dict({"weight": teacher.weight.detach() + step, "bias": teacher.bias.detach()})
        torch.manual_seed(5)
        assert learn(moved, x, target)["loss"] > 1e-5


def test_all_copies_learn_one_target():
    """Of two copies the loss without labels is 0 where the student answers both with the mean of the teacher's."""
    (x, target), teacher = batch(), teachers()
    torch.manual_seed(2)
    noisy = repeat_batch(x, 2) + gaussian_noise(x, SIGMA, m=2)
    mean = teacher(noisy).softmax(1).view(2, 4, 3, 16, 20).mean(0).detach()
    torch.manual_seed(2)
    losses = Distillation(PixelLoss(), SIGMA, teacher, weight=1.0, m=2)(
        lambda _: mean.log().repeat(2, 1, 1, 1), x, target
    )
    assert losses["loss"].item() == pytest.approx(0, abs=1e-6)
    torch.manual_seed(2)
    own = Distillation(PixelLoss(), SIGMA, teacher, weight=1.0, m=2)(teacher, x, target)["distillation"]
    assert own > 1e-3  # the teacher's own answers vary with the noise


def test_a_recipe_makes_a_distillation():
    recipe = quick(objective="distillation", teacher="camvid", teacher_weight=0.6, m=3, lam=0.5)
    made = objective(recipe, PixelLoss(), "cpu", teacher=teachers())
    assert isinstance(made, Distillation)
    assert (made.weight, made.m, made.lam, made.sigma.tolist()) == (0.6, 3, 0.5, [0.25])


# SmoothAdv


def attacked(model, x, target, *, epsilon=0.5, steps=3, m=2, loss=None):
    """The shift that an attack found, the noise, and the losses."""
    recorder = Recorder(model)
    torch.manual_seed(3)
    losses = SmoothAdv(loss or PixelLoss(), SIGMA, m=m, epsilon=epsilon, steps=steps)(recorder, x, target)
    assert len(recorder.seen) == steps + 1
    noise = recorder.seen[0] - repeat_batch(x, m)
    shifts = (recorder.seen[-1] - recorder.seen[0]).view(m, *x.shape)
    torch.testing.assert_close(shifts[0], shifts[-1], atol=1e-5, rtol=0)  # the copies move together
    return shifts[0], noise, losses, recorder


def smoothed_loss(model, x, noise, target, m=2):
    p = full_size(model, repeat_batch(x, m) + noise).softmax(1).view(m, len(x), -1, *x.shape[2:]).mean(0)
    return nn.functional.nll_loss(p.log(), target, ignore_index=255)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_attack_stays_in_its_ball_and_raises_the_smoothed_loss(steps):
    (x, target), model = batch(), small(dropout=0.0).train()
    model(x)  # some batch statistics
    shift, noise, *_ = attacked(model, x, target, steps=steps)
    assert shift.flatten(1).norm(dim=1).numpy() == pytest.approx(0.5, rel=1e-4)  # its edge: the slope does not vanish
    model.eval()
    assert smoothed_loss(model, x + shift, noise, target) > smoothed_loss(model, x, noise, target) + 1e-3


def test_the_loss_is_that_of_the_moved_copies():
    (x, target), model = batch(), small(dropout=0.0).eval()
    _, _, losses, recorder = attacked(model, x, target, m=3)
    expected = PixelLoss()(full_size(model, recorder.seen[-1]), repeat_batch(target, 3))
    assert losses["loss"].item() == pytest.approx(expected.item())


def test_the_attack_leaves_no_trace_in_the_model():
    (x, target), model = batch(), small().train()
    *_, recorder = attacked(model, x, target)
    assert all(weight.grad is None for weight in model.parameters())
    assert all(module.training for module in model.modules())
    assert recorder.modes == [False, False, False, True]
    assert model[2].num_batches_tracked == 1  # the training pass alone
    features = model[1](model[0](recorder.seen[-1]))
    torch.testing.assert_close(model[2].running_mean, 0.1 * features.mean((0, 2, 3)))
    evaluated = small().eval()
    attacked(evaluated, x, target)
    assert not any(module.training for module in evaluated.modules())


def test_the_attack_is_on_the_whole_model_whatever_its_parts_are_called():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, batch):
            return -self.module(batch)

    (x, target), inner = batch(), small(dropout=0.0).eval()
    wrapped = Wrapper(inner).eval()
    torch.manual_seed(3)
    noise = gaussian_noise(x, SIGMA, m=2)
    shift = SmoothAdv(PixelLoss(), SIGMA)._attack(wrapped, x, target, noise)
    assert smoothed_loss(wrapped, x + shift, noise, target) > smoothed_loss(wrapped, x, noise, target)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize(("m", "steps"), [(1, 1), (2, 3), (3, 4)])
def test_the_attack_equals_a_second_implementation(m, steps, weights):
    """Projected gradient ascent in NumPy, in double precision, with the slope of a linear model written out."""
    x, target = batch(count=3, size=(6, 7))
    model = nn.Conv2d(3, 3, 1)
    nn.init.normal_(model.weight, std=2, generator=torch.Generator().manual_seed(0))
    shift, noise, *_ = attacked(model, x, target, m=m, steps=steps, loss=PixelLoss(weights))
    W, bias = model.weight[:, :, 0, 0].detach().double().numpy(), model.bias.detach().double().numpy()
    inputs = (repeat_batch(x, m) + noise).double().numpy().reshape(m, *x.shape)
    valid = target.numpy() != 255
    y = np.where(valid, target.numpy(), 0)
    scale = valid * (1.0 if weights is None else weights.double().numpy()[y])
    own = np.eye(3)[y].transpose(0, 3, 1, 2)
    found = np.zeros(x.shape)
    for _ in range(steps):
        logits = np.einsum("kc,mbcij->mbkij", W, inputs + found) + bias[:, None, None]
        p = softmax(logits, 2)
        right = (p * own).sum(2, keepdims=True)  # (m, B, 1, ...)
        # -d/dlogits of log(mean over copies of p_y) = -p_y (own - p) / sum over copies of p_y
        slopes = -right * (own - p) / right.sum(0, keepdims=True) * scale[:, None] / scale.sum()
        slope = np.einsum("kc,mbkij->bcij", W, slopes)
        found = found + 2 * 0.5 / steps * slope / np.sqrt((slope**2).sum((1, 2, 3), keepdims=True))
        found = found * np.minimum(1, 0.5 / np.sqrt((found**2).sum((1, 2, 3), keepdims=True)))
    np.testing.assert_allclose(shift.numpy(), found, atol=2e-5)


def test_an_attack_without_a_slope_stays_where_it_is():
    x, _ = batch()
    shift, *_ = attacked(small().eval(), x, torch.full((4, 16, 20), 255))
    assert (shift == 0).all()


# Denoising


class Share(nn.Module):
    """A denoiser that keeps a share of the noise, which it knows as it knows x."""

    def __init__(self, x, share):
        super().__init__()
        self.x, self.share, self.seen = x, share, []

    def forward(self, noisy, sigma):
        self.seen.append((noisy, sigma))
        return self.x + self.share * (noisy - self.x)


def test_denoising_is_the_error_in_units_of_the_linear_estimate():
    x, target = batch(count=64)
    model = Share(x, 0.5)
    losses = Denoising(torch.tensor([0.1, 0.4]))(model, x, target)
    noisy, sigma = model.seen[0]
    assert sigma.unique().tolist() == pytest.approx([0.1, 0.4])
    noise = (noisy - x).flatten(1)
    assert torch.allclose(noise.std(1), sigma, rtol=0.15)  # of 960 numbers: 6 standard errors
    squares = (0.5 * noise).square().mean(1)
    linear = 0.25**2 * sigma**2 / (0.25**2 + sigma**2)
    assert losses["squared error"].item() == pytest.approx(squares.mean().item(), rel=1e-4)
    assert losses["loss"].item() == pytest.approx((squares / linear).mean().item(), rel=1e-4)


def test_a_recipe_names_denoising():
    assert isinstance(objective(quick(objective="denoising"), PixelLoss(), "cpu"), Denoising)


# Own labels


def test_own_labels_are_those_of_the_fixed_model_without_noise():
    x, target = batch()
    labeller, seen = Recorder(small(seed=7).eval()), []

    def record(model, images, labels):
        seen.append((images, labels))
        return {"loss": torch.tensor(1.0)}

    assert OwnLabels(record, labeller)(small(), x, target)["loss"] == 1
    images, labels = seen[0]
    assert torch.equal(images, x)
    assert [torch.equal(each, x) for each in labeller.seen] == [True]  # without noise
    expected = predict(labeller.model, x)
    assert len(expected.unique()) > 1
    assert torch.equal(labels, torch.where(target == 255, target, expected))
    assert not torch.equal(labels, target)
