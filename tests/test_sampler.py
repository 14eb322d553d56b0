"""The sampling contract of the design, point by point."""

import itertools
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify.draws import Draws
from segcertify.sampler import Sampler
from segcertify.streams import DrawStream

NOISE = sc.Gaussian(0.25)


def stripes(batch):
    """Labels (B, *x.shape): which quarter-wide stripe each entry falls in. Exact, so counts are too."""
    return torch.clamp((4 * batch).floor(), -20, 20).long() + 20


class Conv(nn.Module):
    """A small network: logits at full, half or quarter resolution, or labels."""

    def __init__(self, stride=1, classes=5):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, classes, 3, stride=stride, padding=1)

    def forward(self, batch):
        return self.layer(batch)


def image(seed=0, shape=(3, 12, 16)):
    return torch.from_numpy(np.random.default_rng(seed).random(shape)).float()


def same(a, b):
    return np.array_equal(a.candidate, b.candidate) and np.array_equal(a.agree, b.agree)


def recorded(noise=NOISE, **arguments):
    """All inputs that the model saw, in order."""
    seen = []

    def model(batch):
        seen.append(batch.clone())
        return stripes(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draws, "_verify", lambda *arguments: None)  # it looks at two draws again
        votes = sc.sample(model, image(), noise=noise, **arguments)
    return votes, torch.cat(seen)


# --- 1. Draw j's noise depends on (seed, input id, j) alone ---


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 64, None])
def test_votes_do_not_depend_on_the_batch_size(batch_size):
    assert same(
        sc.sample(stripes, image(), noise=NOISE, batch_size=5),
        sc.sample(stripes, image(), noise=NOISE, batch_size=batch_size),
    )


def test_all_draws_of_a_run_differ():
    """The released SegCertify code gives every entry of a batch the same noise."""
    _, seen = recorded(n=60, n0=20, batch_size=16)
    runs = seen[-80:]  # what comes before are probes
    assert len({entry.numpy().tobytes() for entry in runs}) == 80
    noise = (runs - image()).flatten(1)
    correlation = np.corrcoef(noise.numpy())[np.triu_indices(80, 1)]
    assert abs(correlation).max() < 6 / np.sqrt(noise.shape[1])  # 3,160 pairs, false alarms below 1e-5


def test_candidate_and_agreement_draws_share_nothing():
    _, seen = recorded(n=40, n0=40, batch_size=40)
    candidate, agree = seen[-80:-40], seen[-40:]
    assert not any(torch.equal(a, b) for a, b in itertools.product(candidate, agree))


def test_keys_decide():
    base = {"noise": NOISE, "n": 30, "n0": 5}
    reference = sc.sample(stripes, image(), **base, seed=1, input_id="a")
    assert same(reference, sc.sample(stripes, image(), **base, seed=1, input_id="a"))
    assert not same(reference, sc.sample(stripes, image(), **base, seed=2, input_id="a"))
    assert not same(reference, sc.sample(stripes, image(), **base, seed=1, input_id="b"))


def test_global_random_state_is_neither_read_nor_set():
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    first = sc.sample(stripes, image(), noise=NOISE)
    states = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    torch.manual_seed(2)
    np.random.seed(1)  # noqa: NPY002
    assert same(first, sc.sample(stripes, image(), noise=NOISE))
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(1)
    assert torch.equal(states[0], torch.get_rng_state())


def test_seeds_that_torchs_cpu_generator_would_confuse_do_not_collide():
    """torch.Generator().manual_seed keeps 32 bits on the CPU; 100,000 draws of ours have 100,000 keys."""
    a, b = (torch.empty(8).normal_(generator=torch.Generator().manual_seed(s)) for s in (5, 5 + 2**32))
    assert torch.equal(a, b)  # why we do not use it
    keys = {DrawStream(0, "", "agree", j).rng.bit_generator.state["state"]["state"].tobytes() for j in range(100_000)}
    assert len(keys) == 100_000
    assert len({DrawStream(s, "", "agree", 0).model_seed for s in (5, 5 + 2**32, 5 + 2**64)}) == 3


@pytest.mark.parametrize("cut", [1, 30, 99])
def test_ranges_of_draws_merge_to_the_whole(cut):
    whole = sc.sample(stripes, image(), noise=NOISE, n=100)
    parts = [sc.sample(stripes, image(), noise=NOISE, n=m, first=f) for f, m in [(cut, 100 - cut), (0, cut)]]
    merged = parts[0].merge(parts[1])
    assert same(whole, merged)
    assert merged.draws == whole.draws == ((0, 100),)


def test_prefixes_equal_shorter_runs():
    votes = sc.sample(stripes, image(), noise=NOISE, n=100, prefixes=(10, 37, 100), batch_size=8)
    for n in (10, 37, 100):
        assert same(votes.at(n), sc.sample(stripes, image(), noise=NOISE, n=n))


# --- models ---


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_logits_are_upsampled_to_the_image(stride):
    model = Conv(stride).eval()
    votes = sc.sample(model, image(), noise=NOISE, n=20, n0=5)
    assert votes.candidate.shape == (12, 16)

    def labels(batch):
        with torch.no_grad():
            return nn.functional.interpolate(model(batch), (12, 16), mode="bilinear", align_corners=False).argmax(1)

    assert same(votes, sc.sample(labels, image(), noise=NOISE, n=20, n0=5))


@pytest.mark.parametrize(
    ("shape", "model", "components"),
    [
        ((3, 12, 16), lambda b: torch.stack([b.sum(1), -b.sum(1)], 1), (12, 16)),  # image
        ((1, 6, 7, 8), lambda b: torch.cat([b, -b], 1), (6, 7, 8)),  # volume
        ((2, 8, 8, 8), lambda b: nn.functional.avg_pool3d(b, 2), (8, 8, 8)),  # coarse volume
        ((50, 3), lambda b: torch.stack([b[..., 0], b[..., 1]], 1), (50,)),  # points
        ((9,), lambda b: torch.stack([b, -b], 1), (9,)),  # vector
        ((9,), lambda b: b > 0, (9,)),  # boolean labels
        ((3, 4, 5), lambda b: b.flatten(1)[:, :4], ()),  # classifier
        ((3, 4, 5), lambda b: (b.flatten(1)[:, :7] > 0.5).to(torch.uint8), (7,)),  # components of their own
    ],
)
def test_any_components(shape, model, components):
    x = image(shape=shape) - 0.2
    votes = sc.sample(model, x, noise=sc.Gaussian(0.1), n=30, n0=9)
    assert votes.candidate.shape == components
    assert votes.input_shape == shape
    brute = slow_votes(model, x, sc.Gaussian(0.1), n=30, n0=9)
    assert same(votes, brute)


def slow_votes(model, x, noise, n, n0):
    """All labels kept, counted with plain Python."""

    def labels(phase, count):
        maps = []
        for j in range(count):
            out = model(noise.draw(x, [DrawStream(0, "", phase, j)]))
            if out.is_floating_point() and out.ndim == x.ndim + 1 and x.ndim > 2:
                mode = "trilinear" if x.ndim == 4 else "bilinear"
                out = nn.functional.interpolate(out, x.shape[1:], mode=mode, align_corners=False)
            maps.append((out.argmax(1) if out.is_floating_point() else out.long())[0].numpy())
        return np.stack(maps)

    pilot, main = labels("candidate", n0), labels("agree", n)
    candidate = np.apply_along_axis(lambda column: np.bincount(column).argmax(), 0, pilot.reshape(n0, -1))
    candidate = candidate.reshape(pilot.shape[1:])
    return sc.Votes(candidate, (main == candidate).sum(0), n=n, n0=n0, noise=noise)


class Script:
    """A random model that answers from a list, draw by draw."""

    random = True

    def __init__(self, answers):
        self.answers = iter(answers)

    def __call__(self, batch, seeds):
        return torch.tensor([next(self.answers) for _ in seeds])[:, None].expand(-1, 4).clone()


def test_ties_go_to_the_lowest_label():
    probes = [0] * 6
    votes = sc.sample(Script([*probes, 3, 1, 1, 3, 1, 1, 3]), image(), noise=NOISE, n=3, n0=4, batch_size=2)
    assert votes.candidate.tolist() == [1, 1, 1, 1]
    assert votes.agree.tolist() == [2, 2, 2, 2]


def test_a_half_precision_model_gets_half_precision_inputs_with_single_precision_noise():
    seen = []
    model = Conv().to(torch.bfloat16).eval()
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    votes = sc.sample(model, image(), noise=NOISE, n=4, n0=2)
    assert set(seen) == {torch.bfloat16}
    assert votes.candidate.shape == (12, 16)


def test_numpy_inputs_and_noncontiguous_inputs_give_the_same_votes():
    x = image()
    reference = sc.sample(stripes, x, noise=NOISE, n=20)
    assert same(reference, sc.sample(stripes, x.numpy(), noise=NOISE, n=20))
    odd = x.numpy().astype(">f4")[:, ::-1][:, ::-1]  # big-endian, and once with negative strides
    assert same(reference, sc.sample(stripes, odd, noise=NOISE, n=20))
    assert sc.sample(stripes, x.numpy()[::-1], noise=NOISE, n=20).n == 20
    swapped = x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert same(reference, sc.sample(stripes, swapped, noise=NOISE, n=20))


class Dice:
    """A model that is itself random: labels from the seeds alone."""

    random = True

    def __call__(self, batch, seeds):
        rows = [np.random.default_rng(seed).integers(0, 3, batch.shape[1:]) for seed in seeds]
        return torch.from_numpy(np.stack(rows))


def test_random_models_get_a_seed_per_draw():
    votes = sc.sample(Dice(), image(), noise=NOISE, n=60, n0=9, batch_size=7)
    assert same(votes, sc.sample(Dice(), image(), noise=NOISE, n=60, n0=9, batch_size=60))
    assert 0.2 < votes.agree.mean() / 60 < 0.5
    assert ((votes.agree > 3) & (votes.agree < 42)).all()  # Bin(60, 1/3): beyond with probability below 1e-6 each


def test_mask_chooses_what_is_tested():
    mask = np.zeros((3, 12, 16), bool)
    mask[0] = True
    votes = sc.sample(stripes, image(), noise=NOISE, mask=mask)
    assert votes.N == 192
    whole = sc.sample(stripes, image(), noise=NOISE)
    assert same(votes, whole)
    assert sc.certify_votes(votes, tau=0.75, alpha=0.5).labels[1:].max() == sc.ABSTAIN


def test_noise_is_never_clipped():
    _, seen = recorded(n=20, n0=2)
    assert seen.min() < 0
    assert seen.max() > 1


# --- 4. interruption, memory, progress ---


def test_out_of_memory_halves_the_batch_and_goes_on():
    sizes = []

    def hungry(batch):
        sizes.append(len(batch))
        if len(batch) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    votes = sc.sample(hungry, image(), noise=NOISE, n=50, n0=4, batch_size=32)
    assert same(votes, sc.sample(stripes, image(), noise=NOISE, n=50, n0=4))
    assert max(size for size in sizes[3:] if size) <= 32
    assert 4 in sizes


def test_out_of_memory_in_the_first_look():
    """A batch of two does not fit, one does."""

    def tight(batch):
        if len(batch) > 1:
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return stripes(batch)

    assert same(
        sc.sample(tight, image(), noise=NOISE, n=20, n0=4), sc.sample(stripes, image(), noise=NOISE, n=20, n0=4)
    )


def test_out_of_memory_at_a_batch_of_one_is_an_error():
    calls = itertools.count()

    def starving(batch):
        if next(calls) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stripes(batch)

    with pytest.raises(torch.OutOfMemoryError):
        sc.sample(starving, image(), noise=NOISE, batch_size=1)


class KilledError(Exception):
    """Stands for any sudden end."""


@pytest.mark.parametrize("after", [3, 6, 9, 15, 22])
def test_an_interrupted_run_resumes_to_the_same_votes(tmp_path, after):
    """Batches of 4: interrupted in the first pass, at its end, at a prefix, and near the end."""
    settings = {"noise": NOISE, "n": 60, "n0": 20, "batch_size": 4, "prefixes": (10, 30)}
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
    if after > 3:
        assert len(seen) < 2 + 21 + 1  # less than a whole run
    assert same(whole, sc.sample(stripes, image(), **settings, checkpoint=path))  # a finished one returns at once


def test_resuming_keeps_the_batch_partition(tmp_path):
    settings = {"noise": NOISE, "n": 40, "n0": 8, "checkpoint": tmp_path / "r", "checkpoint_every": 0}
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
    assert {*sizes[9:]} == {2, 4}  # probes and one more look have 2


def test_models_that_resume_or_merge_must_be_the_same(tmp_path):
    """Candidates agree, probabilities do not: a model's answers to the probes tell them apart."""
    x, settings = torch.zeros(40), {"noise": NOISE, "n": 50, "n0": 5}

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
    base = {"noise": NOISE, "n": 20, "n0": 4, "checkpoint": path}
    sc.sample(stripes, image(), **base)
    for changes, name in [
        ({"n": 21}, "n is 20"),
        ({"first": 5}, "first is 0"),
        ({"prefixes": (3,)}, r"prefixes is \[\]"),
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
                          checkpoint_every=0.0)
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
    sc.sample(stripes, image(), noise=NOISE, n=20, n0=4, progress=True)
    assert "sampling" in capfd.readouterr().err
    sc.sample(stripes, image(), noise=NOISE, n=20, n0=4)
    assert capfd.readouterr() == ("", "")


def test_memory_does_not_grow_with_n():
    """The second pass keeps O(N) whatever n: 20 times the draws, the same peak within a few arrays."""
    import tracemalloc

    def peak(n):
        tracemalloc.start()
        sc.sample(stripes, image(shape=(40, 50)), noise=NOISE, n=n, n0=4, batch_size=4)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10)
    assert peak(400) < peak(20) + 4 * 2000 * 8


# --- 3. bad input ---


def nan_model(batch):
    logits = torch.stack([batch, -batch], 1)
    logits[-1, 0, 0, 0, 0] = float("nan")
    return logits


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (Conv(), image(), r"in training mode \(Conv and others\).* Call model.eval\(\) first"),
        (nan_model, image(), "logits that are not finite"),
        (lambda b: torch.stack([b, b * float("inf")], 1), image(), "logits that are not finite"),
        (lambda b: b[:1], image(), r"gave shape \(1, 3, 12, 16\) for a batch of 2"),
        (lambda b: b.sum(), image(), r"gave shape \(\) for a batch of 2"),
        (lambda b: b.sum((1, 2, 3)), image(), r"logits must be \(B, classes, \*components\)"),
        (lambda b: {"out": b}, image(), r"returned dict, not a tensor.*\['out'\]"),
        (lambda b: stripes(b)[:, 0, :6, :8], image(), r"labels of size \(6, 8\) do not cover the input's \(12, 16\)"),
        (lambda b: b.repeat(1, 1, 2, 2), image(), r"logits of size \(24, 32\) are finer than the input's \(12, 16\)"),
        (lambda b: stripes(b) - 30, image(), r"labels must lie in 0 .. 32766, but the model gave -"),
        (lambda b: stripes(b)[:, :0], image(), "no components"),
        (Conv().eval(), image()[None], r"failed when called .* of shape \(2, 1, 3, 12, 16\).*without a batch axis"),
        (lambda b: stripes(b + torch.rand(1)), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b - b.mean()), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b[:1].expand_as(b)), image(), "different answers to the same noisy input"),
        (lambda b: stripes(b if len(b) < 3 else b[:1].expand_as(b)), image(), "different answers to the same noisy"),
        (lambda b: torch.stack([b, 1 - b + b.mean()], 1), image(), "different answers to the same noisy input"),
        (lambda b: b.mean(1, keepdim=True), image(), "have one class, so every label would be 0"),
        (lambda b: b.mean(1), image(), "have no class axis: return logits, or integer labels"),
        (lambda b: b.permute(0, 2, 3, 1), image(), "have their classes last"),
        (lambda b: b, torch.rand(50, 3), "have their classes last"),
        (stripes, [1.0, "a"], "x must be a tensor or an array of floats, but got list"),
        (stripes, None, "x must be a tensor or an array of floats"),
        (stripes, image().to_sparse(), "x must be dense"),
        (stripes, (image() * 255).to(torch.uint8), "x must hold floats, but got torch.uint8: for 8-bit images divide"),
        (stripes, image() / 0, "x has 576 entries that are NaN or infinite"),
        (stripes, torch.zeros(3, 0), "x is empty"),
        (42, image(), "model must be callable"),
    ],
)
def test_bad_models_and_inputs(model, x, message):
    with pytest.raises(sc.InputError, match=message):
        sc.sample(model, x, noise=NOISE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be an integer not less than 1, but got 0"),
        ({"n0": 0}, "n0 must be"),
        ({"seed": -1}, "seed must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"first": -1}, "first must be"),
        ({"prefixes": 5}, "prefixes must be a sequence"),
        ({"device": "gpu"}, "device must be such as 'cpu' or 'cuda'"),
        ({"noise": sc.Gaussian}, "noise must be a noise such as Gaussian"),
        ({"checkpoint": "/"}, "it is a folder"),
        ({"checkpoint": "/proc/none/file"}, "cannot write /proc/none/file"),
        ({"prefixes": (101,)}, "prefixes must not exceed n=100, but got 101"),
        ({"mask": np.ones((2, 2), bool)}, r"mask must be boolean of shape \(3, 12, 16\)"),
        ({"noise": 0.25}, "noise must be a noise"),
        ({"noise": sc.Rotation(0.25)}, r"rotations need inputs of shape \(points, columns\)"),
        ({"noise": sc.Gaussian(0.25, channels=(3,))}, "which has 3"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(sc.InputError, match=message):
        sc.sample(stripes, image(), **({"noise": NOISE} | arguments))


def test_nan_that_comes_late_is_still_caught():
    """A model that breaks for rare noise only, long after the probe."""

    calls = []

    def rare(batch):
        calls.append(len(batch))
        logits = torch.stack([batch, -batch], 1)
        return torch.where(batch[:, None] > 1.9, float("nan"), logits)

    with pytest.raises(sc.InputError, match="not finite"):
        sc.sample(rare, image(), noise=NOISE, n=4000, batch_size=4)
    assert len(calls) > 6  # the probe and the first batches went well


def test_certify_refuses_an_n_that_certifies_nothing_before_sampling():
    calls = []

    def model(batch):
        calls.append(len(batch))
        return stripes(batch)

    with pytest.raises(sc.InputError, match=r"n=20 can certify nothing at tau=0.75.* Use n >= 47"):
        sc.certify(model, image(), sigma=0.25, n=20)
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
            sc.certify(stripes, image(), **({"sigma": 0.25} | arguments))


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


def test_sampler_shows_its_components():
    draws = Draws(Conv(2).eval(), image(), noise=NOISE)
    assert draws.components == (12, 16)
    sampler = Sampler(draws)
    assert sampler.N == 192
