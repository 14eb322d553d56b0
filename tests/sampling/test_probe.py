"""The probe: once for a shape, on a fixed input, so that its fingerprint is the model's alone."""

import re
import time

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify import progress
from segcertify.sampling.cross_talk import ROUNDING
from segcertify.sampling.probe import _outputs, fingerprint, probe
from segcertify.sampling.streams import DrawStream


class Counted:
    """A model that counts its calls and the entries it saw."""

    def __init__(self, model=stripes):
        self.model, self.sizes = model, []

    def __call__(self, batch):
        self.sizes.append(len(batch))
        return self.model(batch)


def test_one_probe_serves_all_inputs_of_a_shape():
    """Three calls of two entries; then an input costs its n0 + n draws and three pairs at the real batch size."""
    model = Counted()
    smooth = sc.Smooth(model, NOISE, batch_size=10, seed=0)
    smooth.votes(image(0), n=40, n0=10)
    run = [10, 2, 2, 2, *[10] * 4]
    assert model.sizes == [2, 2, 2, *run]
    model.sizes.clear()
    smooth.votes(image(1), n=40, n0=10, input_id="b")
    assert model.sizes == run
    model.sizes.clear()
    smooth.counts(image(2), n=20)
    smooth.agreement(image(3), np.zeros((3, 12, 16), int), n=20)
    assert model.sizes == [10, 2, 2, 2, 10] * 2
    model.sizes.clear()
    for x in (image(shape=(3, 4, 5)), image().double(), image(4)):
        smooth.draws(x)
    assert model.sizes == [2] * 6  # another shape and another precision, and one that is known


def test_fingerprints_are_of_the_model_alone():
    """Votes of two inputs have the same, whatever the seed, the input id and the batch size."""
    prints = {
        sc.sample(stripes, image(i), noise=NOISE, n=3, n0=2, seed=i, input_id=str(i), batch_size=size).fingerprint
        for i, size in enumerate((None, 1, 2, 7))
    }
    assert len(prints) == 1
    assert len(next(iter(prints))) >= 512
    others = [
        sc.Smooth(model, noise, seed=0).draws(image()).fingerprint
        for model, noise in [(lambda b: stripes(b + 0.1), NOISE)]
    ]
    assert prints.isdisjoint(others)


def test_runs_of_other_batch_sizes_merge():
    parts = [
        sc.sample(stripes, image(), noise=NOISE, n=m, first=f, batch_size=b, seed=0)
        for f, m, b in [(0, 30, 1), (30, 20, 9)]
    ]
    assert same(parts[0].merge(parts[1]), sc.sample(stripes, image(), noise=NOISE, n=50, seed=0))


@pytest.mark.filterwarnings("ignore:the image has values")
def test_the_probe_depends_on_neither_the_input_nor_the_seed():
    seen = []

    def model(batch):
        seen.append(batch.clone())
        return stripes(batch)

    for x, seed in ((image(0), 0), (image(1) + 5, 7)):
        sc.Smooth(model, sc.Gaussian(1e-6), seed=seed).draws(x)
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert torch.equal(first, second)
    assert first.min() > -1e-4
    assert first.max() < 1 + 1e-4
    assert first.std() == pytest.approx(12**-0.5, abs=0.02)  # uniform in [0, 1], of 576 numbers


def test_a_model_is_checked_at_every_input():
    """Training mode and devices; the probe alone is not repeated."""
    model = Conv().eval()
    smooth = sc.Smooth(model, NOISE, seed=0)
    smooth.votes(image(), n=2, n0=1)
    model.train()
    with pytest.raises(sc.InputError, match="in training mode"):
        smooth.votes(image(1), n=2, n0=1)


def test_entries_that_influence_each_other_are_still_found_at_a_second_input():
    """At the real batch size, for every input."""

    class Turncoat:
        honest = True

        def __call__(self, batch):
            return stripes(batch if self.honest or len(batch) < 3 else batch[:1].expand_as(batch))

    model = Turncoat()
    smooth = sc.Smooth(model, NOISE, batch_size=16, seed=0)
    smooth.votes(image(), n=32)
    model.honest = False
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        smooth.votes(image(1), n=32)


def refused_by_the_probe(model):
    """Before any draw of the input, whatever larger batches would show."""
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        sc.Smooth(model, NOISE, seed=0).draws(image())


@pytest.mark.parametrize("answer", [stripes, Conv().eval()])
def test_an_answer_that_depends_on_the_place_is_refused(answer):
    """Whatever its neighbours: only the draw that the probe has moved shows it."""
    refused_by_the_probe(lambda batch: answer(batch + torch.arange(len(batch)).view(-1, 1, 1, 1)))


def test_on_a_gpu_a_place_may_move_logits_by_a_bit_of_bfloat16(monkeypatch):
    """A change beyond the 1 % of what noise changes: a share of the class's range, at entries other than the first."""
    monkeypatch.setattr("segcertify.sampling.probe.like_cuda", lambda tensor: True)
    ramp = torch.linspace(-1, 1, 16).expand(12, 16)

    def model(share):
        def answer(batch):  # its noise changes little, its range is 2
            logits = torch.stack([ramp, -ramp]) + 1e-3 * batch[:, :2]
            return logits + 2 * share * (torch.arange(len(batch)) > 0).view(-1, 1, 1, 1)

        return answer

    _outputs(model(0.9 * ROUNDING), NOISE, image(), 2)
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        _outputs(model(1.1 * ROUNDING), NOISE, image(), 2)
    monkeypatch.setattr("segcertify.sampling.probe.like_cuda", lambda tensor: False)
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        _outputs(model(0.9 * ROUNDING), NOISE, image(), 2)


@pytest.mark.parametrize("answer", [stripes, Conv().eval()])
def test_an_answer_that_depends_on_a_neighbour_is_refused(answer):
    """Whatever its place: a neighbour that disturbs all others of its batch, and that the third batch alone has."""
    honest = Counted(answer)
    seen = []
    sc.Smooth(lambda batch: seen.append(batch.clone()) or honest(batch), NOISE, seed=0).draws(image())
    disturbing = seen[2][1]
    assert not any(torch.equal(disturbing, entry) for entry in torch.cat(seen[:2]))
    disturbed = lambda batch: any(torch.equal(entry, disturbing) for entry in batch)  # noqa: E731
    refused_by_the_probe(lambda batch: answer(batch + 1 if disturbed(batch) else batch))


class Seeded:
    """A random model that takes its randomness from ``chosen`` of the seeds."""

    random = True

    def __init__(self, chosen):
        self.chosen = chosen

    def __call__(self, batch, seeds):
        return stripes(
            batch
            + torch.stack([torch.from_numpy(np.random.default_rng(s).random(16)) for s in self.chosen(seeds)])[
                :, None, None
            ]
        )


def test_random_models_are_probed_as_others():
    """Seeds that neighbours share, and a generator of its own, which a batch of one shows too."""
    sc.Smooth(Seeded(list), NOISE, seed=0).draws(image())
    with pytest.raises(sc.InputError, match=r"same noisy input with the same seed .* for entry i from seeds\[i\]"):
        sc.Smooth(Seeded(lambda seeds: seeds[:1] * len(seeds)), NOISE).draws(image())
    own = np.random.default_rng(0)
    for size in (None, 1):
        with pytest.raises(sc.InputError, match="same noisy input with the same seed"):
            sc.Smooth(Seeded(lambda seeds: own.integers(2**32, size=len(seeds))), NOISE, batch_size=size).draws(image())


@pytest.mark.filterwarnings("ignore:the image has values")
@pytest.mark.parametrize("size", [2, 3, 16])
def test_influences_that_only_the_input_shows_are_found_at_any_batch_size(size):
    """Labels that are the same all over the fixed input: the check of the first batch finds it, also of two entries."""

    def model(batch):
        return stripes(batch.mean(0, keepdim=True).expand_as(batch) - 100)

    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        sc.sample(model, image() + 100, noise=NOISE, n=32, batch_size=size, seed=0)


def test_every_size_of_batches_is_checked_once():
    model = Counted()
    sc.sample(model, image(), noise=NOISE, n=20, n0=3, batch_size=8, seed=0)
    assert model.sizes == [2, 2, 2, 3, 2, 1, 8, 2, 2, 2, 8, 4, 2, 2]


@pytest.mark.parametrize(("size", "step"), [(1, 1), (7, 1), (1023, 1), (1024, 2), (5120, 10)])
def test_a_fingerprint_is_spread_over_all_answers(size, step):
    """All of few numbers, and about 512 of many."""
    answers = torch.arange(float(size)).reshape(1, size)
    assert fingerprint(answers) == tuple(range(0, size, step))


def test_the_input_of_the_probe_is_known():
    """Files keep answers to it: were it another one, votes of earlier runs would be taken for those of other models."""
    batches = []

    def model(batch):
        batches.append(batch.clone())
        return stripes(batch)

    probe(model, sc.Gaussian(1e-9), torch.zeros(2, 3, 4), None)
    expected = DrawStream(0, "probe", "probe", 0).uniform_(torch.empty(2, 3, 4))
    assert torch.allclose(batches[0], expected.expand(2, -1, -1, -1), atol=1e-6)


def test_a_noise_that_shares_its_draws_is_refused_by_the_probe():
    """Before any long work, and also where the model's answers do not show it."""

    class Shared(sc.Gaussian):
        def draw(self, x, streams):
            return super().draw(x, [streams[-1]] * len(streams))

    def constant(batch):
        return torch.zeros(len(batch), *batch.shape[2:], dtype=torch.int64)

    with pytest.raises(sc.InputError, match="the noise of a draw depends on the other draws of its batch"):
        probe(constant, Shared(0.25), torch.zeros(3, 4, 4), None)
    assert probe(constant, sc.Gaussian(0.25), torch.zeros(3, 4, 4), None).components == (4, 4)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_noise_that_is_the_same_in_every_draw_is_refused_at_any_batch_size(batch_size):
    """Batches of one or two show nothing: all draws agreed, so that each of 40 certificates was false."""

    class Stuck(sc.Gaussian):
        def draw(self, x, streams):
            return super().draw(x, [DrawStream(0, "", "agree", 0)]).expand(len(streams), *x.shape).clone()

    with pytest.raises(sc.InputError, match="or is the same in each"):
        probe(stripes, Stuck(0.25), torch.zeros(3, 4, 4), batch_size)


def test_a_noise_of_few_values_is_no_stuck_noise():
    """Two draws that are compared add the same; others do not."""

    class Discrete(sc.Gaussian):
        def draw(self, x, streams):
            return torch.stack([x + (0.25 if stream.rng.random() > 0.6 else 0.0) for stream in streams])

    noise, x = Discrete(0.25), torch.zeros(3, 4, 4)
    for j in (0, 2):
        assert noise.draw(x, [DrawStream(0, "probe", "probe", 1 + j)]).min() == 0.25
    for batch_size in (1, 2):
        assert probe(stripes, noise, x, batch_size).components == (3, 4, 4)


def cropping(batch):
    """A network without padding: each convolution cuts off a border."""
    return torch.stack([batch[:, 0], 1 - batch[:, 0]], 1)[:, :, 2:-2, 2:-2]


def test_logits_that_are_cropped_are_a_warning():
    x = torch.rand(3, 36, 48, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match=r"logits of 32 x 44 are stretched to the input's 36 x 48.*Pad inside"):
        sc.sample(cropping, x, noise=sc.Gaussian(0.1), n=4, n0=2, seed=0)
    with pytest.warns(UserWarning, match="logits of 14 x 20 are stretched"):  # cut, and coarser by 2
        sc.sample(lambda b: cropping(b)[:, :, 2:-2:2, 2:-2:2], x, noise=sc.Gaussian(0.1), n=4, n0=2, seed=0)
    for stride in (2, 4, 5):  # coarser by a stride is as ever: warnings are errors here
        sc.sample(lambda b, s=stride: cropping_free(b)[:, :, ::s, ::s], x, noise=sc.Gaussian(0.1), n=4, n0=2, seed=0)


def test_a_model_that_resizes_images_itself_is_not_said_to_crop():
    model = sc.models.MultiScale(cropping_free, [0.75])
    sc.sample(model, torch.rand(3, 36, 48), noise=sc.Gaussian(0.1), n=4, n0=2, seed=0)  # a warning is an error


def cropping_free(batch):
    return torch.stack([batch[:, 0], 1 - batch[:, 0]], 1)


def test_the_time_of_long_work_is_said_before_it_begins(capfd, monkeypatch):
    def slow(batch):
        time.sleep(0.02)
        return (batch[:, 0] > 0.5).long()

    monkeypatch.setattr(progress, "LINE_EVERY", 0.5)
    assert sc.Smooth(slow, NOISE, seed=0).draws(image()).seconds >= 0.01  # two draws in a pass
    sc.sample(slow, image(), noise=NOISE, n=100, n0=10, seed=0)
    lines = capfd.readouterr().err.splitlines()
    assert re.fullmatch(r"sampling: 110 draws, about [1-9]\d* s on this machine", lines[0])
    sc.certify_metric(slow, image(), sc.metrics.area(1), noise=NOISE, radius=0.01, n=100, seed=0, progress=False)
    assert not capfd.readouterr().err
