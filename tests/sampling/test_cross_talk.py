"""Cross-talk: which entries are asked again, what that costs, what is refused and what rounding may do."""

import itertools

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify.models.wrappers.precision import with_precision
from segcertify.sampling.cross_talk import (
    COARSE,
    ENTRIES,
    FINE,
    Answers,
    Changes,
    changes,
    chosen_entries,
    inputs_differ,
    many_changes,
    pairs,
    tolerance_of,
)
from segcertify.sampling.streams import DrawStream


def stream(seed, size=100):
    return DrawStream(seed, "", "verify", size)


class Recorded:
    """A model that keeps the batches it gets."""

    def __init__(self, model=stripes):
        self.model, self.batches = model, []

    def __call__(self, batch):
        self.batches.append(batch.clone())
        return self.model(batch)


def asked_again(model, phase, size, seed=0, input_id=""):
    """The entries of the phase's first batch that came again in the pairs after it, and their places there."""
    sizes = [len(batch) for batch in model.batches]
    at = sizes.index(size)
    pairs = list(itertools.takewhile(lambda batch: len(batch) <= 2, model.batches[at + 1 :]))
    batch = model.batches[at]
    draws = NOISE.draw(image(), [DrawStream(seed, input_id, phase, j) for j in range(size)])
    assert torch.equal(batch, draws)
    places = {}
    for pair in pairs:
        for place, entry in enumerate(pair):
            places[next(j for j in range(size) if torch.equal(batch[j], entry))] = place
    return places


def test_the_first_the_last_and_four_others_are_chosen():
    every = {tuple(chosen_entries(100, stream(seed))) for seed in range(200)}
    assert len(every) == 200  # of 3.6 million choices; two of 200 are the same with probability 0.006
    for entries in every:
        assert len(set(entries)) == ENTRIES == 6
        assert (entries[0], entries[-1]) == (99, 0)
        assert list(entries) == sorted(entries, reverse=True)
    counts = np.bincount([entry for entries in every for entry in entries[1:-1]], minlength=100)
    assert (counts[1:-1] > 0).all()  # 200 * 4 / 98 expected; none with probability 98 * 2.6e-4, and seeds are fixed
    assert chosen_entries(100, stream(1)) == chosen_entries(100, stream(1))


@pytest.mark.parametrize("size", range(2, 9))
def test_small_batches_are_asked_whole(size):
    entries = chosen_entries(size, stream(0, size))
    assert entries == list(range(size))[::-1] or size > ENTRIES
    assert len(entries) == min(size, ENTRIES)


def test_both_phases_are_verified_at_other_places():
    """The entries depend on the seed and the input id, which a model does not know."""
    chosen = []
    for seed, input_id in [(0, ""), (1, ""), (1, "b")]:
        model = Recorded()
        sc.sample(model, image(), noise=NOISE, n=100, n0=10, seed=seed, input_id=input_id)
        for phase, size in (("candidate", 10), ("agree", 100)):
            places = asked_again(model, phase, size, seed, input_id)
            assert len(places) == 6
            assert {0, size - 1} <= set(places)
            assert all(place != entry for entry, place in places.items())
            chosen.append(tuple(places))
    assert len(set(chosen)) == 6


@pytest.mark.parametrize("batch_size", [2, 3, 4, 5, 7])
def test_no_entry_keeps_its_place_and_its_neighbours(batch_size):
    model = Recorded()
    sc.sample(model, image(), noise=NOISE, n=batch_size, n0=batch_size, seed=0, batch_size=batch_size)
    if batch_size > 2:
        places = asked_again(model, "candidate", batch_size)
        assert len(places) == min(6, batch_size)
        kept = [entry for entry, place in places.items() if entry == place]
        assert not kept
    else:
        assert [len(batch) for batch in model.batches] == [2, 2, 2, 2, 1, 1, 2]  # each alone: no neighbour is another


def test_what_all_checks_cost_at_the_default_draws():
    """For n = 100 and n0 = 10: nine passes of the network, each of two entries.

    Six are of this input: three pairs of the candidates' batch and three of the other, 12 entries. Three are the
    probe's, once for all inputs of a shape, before any draw.
    """
    model = Recorded()
    smooth = sc.Smooth(model, NOISE, seed=0)
    for passes in (9, 6):
        smooth.certify(image(), tau=0.75, n=100, n0=10)
        sizes = [len(batch) for batch in model.batches]
        assert sorted(sizes)[-2:] == [10, 100]
        assert len(sizes) - 2 == passes <= 12
        assert sum(sizes) - 110 == 2 * passes
        model.batches.clear()
    assert sum(sizes) - 110 <= 12  # a second input


@pytest.mark.parametrize("batch_size", [2, 3, 7, 8, 11, 32, 40, 99])
def test_what_all_checks_cost_at_any_batch_size(batch_size):
    """At most 12 passes of two entries: three of the probe, and three for each size, such as 10, 40 and 20."""
    model = Recorded()
    planned = [min(batch_size, count - start) for count in (10, 100) for start in range(0, count, batch_size)]
    sc.Smooth(model, NOISE, seed=0, batch_size=batch_size).certify(image(), tau=0.75, n=100, n0=10)
    assert len(model.batches) - len(planned) <= 12
    assert sum(map(len, model.batches)) - 110 <= 24


def mixed(batch, share, above):
    """Logits of which a share is the batch's mean."""
    right = torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
    return torch.lerp(right, right.mean(0, keepdim=True), share) if len(batch) > above else right


@pytest.mark.parametrize("offset", [0, 1e4])
@pytest.mark.parametrize(("share", "above"), [(1.0, 10), (0.1, 10), (0.1, 2), (0.02, 1)])
def test_a_share_of_the_mean_is_found(share, above, offset):
    """A tenth of the noise in batches of any size; at the probe's two entries, which rounding leaves alone, less."""
    model = lambda batch: mixed(batch.double(), share, above) + offset  # noqa: E731
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        sc.sample(model, image(), noise=NOISE, seed=0)


@pytest.mark.parametrize("largest", [0.0, 1e9])
def test_logits_are_compared_where_labels_show_nothing(largest):
    """One class is always chosen, another never, however large its logits: the other classes share a tenth."""

    def model(batch):
        logits = mixed(batch.double(), 0.1, above=10)
        return torch.cat([logits, torch.full_like(logits[:, :1], 5.0), torch.full_like(logits[:, :1], -largest)], 1)

    with pytest.raises(sc.InputError, match=r"logits changed by 0\.0\d+ of what noise changes"):
        sc.sample(model, image(), noise=NOISE, seed=0)


def test_a_change_in_one_pixel_is_found_by_the_probe():
    def model(batch):
        logits = torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)
        logits[:, 0, 3, 5] = logits[:, 0, 3, 5].mean()
        return logits + 100

    with pytest.raises(sc.InputError, match="1 of 384 numbers changed"):
        sc.sample(model, image(), noise=NOISE, seed=0)


def test_models_that_remember_are_refused():
    """Answers that depend on the number of calls, or on the batch before."""

    class Counting:
        calls = 0

        def __call__(self, batch):
            self.calls += 1
            return stripes(batch + self.calls / 3)

    class Late:
        before = None

        def __call__(self, batch):
            answers, self.before = self.before, stripes(batch)
            return self.before if answers is None else answers[torch.arange(len(batch)) % len(answers)]

    for model in (Counting(), Late()):
        for batch_size in (1, None):
            with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
                sc.sample(model, image(), noise=NOISE, seed=0, batch_size=batch_size)


def test_a_model_that_uses_its_memory_again_passes():
    buffer = torch.zeros(128, 2, 12, 16)

    def thrifty(batch):
        return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1, out=buffer[: len(batch)])

    plain = lambda batch: torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)  # noqa: E731
    settings = {"noise": NOISE, "seed": 0}
    assert same(sc.sample(thrifty, image(), **settings), sc.sample(plain, image(), **settings))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("sigma", [0.25, 0.02])
def test_honest_networks_pass(precision, sigma):
    """The bundled `lite` network."""
    model = with_precision(sc.models.load("pets"), precision)
    x = torch.nn.functional.interpolate(image(shape=(1, 3, 4, 4)), (64, 64), mode="bicubic")[0]
    assert sc.sample(model, x, noise=sc.Gaussian(sigma), n=16, n0=3, seed=0).N == 64 * 64


def test_the_bundled_random_network_passes():
    model = sc.models.load("parts").for_category("Chair")
    cloud = image(shape=(512, 6)) - 0.5
    votes = sc.sample(model, cloud, noise=sc.Gaussian(0.05, channels=(0, 1, 2), axis=1), n=3, n0=3, seed=0)
    assert votes.N == 512


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rounding", "passes"), [(2.0**-9, True), (0.1, False)])
def test_rounding_is_told_from_cross_talk(rounding, passes, dtype):
    """Logits that move by a share of their class's range in another batch size, and by 0.1 of it under noise."""
    rng = torch.Generator().manual_seed(0)
    base = torch.randn(1, 3, 40, 50, generator=rng)
    answers = base + 0.5 * torch.randn(6, 3, 40, 50, generator=rng)
    span = answers.amax() - answers.amin()
    again = answers + rounding * span * torch.rand(answers.shape, generator=rng)
    first, second = (Answers.of(each.to(dtype), torch.rand(6, 3, 40, 50, generator=rng)) for each in (answers, again))
    second = Answers(first.batch, second.output, second.labels)
    found = changes(first, torch.zeros(3, 40, 50), second.at, pairs(6), COARSE).found
    assert bool(found) != passes, found


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_of_one_component_is_told_from_cross_talk(dtype, quiet):
    """40,000 components that round by a normal number of 1/256 of the range; noise moves all of them, or one."""
    rng = torch.Generator().manual_seed(0)
    base = torch.randn(1, 2, 200, 200, generator=rng)
    answers = base + (0.005 if quiet else 0.3) * torch.randn(6, 2, 200, 200, generator=rng)
    answers[:, :, 0, 0] = torch.randn(6, 2, generator=rng)
    again = answers + (answers.amax() - answers.amin()) / 256 * torch.randn(answers.shape, generator=rng)
    batch = torch.rand(6, 2, 200, 200, generator=rng)
    first = Answers.of(answers.to(dtype), batch)
    second = Answers.of(again.to(dtype), batch)
    assert changes(first, torch.zeros(2, 200, 200), second.at, pairs(6), COARSE).logits_of_one == 0
    answers[:, :, 0, 0] = answers[:1, :, 0, 0].clone()
    first = Answers.of(answers.to(dtype), batch)
    assert changes(first, torch.zeros(2, 200, 200), second.at, pairs(6), COARSE).logits_of_one > 0


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_labels_of_one_component_may_be_ties(rate):
    """200 of 40,000 components lie at a border, where noise changes half of their labels and rounding a fifth.

    The bound is 16 + 5.7 + 5.8 changes of 64, where 12.8 are expected: one of 200 components passes it with
    probability 0.01; the seed is fixed. A component whose labels were all the first entry's is found.
    """
    rng = torch.Generator().manual_seed(0)
    first = (torch.rand(64, 40_000, generator=rng) < 0.5).long()
    first[:, 200:] = 0
    again = first.clone()
    again[:, :200] ^= torch.rand(64, 200, generator=rng) < rate
    ask = lambda labels: lambda group: Answers(labels[group], labels[group], labels[group])  # noqa: E731
    assert many_changes(first, ask(again)) == ""
    first[:, 0] = 0
    again[:, 0] = torch.arange(64) % 2
    assert many_changes(first, ask(again)) == "1 components changed as noise changes them"


def test_classifiers_that_give_labels_are_asked_for_more():
    """64 entries of one label show what six cannot; 12 labels of six entries are enough."""
    for N, entries in ((1, 64), (12, 0)):
        model = Recorded(lambda batch: (batch > 0).long())
        sc.sample(model, torch.zeros(N), noise=NOISE, n=100, n0=10, seed=0)
        at = [len(batch) for batch in model.batches].index(100)
        assert sum(map(len, model.batches[at + 1 :])) == 6 + entries


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_difference_of_noisy_inputs_is_measured_against_the_noise(offset):
    x = image().double() + offset
    a, b = (NOISE.draw(x, [DrawStream(0, "", "agree", j)]) for j in range(2))
    assert inputs_differ(a, b, x)
    assert inputs_differ(a, a + 0.05 * (b - a), x)
    assert not inputs_differ(a, a + 1e-9 * (b - a), x)


def test_an_input_that_noise_leaves_alone_is_no_stuck_noise():
    """Points on the axis do not move: all draws are equal, and equal to the input."""
    cloud = torch.tensor([[0.0, 0.0, 1.0]]).repeat(9, 1) * torch.arange(9.0)[:, None]
    votes = sc.sample(lambda batch: (batch[..., 2] > 4).long(), cloud, noise=sc.AxisRotation(0.3, "z"), n=8, seed=0)
    assert (votes.agree == 8).all()


def test_a_model_whose_resolution_depends_on_the_batch_is_refused():
    full, coarse = Conv(1).eval(), Conv(2).eval()
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        sc.sample(lambda batch: (full if len(batch) < 5 else coarse)(batch), image(), noise=NOISE, seed=0)


@pytest.mark.parametrize(
    ("size", "bits", "differ"), [(1e4, 2, False), (1e4, 5000, True), (1e-3, 2, False), (1e-3, 5000, True)]
)
def test_rounding_of_noisy_inputs_grows_with_their_size(size, bits, differ):
    """Two draws that differ in their last bits are the same: at 10,000 these are 0.002, at 0.001 they are 2e-10."""
    x = torch.full((3, 4, 4), size)
    a = x * (1 + 1e-6)
    assert inputs_differ(a, a * (1 + bits * torch.finfo(a.dtype).eps), x) is differ


def answered(**changed):
    """What asking again gave, where nothing changed but what is given."""
    nothing = {"noise": False, "logits": 0.0, "labels": 0, "labels_by_noise": 0, "of_labels": 10_000, "exact": True,
               "logits_of_one": 0, "most": 0}  # fmt: skip
    return Changes(**nothing | changed)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, ""),
        ({"logits": 1 / 32}, ""),
        ({"logits": 0.04}, "logits changed by 0.04 of what noise changes"),
        ({"labels": 20}, ""),  # 0.002 of all labels may be ties
        ({"labels": 21}, "21 of 10000 labels changed"),
        ({"labels": 21, "exact": False}, ""),  # from logits, one more
        ({"labels": 22, "exact": False}, "22 of 10000 labels changed"),
        ({"labels": 120, "labels_by_noise": 3200}, ""),  # and 1/32 of what noise changes
        ({"labels": 121, "labels_by_noise": 3200}, "121 of 10000 labels changed"),
        ({"logits_of_one": 1}, "1 logits of single components changed"),
    ],
)
def test_how_much_rounding_may_change(changed, found):
    assert answered(**changed).found.startswith(found)
    assert bool(answered(**changed).found) == bool(found)


@pytest.mark.parametrize(
    ("changed", "is_open"),
    [
        ({"of_labels": 63}, True),  # too few labels to see
        ({"of_labels": 64}, False),
        ({"of_labels": 9_999, "most": 1}, True),  # one of few changed
        ({"of_labels": 10_000, "most": 1}, False),
        ({"of_labels": 10_000, "most": 2}, True),  # one component changed twice
        ({"of_labels": 63, "exact": False}, False),  # logits show enough
    ],
)
def test_when_labels_leave_it_open(changed, is_open):
    assert answered(**changed).open is is_open


@pytest.mark.parametrize(("changed", "found"), [(5, ""), (6, "1 components changed as noise changes them")])
def test_one_of_many_components_may_have_a_few_ties_more(changed, found):
    """Of 4096 components that noise leaves alone, one may change 2 + 12 / 4 times of 64."""
    first = torch.zeros(64, 4096, dtype=torch.int64)
    again = first.clone()
    again[:changed, 7] = 1
    assert many_changes(first, lambda group: Answers(first[group], first[group], again[group])) == found


def test_two_entries_are_compared_with_what_noise_changes_between_them():
    """One component's logits may change by less than half of what noise changes, also in a batch of two."""
    output = torch.stack([torch.zeros(2, 8, 8), torch.ones(2, 8, 8)])
    first = Answers.of(output, torch.rand(2, 2, 8, 8))
    for change, found in ((0.4, 0), (1.5, 1)):
        again = output.clone()
        again[0, 0, 3, 3] += change
        second = Answers(first.batch, again, first.labels)
        assert changes(first, torch.zeros(2, 8, 8), second.at, pairs(2), COARSE).logits_of_one == found


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_small_logits_hide_no_change(scale):
    """Half of every entry's noise is the batch's: what changed is the same share, whatever the logits are scaled by."""
    rng = torch.Generator().manual_seed(0)
    output = torch.randn(6, 3, 5, 5, generator=rng, dtype=torch.float64)
    batch = torch.rand(6, 3, 5, 5, generator=rng)
    first = Answers.of(scale * output, batch)
    again = Answers.of(scale * (output + output.roll(1, 0)) / 2, batch)
    changed = changes(first, torch.zeros(3, 5, 5), again.at, pairs(6), COARSE)
    assert changed.logits == pytest.approx(0.5, abs=0.05)
    assert changed.found


@pytest.mark.parametrize("allowed", [COARSE, FINE])
def test_logits_of_a_large_class_hide_no_change_of_another(allowed):
    """Half of every entry's noise is the batch's in one class; those of another are a million times larger."""
    rng = torch.Generator().manual_seed(0)
    output = torch.randn(6, 2, 5, 5, generator=rng, dtype=torch.float64) * torch.tensor([1.0, 1e6]).view(2, 1, 1)
    again, batch = output.clone(), torch.rand(6, 3, 5, 5, generator=rng)
    again[:, 0] = (output + output.roll(1, 0))[:, 0] / 2
    second = Answers.of(again, batch)
    found = changes(Answers.of(output, batch), torch.zeros(3, 5, 5), second.at, pairs(6), allowed)
    assert found.logits == pytest.approx(0.5, abs=0.05)
    assert found.found


@pytest.mark.parametrize(("times", "found"), [(0.7, 0), (1.4, 1)])
def test_a_logit_amid_most_of_its_class_has_the_scale_of_how_closely_they_lie(times, found):
    """The cubes of -1 to 1, around 100: a quarter lie between -1/64 and 1/64, and 8 / 2^14 of that width may change."""
    rng = torch.Generator().manual_seed(0)
    output = 100 + torch.linspace(-1, 1, 401).double() ** 3 + 1e-6 * torch.randn(6, 2, 401, generator=rng)
    again, batch = output.clone(), torch.rand(6, 401, generator=rng)
    again[0, 0, 200] += times * 8 * 2.0**-14 / 32
    second = Answers.of(again, batch)
    first = Answers.of(output, batch)
    assert changes(first, torch.zeros(401), second.at, pairs(6), FINE).logits_of_one == found


def test_a_noise_that_shares_its_draws_in_large_batches_is_refused():
    """The probe sees two entries, which differ; the model's answers show nothing."""

    class Shared(sc.Gaussian):
        def draw(self, x, streams):
            return super().draw(x, streams if len(streams) <= 2 else [streams[-1]] * len(streams))

    def constant(batch):
        return torch.zeros(len(batch), 12, 16, dtype=torch.int64)

    for n0, n in ((10, 2), (2, 10)):
        with pytest.raises(sc.InputError, match="the noise of a draw depends on the other draws of its batch"):
            sc.sample(constant, image(), noise=Shared(0.25), n=n, n0=n0, seed=0)
    assert sc.sample(constant, image(), noise=Shared(0.25), n=2, n0=2, seed=0).n == 2


def linear(batch):
    return torch.stack([batch, -batch], 1)


class Half(torch.nn.Linear):
    precision = "fp16"


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        (linear, torch.float32, FINE),
        (linear, torch.float64, FINE),
        (linear, torch.bfloat16, COARSE),
        (torch.nn.Linear(2, 2), torch.float32, FINE),
        (torch.nn.Sequential(torch.nn.Linear(2, 2).bfloat16()), torch.float32, COARSE),
        (torch.nn.Sequential(Half(2, 2)), torch.float32, COARSE),
        (with_precision(linear, "bf16"), torch.float32, COARSE),
        (with_precision(linear, "fp32"), torch.float32, FINE),
    ],
)
def test_single_precision_is_held_to_its_own_rounding(model, dtype, expected):
    assert tolerance_of(model, torch.zeros(2, 2, dtype=dtype)) is expected


def test_half_precision_may_be_asked_of_torch():
    output = torch.zeros(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert tolerance_of(linear, output) is COARSE
    torch.set_float32_matmul_precision("medium")
    try:
        assert tolerance_of(linear, output) is COARSE
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rounding", "passes"), [(2.0**-15, True), (2.0**-9, False)])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_rounding_of_single_precision_is_told_from_cross_talk(rounding, passes, dtype, offset):
    """Logits that move by a share of their usual size; one has a size that would hide the change of any other.

    Noise moves them by 0.01 of it. The logits of one component alone are looked at in the same way.
    """
    rng = torch.Generator().manual_seed(0)
    answers = (torch.randn(1, 3, 40, 50, generator=rng) + 0.01 * torch.randn(6, 3, 40, 50, generator=rng)).double()
    answers[..., 0, 0] = 1e6
    moves = rounding * torch.rand(answers.shape, generator=rng).double()
    again, one = answers + moves, answers.clone()
    one[..., 1, 1] += 8 * moves[..., 1, 1]
    batch = torch.rand(6, 3, 40, 50, generator=rng)
    first, *others = (Answers.of((each + offset).to(dtype), batch) for each in (answers, again, one))
    for second in others:
        found = changes(first, torch.zeros(3, 40, 50), second.at, pairs(6), FINE).found
        assert bool(found) != passes, found


@pytest.mark.parametrize("masked", [0.1, 0.9])
def test_many_masked_components_hide_nothing(masked):
    """Also if most logits of a class are -1e9: a logit near 0 has a scale of its own."""
    rng = torch.Generator().manual_seed(0)
    answers = torch.randn(1, 2, 1000, generator=rng) + 0.1 * torch.randn(6, 2, 1000, generator=rng)
    answers[..., : int(1000 * masked)] = -1e9
    batch = torch.rand(6, 1000, generator=rng)
    first = Answers.of(answers, batch)
    second = Answers.of(torch.lerp(answers, answers[:1], 0.02), batch)
    assert changes(first, torch.zeros(1000), second.at, pairs(6), FINE).found
    assert not changes(first, torch.zeros(1000), second.at, pairs(6), COARSE).found
