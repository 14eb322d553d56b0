"""Smooth: counting, prefixes, interruption, memory, progress (points 2 and 4 of the sampling contract), probes."""

import inspect
import itertools
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify.errors import ModelError
from segcertify.sampling.segmenter import to_labels


@pytest.mark.parametrize("cut", [1, 30, 99])
def test_ranges_of_draws_merge_to_the_whole(cut):
    whole = sc.sample(stripes, image(), noise=NOISE, n=100, seed=0)
    parts = [sc.sample(stripes, image(), noise=NOISE, n=m, first=f, seed=0) for f, m in [(cut, 100 - cut), (0, cut)]]
    merged = parts[0].merge(parts[1])
    assert same(whole, merged)
    assert merged.draws == whole.draws == ((0, 100),)


def test_prefixes_equal_shorter_runs():
    votes = sc.sample(stripes, image(), noise=NOISE, n=100, prefixes=(10, 37, 100), batch_size=8, seed=0)
    for n in (10, 37, 100):
        assert same(votes.at(n), sc.sample(stripes, image(), noise=NOISE, n=n, seed=0))


# --- 4. interruption, memory, progress ---


def test_out_of_memory_halves_the_batch_and_goes_on():
    sizes = []

    def hungry(batch):
        sizes.append(len(batch))
        if len(batch) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    votes = sc.sample(hungry, image(), noise=NOISE, n=50, n0=4, batch_size=32, seed=0)
    assert same(votes, sc.sample(stripes, image(), noise=NOISE, n=50, n0=4, seed=0))
    assert max(size for size in sizes[3:] if size) <= 32
    assert 4 in sizes


@pytest.mark.parametrize("second", [3, 4])
def test_memory_that_runs_out_while_a_batch_is_checked_halves_it(second):
    """The answers of the whole batch are kept meanwhile: a smaller one leaves room."""
    sizes = []

    def model(batch):
        sizes.append(len(batch))
        if sizes.count(8) and sizes[sizes.index(8) :].count(2) == second and 4 not in sizes:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    found = sc.sample(model, image(), noise=NOISE, n=16, n0=8, seed=0, batch_size=8)
    assert same(found, sc.sample(stripes, image(), noise=NOISE, n=16, n0=8, seed=0))
    assert (4 in sizes) == (second == 3)  # the pairs of a batch of 8 are three


def test_memory_that_runs_out_while_labels_are_made_halves_the_batch(monkeypatch):
    """Also where batches of that size went well before, and their answers were compared."""
    sizes = []

    def hungry(output, batch):
        sizes.append(len(batch))
        if len(batch) == 8 and sizes.count(8) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return to_labels(output, batch)

    settings = {"noise": NOISE, "n": 40, "n0": 8, "seed": 0, "batch_size": 8}
    expected = sc.sample(stripes, image(), **settings)
    monkeypatch.setattr("segcertify.sampling.outputs.to_labels", hungry)
    assert same(sc.sample(stripes, image(), **settings), expected)
    assert 4 in sizes


def test_out_of_memory_in_the_probe():
    """A batch of two does not fit, one does."""

    def tight(batch):
        if len(batch) > 1:
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return stripes(batch)

    assert same(
        sc.sample(tight, image(), noise=NOISE, n=20, n0=4, seed=0),
        sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, seed=0),
    )


def test_out_of_memory_at_a_batch_of_one_is_an_error():
    calls = itertools.count()

    def starving(batch):
        if next(calls) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    with pytest.raises(ModelError, match=r"the model failed, OutOfMemoryError: CUDA out of memory \(after \d draws"):
        sc.sample(starving, image(), noise=NOISE, batch_size=1, seed=0)


@pytest.mark.parametrize("last", range(4, 14))
def test_out_of_memory_at_any_call_is_told_in_words(last):
    """Also where a batch is asked again, to verify it: that was a traceback."""
    calls = itertools.count()

    def starving(batch):
        if next(calls) >= last:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    with pytest.raises(ModelError, match="OutOfMemoryError: CUDA out of memory"):
        sc.sample(starving, image(), noise=NOISE, batch_size=5, n=60, n0=5, seed=0)


class KilledError(BaseException):
    """Stands for any sudden end."""


@pytest.mark.parametrize("after", [3, 6, 9, 15, 22])
def test_an_interrupted_run_resumes_to_the_same_votes(tmp_path, after):
    """Batches of 4: interrupted in the first pass, at its end, at a prefix, and near the end."""
    settings = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "prefixes": (10, 30), "seed": 0}
    path, calls = tmp_path / "resume.safetensors", itertools.count(1)

    def mortal(batch):
        if next(calls) > after:
            raise KilledError
        return stripes(batch)

    with pytest.raises(KilledError):
        sc.sample(mortal, image(), **settings, checkpoint=path, checkpoint_every=0)
    seen = []

    def counting(batch):
        seen.append(len(batch))
        return stripes(batch)

    votes = sc.sample(counting, image(), **settings, checkpoint=path, checkpoint_every=0)
    whole = sc.sample(stripes, image(), **settings)
    assert same(votes, whole)
    for n in (10, 30):
        assert same(votes.at(n), whole.at(n))
    if after > 7:  # 3 of the probe, a batch, two pairs that check it and the fingerprint come before the first state
        assert len(seen) < 3 + 21 + 2 + 1  # less than a whole run: the probe, its batches, the check, the fingerprint
    assert same(whole, sc.sample(stripes, image(), **settings, checkpoint=path))  # a finished one returns at once


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("within", [6, 9, 10, 21])
def test_ctrl_c_loses_no_draw(tmp_path, within):
    """In batches of 4, with no other state saved: 3 of the probe, 1 for the fingerprint, 5 of candidates, 15 more.

    The first batch is the largest: its four entries are asked again, in the two calls after it (6 and 7).
    """
    settings = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "checkpoint": tmp_path / "resume.safetensors"}
    settings["seed"] = 0
    calls = itertools.count(1)

    def pressed(batch):
        if next(calls) == within:
            signal.raise_signal(signal.SIGINT)
        return stripes(batch)

    with pytest.raises(KeyboardInterrupt):
        sc.sample(pressed, image(), **settings, checkpoint_every=1e9)
    seen = []

    def counting(batch):
        seen.append(len(batch))
        return stripes(batch)

    votes = sc.sample(counting, image(), **settings, checkpoint_every=1e9)
    assert same(votes, sc.sample(stripes, image(), noise=NOISE, n=60, n0=20, seed=0))
    done = 4 * max(1, within - 6)
    assert sum(seen[3:]) <= 80 - done + 4 + 2  # what was left, a check of four entries, and two for the fingerprint


@pytest.mark.parametrize("phase", ["candidate", "agree"])
@pytest.mark.parametrize(
    "failure", [RuntimeError("boom\n" * 99), ValueError("no"), SystemExit(3), "nan", MemoryError()]
)
def test_a_model_that_fails_in_the_middle_loses_no_draw(tmp_path, failure, phase):
    """Whatever it does: the draws before are kept, the input is named, and a mended model goes on from there."""
    settings = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "checkpoint": tmp_path / "resume.safetensors"}
    settings |= {"seed": 0, "input_id": "photo", "checkpoint_every": 1e9}
    calls, fails = itertools.count(1), 9 if phase == "candidate" else 20

    def logits(batch):
        return torch.stack([batch[:, 0], 1 - batch[:, 0]], 1)

    def failing(batch):
        if next(calls) >= fails:  # and for ever after
            if failure == "nan":
                return logits(batch) * torch.nan
            raise failure
        return logits(batch)

    done = 8 if phase == "candidate" else 32
    with pytest.raises(ModelError, match=rf"of the input 'photo'\)\. The {done} draws before it are kept in ") as found:
        sc.sample(failing, image(), **settings)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 600
    seen = []

    def counting(batch):
        seen.append(len(batch))
        return logits(batch)

    votes = sc.sample(counting, image(), **settings)
    assert same(votes, sc.sample(logits, image(), noise=NOISE, n=60, n0=20, seed=0, input_id="photo"))
    assert sum(seen[3:]) <= 80 - done - (20 if phase == "agree" else 0) + 4 + 2


def test_resuming_keeps_the_batch_partition(tmp_path):
    settings = {"noise": NOISE, "n": 40, "n0": 8, "checkpoint": tmp_path / "r", "checkpoint_every": 0, "seed": 0}
    sizes = []

    def mortal(batch):
        sizes.append(len(batch))
        if len(sizes) == 9:
            raise KilledError
        return stripes(batch)

    with pytest.raises(KilledError):
        sc.sample(mortal, image(), **settings, batch_size=4)
    sizes[:] = [0] * 9
    sc.sample(mortal, image(), **settings, batch_size=16)
    assert {*sizes[9:]} == {2, 4}  # probes and checks have 2


def test_models_that_resume_or_merge_must_be_the_same(tmp_path):
    """Candidates agree, probabilities do not: a model's answers to the probes tell them apart."""
    x, settings = torch.zeros(40), {"noise": NOISE, "n": 50, "n0": 5, "seed": 0}

    def sure(batch):
        return torch.stack([torch.zeros_like(batch), torch.ones_like(batch)], 1)

    def unsure(batch):
        return torch.stack([torch.zeros_like(batch), batch + 0.2], 1)

    first = sc.sample(sure, x, **settings, checkpoint=tmp_path / "r")
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(unsure, x, **settings, checkpoint=tmp_path / "r")
    with pytest.raises(sc.InputError, match="votes of different models do not merge"):
        first.merge(replace(sc.sample(unsure, x, **settings, first=50), candidate=first.candidate))
    assert first.merge(sc.sample(sure, x, **settings, first=50)).n == 100


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    base = {"noise": NOISE, "n": 20, "n0": 4, "checkpoint": path, "seed": 0}
    sc.sample(stripes, image(), **base)
    for changes, name in [
        ({"n": 21}, "n is 20"),
        ({"first": 5}, "first is 0"),
        ({"prefixes": (3,)}, r"prefixes are \[\]"),
        ({"seed": 3}, "seed is 0"),
        ({"noise": sc.Gaussian(0.5)}, "noise is"),
        ({"input_id": "b"}, "input_id is"),
        ({"mask": np.ones((3, 12, 16), bool)}, "mask is None"),
    ]:
        with pytest.raises(sc.InputError, match=f"belongs to another run: its {name}"):
            sc.sample(stripes, image(), **(base | changes))
    with pytest.raises(sc.InputError, match="its input is"):
        sc.sample(stripes, image(1), **base)
    with pytest.raises(sc.InputError, match="was written with another model"):
        sc.sample(lambda b: stripes(b + 0.1), image(), **base)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(sc.InputError, match="not a checkpoint file, or is truncated"):
        sc.sample(stripes, image(), **base)


def test_kill_9_and_resume(tmp_path):
    """A real process, killed in the middle of the second pass, twice."""
    script = textwrap.dedent("""
        import sys, time
        import numpy as np, torch
        import segcertify as sc
        torch.set_num_threads(1)

        def model(batch):
            if sys.argv[2] == "slow":
                print("batch", flush=True)
                time.sleep(0.05)
            return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)

        x = torch.from_numpy(np.random.default_rng(0).random((3, 12, 16))).float()
        votes = sc.sample(model, x, noise=sc.Gaussian(0.5), n=300, n0=20, batch_size=5, checkpoint=sys.argv[1],
                          checkpoint_every=0.0, seed=0)
        votes.save(sys.argv[1] + ".votes")
    """)
    for _ in range(2):
        command = [sys.executable, "-c", script, str(tmp_path / "killed"), "slow"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(16):
                assert process.stdout.readline() == "batch\n"
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert (tmp_path / "killed").exists()
    for name in ("killed", "whole"):
        subprocess.run([sys.executable, "-c", script, str(tmp_path / name), "fast"], check=True)
    killed, whole = (sc.Votes.load(tmp_path / f"{name}.votes") for name in ("killed", "whole"))
    assert same(killed, whole)
    assert (tmp_path / "killed.votes").read_bytes() == (tmp_path / "whole.votes").read_bytes()


def test_progress_shows_the_time_left(capfd):
    sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, progress=True, seed=0)
    assert "sampling" in capfd.readouterr().err
    sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, seed=0)
    assert capfd.readouterr() == ("", "")


def test_memory_does_not_grow_with_n():
    """The second pass keeps O(N) whatever n: 20 times the draws, the same peak within a few arrays."""

    def peak(n):
        tracemalloc.start()
        sc.sample(stripes, image(shape=(40, 50)), noise=NOISE, n=n, n0=4, batch_size=4, seed=0)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10)
    assert peak(400) < peak(20) + 4 * 2000 * 8


def test_certify_refuses_an_n_that_certifies_nothing_before_sampling():
    calls = []

    def model(batch):
        calls.append(len(batch))
        return stripes(batch)

    with pytest.raises(sc.InputError, match=r"n=20 can certify nothing at tau=0.75.* Use n >= 47"):
        sc.certify(model, image(), sigma=0.25, n=20, seed=0)
    assert len(calls) == 3  # the probes
    for arguments, message in [
        ({"tau": 0.4}, "tau must lie"),
        ({"alpha": 2}, "alpha must lie"),
        ({"norm": "l1"}, "proves nothing in norm='l1'"),
        ({"noise": NOISE}, "needs sigma, or a noise, and not both"),
        ({"correction": "k-fwer"}, "needs k"),
        ({"correction": ["holm"]}, "unknown correction"),
        ({"correction": lambda counts, p, alpha: None}, "the count that <lambda> certifies must be an integer"),
        ({"save_votes": "/"}, "it is a folder"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            sc.certify(stripes, image(), **({"sigma": 0.25, "seed": 0} | arguments))


def test_certify_is_sample_then_certify_votes(tmp_path):
    mask = np.random.default_rng(0).random((3, 12, 16)) < 0.7
    run = {"n": 100, "n0": 12, "seed": 3, "input_id": "a", "mask": mask}
    votes = sc.sample(stripes, image(), noise=sc.Gaussian(0.05), **run)
    expected = sc.certify_votes(votes, tau=0.8, alpha=0.01, correction="bonferroni")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = sc.certify(
            stripes,
            image(),
            sigma=0.05,
            tau=0.8,
            alpha=0.01,
            correction="bonferroni",
            save_votes=tmp_path / "v",
            checkpoint=tmp_path / "c",
            **run,
        )
    assert 0 < expected.certified < mask.sum()
    assert (tmp_path / "c").exists()
    assert certificate.labels.tolist() == expected.labels.tolist()
    assert repr(certificate) == repr(expected)
    assert same(sc.Votes.load(tmp_path / "v"), votes)


def test_certify_makes_its_draws_once(monkeypatch):
    """Reading, checking and hashing a large input twice would take as long as a fast network."""
    smooth, made = sc.Smooth(stripes, NOISE, seed=0), []
    draws = smooth.draws
    monkeypatch.setattr(smooth, "draws", lambda *given, **named: made.append(draws(*given, **named)) or made[-1])
    smooth.certify(image(), tau=0.75, n=40, n0=4, alpha=0.5)
    assert len(made) == 1


def test_draws_show_their_components():
    smooth = sc.Smooth(Conv(2).eval(), NOISE, seed=0)
    assert smooth.draws(image()).components == (12, 16)
    assert smooth.votes(image(), n=2, n0=1).N == 192


# --- the noun ---


def test_smooth_is_what_the_short_forms_call(tmp_path):
    noise, run = sc.Gaussian(0.05), {"n": 100, "n0": 12, "input_id": "a"}
    smooth = sc.Smooth(stripes, noise, seed=3, batch_size=7, device="cpu")
    short = {"seed": 3, "batch_size": 7, "device": "cpu"}
    assert same(smooth.votes(image(), **run), sc.sample(stripes, image(), noise=noise, **run, **short))
    claim = {"tau": 0.8, "alpha": 0.01, "correction": "k-fwer", "b": 2, "norm": "linf"}
    ours = smooth.certify(image(), **run, **claim, save_votes=tmp_path / "v")
    theirs = sc.certify(stripes, image(), sigma=0.05, **run, **claim, **short)
    assert np.array_equal(ours.labels, theirs.labels)
    assert repr(ours) == repr(theirs)
    assert same(sc.Votes.load(tmp_path / "v"), smooth.votes(image(), **run))
    assert repr(sc.Smooth(stripes, sigma=0.05, seed=0)) == "Smooth(stripes, Gaussian(sigma=0.05), seed=0)"


def test_predict_is_a_certificate_at_one_half():
    mask = np.random.default_rng(0).random((3, 12, 16)) < 0.7
    smooth = sc.Smooth(stripes, sigma=0.1, seed=0)
    labels = smooth.predict(image(), n=60, n0=7, alpha=0.01, input_id="a", mask=mask)
    votes = smooth.votes(image(), n=60, n0=7, input_id="a", mask=mask)
    assert np.array_equal(labels, sc.certify_votes(votes, tau=0.5, alpha=0.01).labels)
    assert 0 < (labels == sc.ABSTAIN).sum() < labels.size
    with pytest.raises(sc.InputError, match=r"n=5 can certify nothing at tau=0.5"):
        smooth.predict(image(), n=5)


def test_counts_and_agreement_are_of_the_same_draws():
    smooth = sc.Smooth(stripes, sigma=0.1, batch_size=7, seed=0)
    counts = smooth.counts(image(), n=50, input_id="b")
    assert (counts.sum(0) == 50).all()
    assert counts[-1].any()  # as many classes as came up
    votes = smooth.votes(image(), n=50, input_id="b")
    assert np.array_equal(np.take_along_axis(counts, votes.candidate[None], 0)[0], votes.agree)
    assert np.array_equal(smooth.agreement(image(), votes.candidate, n=50, input_id="b"), votes.agree)
    assert not smooth.agreement(image(), np.full((3, 12, 16), sc.ABSTAIN), n=10).any()
    done = []
    smooth.counts(image(), n=20, progress=done.append)
    smooth.agreement(image(), votes.candidate, n=20, progress=done.append)
    assert done == [7, 7, 6] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "smoothing needs sigma, or a noise, and not both"),
        ({"noise": NOISE, "sigma": 0.25}, "smoothing needs sigma, or a noise, and not both"),
        ({"noise": 0.25}, "noise must be a noise"),
        ({"sigma": -1}, "sigma must be positive, but got -1"),
        ({"sigma": 1, "seed": -1}, "seed must be an integer not less than 0"),
        ({"sigma": 1, "batch_size": 0}, "batch_size must be an integer not less than 1"),
        ({"sigma": 1, "device": "gpu"}, "device must be such as"),
    ],
)
def test_bad_smoothing(arguments, message):
    with pytest.raises(sc.InputError, match=message):
        sc.Smooth(stripes, **arguments)


def test_bad_labels():
    with pytest.raises(sc.InputError, match=r"of components \(2,\), but the model has \(3, 12, 16\): give the model"):
        sc.Smooth(stripes, NOISE, seed=0).agreement(image(), np.zeros(2, int))
    with pytest.raises(sc.InputError, match="n must be an integer not less than 1"):
        sc.Smooth(stripes, NOISE, seed=0).counts(image(), n=0)


@pytest.mark.parametrize(
    "call",
    [sc.certify, sc.sample, sc.joint_class, sc.Smooth.certify, sc.Smooth.votes, sc.Smooth.predict, sc.Smooth.counts,
     sc.Smooth.agreement],
)  # fmt: skip
def test_every_form_has_the_same_defaults(call):
    """As documented: 100 draws after 10, tau 0.75, alpha 0.001, Holm's correction."""
    usual = {
        "n": 100,
        "n0": 10,
        "tau": 0.75,
        "alpha": 0.001,
        "correction": "holm",
        "first": 0,
        "checkpoint_every": 10.0,
    }
    parameters = inspect.signature(call).parameters
    assert {name: parameters[name].default for name in usual if name in parameters} == {
        name: value for name, value in usual.items() if name in parameters
    }
    assert "n" in parameters


def test_progress_counts_all_draws(capfd):
    sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, progress=True, seed=0)
    assert "24/24" in capfd.readouterr().err


def test_counts_of_a_model_that_gives_one_label_are_of_one_class():
    smooth = sc.Smooth(lambda batch: torch.zeros(batch[:, 0].shape, dtype=torch.int64), NOISE, seed=0)
    found = smooth.counts(image(), n=7)
    assert found.shape == (1, *image().shape[1:])
    assert (found == 7).all()


@pytest.mark.parametrize("after", [6, 9, 15, 22])
def test_the_progress_of_a_resumed_run_begins_with_the_draws_that_are_kept(tmp_path, after):
    settings = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "seed": 0, "checkpoint": tmp_path / "resume"}
    calls, steps = itertools.count(1), []

    def mortal(batch):
        if next(calls) > after:
            raise KilledError
        return stripes(batch)

    with pytest.raises(KilledError):
        sc.sample(mortal, image(), **settings, checkpoint_every=0)
    sc.sample(stripes, image(), **settings, progress=steps.append)
    assert sum(steps) == 80
    if after > 7:
        assert steps[0] > 0


def test_a_device_without_numbers_is_refused():
    with pytest.raises(sc.InputError, match="device='meta' cannot be used here"):
        sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, seed=0, device="meta")
