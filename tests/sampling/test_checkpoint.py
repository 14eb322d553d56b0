"""Checkpoints: a run resumes if the model's answers at the input itself are the same."""

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify.sampling.checkpoint import recorded_seed
from segcertify.sampling.draws import Draws
from segcertify.storage import archive

SETTINGS = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "seed": 0}


@pytest.fixture
def finished(tmp_path):
    """The checkpoint of a run that is done."""
    path = tmp_path / "resume.safetensors"
    sc.sample(stripes, image(), **SETTINGS, checkpoint=path)
    return path


def test_it_resumes(finished):
    sizes = []

    def model(batch):
        sizes.append(len(batch))
        return stripes(batch)

    votes = sc.sample(model, image(), **SETTINGS, checkpoint=finished)
    assert sizes == [2] * 4  # the probe, and once more at the input itself
    whole = sc.sample(stripes, image(), **SETTINGS)
    assert same(votes, whole)
    assert (votes.fingerprint, votes.fingerprint_of) == (whole.fingerprint, "probe")


class Dice:
    """A random model: the seeds decide whether an entry's labels are one higher."""

    random = True

    def __init__(self, chance=0.5):
        self.chance = chance

    def __call__(self, batch, seeds):
        higher = [np.random.default_rng(seed).random() < self.chance for seed in seeds]
        return stripes(batch) + torch.tensor(higher).view(-1, 1, 1, 1)


def test_a_random_model_resumes_and_merges_and_another_does_not(tmp_path):
    """Equal seeds, equal answers: its fingerprint is the same each time."""
    path, x, settings = tmp_path / "resume.safetensors", image(), SETTINGS | {"seed": 0}
    first = sc.sample(Dice(), x, **settings, checkpoint=path)
    assert same(first, sc.sample(Dice(), x, **settings, checkpoint=path))
    more = sc.sample(Dice(), x, **settings, first=60)
    assert first.fingerprint == more.fingerprint
    assert first.merge(more).n == 120
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(Dice(0.0), x, **settings, checkpoint=path)


def test_another_model_is_refused(tmp_path):
    """Also one that differs near this input alone, and not at the fixed input of the probe."""
    path, x = tmp_path / "resume.safetensors", image() + 3

    def elsewhere(batch):
        return stripes(batch) + (batch.mean((1, 2, 3), keepdim=True) > 2)

    first = sc.sample(stripes, x, **SETTINGS, checkpoint=path)
    assert sc.sample(elsewhere, x, **SETTINGS).fingerprint == first.fingerprint
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(elsewhere, x, **SETTINGS, checkpoint=path)


def changed_at(pixels, *, by=1):
    """`stripes`, but for some pixels whose labels are larger."""
    extra = torch.zeros(64 * 64, dtype=torch.long)
    extra[list(pixels)] = by
    return lambda batch: 120 + stripes(batch[:, 0]) + extra[: batch[0, 0].numel()].view(batch.shape[2:])


def with_offset(offset, pixels=slice(None)):
    """Two logits for each pixel, both of them near 10,000."""
    extra = torch.zeros(64 * 64)
    extra[pixels] = offset

    def model(batch):
        first = 10_000 + batch[:, 0]
        return torch.stack([first, first.flip(-1) + extra[: first[0].numel()].view(first.shape[1:])], 1)

    return model


def conv(weight):
    """A network of which only one weight differs, by so little that no probe sees it."""
    network = Conv().eval()
    network.layer.weight.data[0, 0, 0, 0] += weight
    return network


OTHERS = {
    "10 of 576 labels": (24, changed_at(()), changed_at(range(100, 110))),
    "10 labels beside those of the fingerprint": (64, changed_at(()), changed_at(range(101, 181, 8))),
    "labels of large numbers": (24, changed_at(()), changed_at(range(576))),
    "logits with an offset": (24, with_offset(0.0), with_offset(3.0)),
    "logits beside those of the fingerprint": (64, with_offset(0.0), with_offset(3.0, slice(101, 421, 32))),
    "one weight": (24, conv(0.0), conv(1e-6)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_that_differs_a_little_is_refused(name, tmp_path):
    """Each of these resumed the other's run, and got its certificate."""
    side, one, other = OTHERS[name]
    path, x = tmp_path / "resume.safetensors", image(shape=(3, side, side))
    settings = {"sigma": 0.01, "n": 60, "n0": 5, "batch_size": 4, "seed": 0, "checkpoint": path}
    first = sc.certify(one, x, **settings)
    assert np.array_equal(sc.certify(one, x, **settings).labels, first.labels)
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.certify(other, x, **settings)


class StoppedError(BaseException):
    """A run was stopped here."""


def stop_after(calls):
    """`stripes` for so many calls; then the run stops."""
    left = [calls]

    def model(batch):
        left[0] -= 1
        if left[0] < 0:
            raise StoppedError
        return stripes(batch)

    return model


@pytest.mark.fresh_seed
def test_a_run_without_a_seed_resumes_with_the_recorded_one(tmp_path):
    path, settings = tmp_path / "resume.safetensors", {**SETTINGS, "seed": None}
    with pytest.raises(StoppedError):
        sc.sample(stop_after(12), image(), **settings, checkpoint=path, checkpoint_every=0)
    recorded = recorded_seed(path)
    assert not recorded.given
    with pytest.raises(sc.InputError, match=r"its seed is \d+, now it is 5"):
        sc.sample(stripes, image(), **{**SETTINGS, "seed": 5}, checkpoint=path)
    with pytest.raises(sc.InputError, match="belongs to another run: its input is"):
        sc.sample(stripes, image(1), **settings, checkpoint=path)
    votes = sc.sample(stripes, image(), **settings, checkpoint=path)
    assert (votes.seed, votes.seed_given) == (recorded.value, False)
    whole = sc.sample(stripes, image(), **{**SETTINGS, "seed": recorded.value})
    assert same(votes, whole)
    named = sc.sample(stripes, image(), **{**SETTINGS, "seed": recorded.value}, checkpoint=path)
    assert (same(named, whole), named.seed_given) == (True, False)  # it was drawn when the run began
    certificate = sc.certify(stripes, image(), sigma=0.25, n=60, n0=20, batch_size=4, checkpoint=path)
    assert certificate.seed == recorded.value


def test_files_of_version_1_have_answers_alone_and_all_must_agree(finished):
    header, arrays = archive.read(finished, kind="checkpoint", version=3)
    old = {name: value for name, value in header.items() if name not in ("seed_given", "model")}
    old["fingerprint"] = [*old["fingerprint"][:-1], old["fingerprint"][-1] + 1]
    arrays.pop("labels_of_probes")
    archive.write(finished, kind="checkpoint", version=1, header=old, arrays=arrays)
    with pytest.raises(sc.InputError, match="was written with another model: its answers"):
        sc.sample(stripes, image(), **SETTINGS, checkpoint=finished)
    old["fingerprint"][-1] -= 1
    archive.write(finished, kind="checkpoint", version=1, header=old, arrays=arrays)
    assert recorded_seed(finished).given
    assert same(sc.sample(stripes, image(), **SETTINGS, checkpoint=finished), sc.sample(stripes, image(), **SETTINGS))


@pytest.mark.parametrize("n0", [0, 20])
def test_a_checkpoint_that_lacks_counts_is_refused(tmp_path, n0):
    """Also one with a true digest: no other error comes up, and no count is taken for zero."""
    path, settings = tmp_path / "resume.safetensors", SETTINGS | {"n0": n0, "counts": True}
    sc.sample(stripes, image(), **settings, checkpoint=path)
    header, arrays = archive.read(path, kind="checkpoint", version=3)
    bits, values = (arrays.pop(f"counts_{name}") for name in ("above_zero", "values"))
    last = int(np.unpackbits(bits[-1]).sum())  # how many values the last class has
    wrong = [{}, {"counts_above_zero": bits}, {"counts_above_zero": bits, "counts_values": values[:-last]}]
    if n0:
        candidate = arrays["candidate"].astype(np.int32) + 2**16  # the same in 16 bits
        wrong += [{"counts_above_zero": bits, "counts_values": values, "candidate": candidate}]
    for some in wrong:
        archive.write(path, kind="checkpoint", version=3, header=header, arrays=arrays | some)
        with pytest.raises(sc.InputError, match=r"delete it to start anew|make it again"):
            sc.sample(stripes, image(), **settings, checkpoint=path)


def test_rounding_is_no_other_model(tmp_path):
    """Logits may differ in their last bits, and labels where two of them are nearly equal."""
    path, x = tmp_path / "resume.safetensors", image(shape=(3, 64, 64))

    def logits(error):
        noise = error * torch.from_numpy(np.random.default_rng(0).standard_normal((2, 64, 64))).float()
        return lambda batch: torch.stack([batch[:, 0], batch[:, 0].flip(-1)], 1) + noise

    first = sc.sample(logits(0.0), x, **SETTINGS, checkpoint=path)
    assert same(sc.sample(logits(3e-4), x, **SETTINGS, checkpoint=path), first)
    assert not same(sc.sample(logits(3e-4), x, **SETTINGS), first)  # rounding moves some labels
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(logits(0.03), x, **SETTINGS, checkpoint=path)


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_that_no_logits_of_the_model_stand_for_are_not_its_own(tmp_path, label):
    """A file with a true digest holds one label of a class that the model does not have: the reason is said."""
    path, x = tmp_path / "resume.safetensors", image(shape=(3, 8, 8))
    settings = SETTINGS | {"n": 8, "n0": 4, "checkpoint": path}
    model = lambda batch: torch.stack([batch[:, 0], batch[:, 1]], 1)  # noqa: E731
    sc.sample(model, x, **settings)
    header, arrays = archive.read(path, kind="checkpoint", version=3)
    arrays["labels_of_probes"] = arrays["labels_of_probes"].copy()
    arrays["labels_of_probes"][0, 3, 5] = label
    archive.write(path, kind="checkpoint", version=3, header=header, arrays=arrays)
    with pytest.raises(sc.InputError, match="was written with another model: its answers to the same probes differ"):
        sc.sample(model, x, **settings)


@pytest.mark.parametrize(
    "change", [lambda labels: labels[:-1], lambda labels: labels[..., :-1]], ids=["fewer copies", "fewer components"]
)
def test_labels_of_another_shape_are_not_the_models(tmp_path, change):
    """Also where all that are left are the model's: a file with a true digest is refused, with the reason."""
    path, x = tmp_path / "resume.safetensors", image(shape=(3, 8, 8))
    settings = SETTINGS | {"n": 8, "n0": 4, "checkpoint": path}
    model = lambda batch: torch.stack([batch[:, 0], batch[:, 1]], 1)  # noqa: E731
    sc.sample(model, x, **settings)
    header, arrays = archive.read(path, kind="checkpoint", version=3)
    arrays["labels_of_probes"] = change(arrays["labels_of_probes"]).copy()
    archive.write(path, kind="checkpoint", version=3, header=header, arrays=arrays)
    with pytest.raises(sc.InputError, match="was written with another model: its answers to the same probes differ"):
        sc.sample(model, x, **settings)


def test_a_checkpoint_of_a_noise_that_is_merely_called_gaussian_is_refused(tmp_path):
    """It would draw less noise than its name says, and pass its counts on to a proven one."""

    class Gaussian(sc.Gaussian):
        def draw(self, x, streams):
            return x + (super().draw(x, streams) - x) / 50

    path = tmp_path / "resume.safetensors"
    settings = SETTINGS | {"checkpoint": path}
    sc.sample(stripes, image(), **settings | {"noise": Gaussian(NOISE.sigma)})
    with pytest.raises(sc.InputError, match=r"its noise is '.*\.Gaussian\(sigma="):
        sc.sample(stripes, image(), **settings)


@pytest.mark.parametrize(("scale", "offset"), [(100.0, 0.0), (0.01, 0.0), (1.0, -20.0), (1.0, 20.0)])
def test_rounding_is_a_share_of_the_range_of_the_logits(tmp_path, scale, offset):
    """Whatever the logits are scaled by, and whatever all of them have in common."""
    path, x = tmp_path / "resume.safetensors", image(shape=(3, 32, 32))
    rounding = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 32, 32))).float()

    def logits(error):
        return lambda batch: (torch.stack([batch[:, 0], batch[:, 0].flip(-1)], 1) + error * rounding) * scale + offset

    settings = SETTINGS | {"n": 8, "n0": 4}
    first = sc.sample(logits(0.0), x, **settings, checkpoint=path)
    assert same(sc.sample(logits(3e-4), x, **settings, checkpoint=path), first)
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(logits(0.03), x, **settings, checkpoint=path)


def test_a_failure_at_a_look_leaves_no_counts_of_more_draws_than_the_file_says(tmp_path, monkeypatch):
    """What `until` is asked with is looked at first, which may fail once: by then the counts are of more draws."""
    settle, failures = Draws.settle, [sc.ModelError("memory ran out")]

    def fails_once(draws, phase, done):
        if done == 140 and failures:
            raise failures.pop()
        settle(draws, phase, done)

    run = {"noise": NOISE, "n": 200, "n0": 10, "seed": 0, "batch_size": 60, "looks": (80, 140, 200)}
    whole = sc.sample(stripes, image(), **run, until=lambda votes: False)
    monkeypatch.setattr(Draws, "settle", fails_once)
    file = tmp_path / "run"
    given = {**run, "until": lambda votes: False, "checkpoint": file, "checkpoint_every": 1000}
    with pytest.raises(sc.InputError, match="memory ran out"):
        sc.sample(stripes, image(), **given)
    resumed = sc.sample(stripes, image(), **given)
    assert same(resumed, whole)
