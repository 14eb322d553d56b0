"""Verification: rounding that batches of another size bring is told from entries that influence each other."""

import pytest
import torch
from segmenters import NOISE, image, same

import segcertify as sc
from segcertify.sampling.streams import DrawStream
from segcertify.sampling.verification import Verification

REFUSED = "different answers to the same noisy input"


def right(batch):
    return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1).double()


class Rounding:
    """Logits that depend on the size of the batch a little, as a deep network's do in half precision."""

    precision = "bf16"

    def __init__(self, change, leak=lambda logits, batch: logits):
        self.change, self.leak, self.sizes = change, leak, []

    def __call__(self, batch):
        self.sizes.append(len(batch))
        if len(batch) <= 2:
            return right(batch)
        moved = torch.randn(right(batch).shape[1:], generator=torch.Generator().manual_seed(len(batch)))
        return self.leak(right(batch), batch) + self.change * moved


def mean(share):
    return lambda logits, batch: torch.lerp(logits, logits.mean(0, keepdim=True), share)


def last(share):
    return lambda logits, batch: torch.lerp(logits, logits[-1:], share)


def neighbour(share):
    return lambda logits, batch: torch.lerp(logits, logits.roll(1, 0), share)


def largest(share):
    return lambda logits, batch: torch.lerp(logits, logits.amax(0, keepdim=True), share)


def test_rounding_of_deep_networks_is_looked_into():
    """What pairs show is beyond the bound; batches of the same size show that neighbours change nothing."""
    model = Rounding(0.02)
    votes = sc.sample(model, image(), noise=NOISE, n=100, n0=10, seed=0)
    assert votes.n == 100
    later = model.sizes[model.sizes.index(10) :]
    assert later == [10, 2, 2, 2, 10, 10, 100, 2, 2, 2, 100, 100]


@pytest.mark.parametrize("leak", [mean(0.1), last(0.1), neighbour(0.1), largest(0.1)])
@pytest.mark.parametrize("change", [0.0, 0.01, 0.02])
def test_rounding_hides_no_influence(leak, change):
    """A tenth of other entries' answers, beside as much rounding as is looked into."""
    with pytest.raises(sc.InputError, match=REFUSED):
        sc.sample(Rounding(change, leak), image(), noise=NOISE, n=100, n0=10, seed=0)


def test_single_precision_has_no_such_rounding():
    """On the CPU nothing is put down to it: a model that computes in half precision says so."""

    class Single(Rounding):
        precision = "fp32"

    model = Single(0.02)
    with pytest.raises(sc.InputError, match=REFUSED):
        sc.sample(model, image(), noise=NOISE, n=100, n0=10, seed=0)
    assert model.sizes[-4:] == [10, 2, 2, 2]


def test_answers_that_depend_much_on_the_size_are_refused():
    """No entry influences another, but batches of another size are another model."""
    with pytest.raises(sc.InputError, match=REFUSED):
        sc.sample(Rounding(0.2), image(), noise=NOISE, n=100, n0=10, seed=0)


def loud(model):
    """The same with one logit that is a thousand times as large as the others, in all entries."""

    def with_it(batch):
        logits = model(batch)
        logits[:, :, 3, 4] += 1e4
        return logits

    with_it.precision = "bf16"
    return with_it


@pytest.mark.parametrize("leak", [mean(0.1), last(0.1), neighbour(0.5), largest(1.0)])
def test_a_large_logit_hides_no_influence(leak):
    """The rounding that half precision is allowed is 40 here: pairs show nothing, batches of the same size do."""
    model = Rounding(0.0)
    assert sc.sample(loud(model), image(), noise=NOISE, n=100, n0=10, seed=0).n == 100
    assert model.sizes[-6:] == [100, 2, 2, 2, 100, 100]
    with pytest.raises(sc.InputError, match=REFUSED):
        sc.sample(loud(Rounding(0.0, leak)), image(), noise=NOISE, n=100, n0=10, seed=0)


def test_chosen_entries_never_are_all_in_one_batch_of_copies():
    """Entries that share what the first and the last have in common are found: one of them is a copy in each."""

    def ends(logits, batch):
        return torch.lerp(logits, (logits[:1] + logits[-1:]) / 2, 0.1)

    with pytest.raises(sc.InputError, match=REFUSED):
        sc.sample(Rounding(0.01, ends), image(), noise=NOISE, n=100, n0=10, seed=0)


def test_other_draws_stand_beside():
    """The neighbours are copies of a draw that is none of the run's, and chosen entries keep their places."""
    batches = []

    def model(batch):
        batches.append(batch.clone())
        return Rounding(0.02)(batch)

    model.precision = "bf16"
    sc.sample(model, image(), noise=NOISE, n=100, n0=10, seed=0)
    sizes = [len(batch) for batch in batches]
    whole, *copies = (batches[at] for at, size in enumerate(sizes) if size == 100)
    kept = [[j for j in range(100) if torch.equal(each[j], whole[j])] for each in copies]
    assert [len(places) for places in kept] == [3, 3]
    assert not set(kept[0]) & set(kept[1])
    assert {0, 99} <= set(kept[0] + kept[1])
    for each, places in zip(copies, kept, strict=True):
        others = [j for j in range(100) if j not in places]
        assert all(torch.equal(each[j], each[others[0]]) for j in others)
        assert not any(torch.equal(each[others[0]], entry) for batch in batches[:3] for entry in batch)


def test_votes_are_those_of_a_model_without_doubt():
    settings = {"noise": NOISE, "n": 60, "n0": 10, "seed": 0}
    assert same(sc.sample(Rounding(0.0), image(), **settings), sc.sample(right, image(), **settings))


def test_a_model_cannot_know_which_entries_are_asked_again():
    """The first and the last always; the four between depend on the seed, the input's id and the batch's size."""

    def entries(seed, input_id="", size=100):
        draws = sc.Smooth(right, NOISE, seed=seed).draws(image(), input_id)
        return Verification(draws, [("agree", j) for j in range(size)])._entries

    chosen = [entries(seed) for seed in range(20)]
    assert all(len(set(each)) == 6 and {0, 99} <= set(each) for each in chosen)
    assert len(set(map(tuple, chosen))) == 20
    assert len(set().union(*chosen)) > 40  # of 82 that 80 random ones make on average
    assert len({tuple(entries(*case)) for case in ((0,), (0, "b"), (0, "", 99))}) == 3


def test_the_neighbours_address_is_its_own():
    keys = {DrawStream(0, "", phase, 5)._key for phase in ("probe", "candidate", "agree", "verify", "neighbour")}
    assert len(keys) == 5


def test_a_batch_is_compared_with_second_answers_to_its_entries():
    draws, batch = sc.Smooth(right, NOISE, seed=0).draws(image()), [("agree", index) for index in range(8)]
    check = Verification(draws, batch)
    drawn = check.first(draws.made(batch))
    assert check.compare(drawn).labels.equal(drawn.labels)
    draws.model = lambda batch: right(batch.flip(0))  # each entry gets the answer to another
    check = Verification(draws, batch)
    with pytest.raises(sc.InputError, match=REFUSED):
        check.compare(check.first(draws.made(batch)))
