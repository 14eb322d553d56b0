"""A kernel that is wrong, or does not compile, is replaced by its twin, with one warning that names it."""

import sys
from types import ModuleType

import pytest
import torch
from segmenters import image, same
from torch import nn

import segcertify as sc
from segcertify.sampling.kernels import philox, scores, trust

SCORES, PHILOX = (f"segcertify.sampling.kernels.triton_{name}" for name in ("scores", "philox"))


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch):
    """Kernels are asked for although there is no GPU: stand-ins, made of the twins. Nothing is known of them yet."""
    monkeypatch.setattr(trust, "_KNOWN", {})
    monkeypatch.setattr(trust, "interpreted", lambda: False)
    for module in (scores, philox):
        monkeypatch.setattr(module, "fused", lambda tensor: True)
    monkeypatch.setattr("segcertify.sampling.outputs.fused", lambda tensor: True)
    monkeypatch.setitem(
        sys.modules, SCORES, stand_in(SCORES, label_maps=maps, add_agreement=agree, add_class_counts=count)
    )
    monkeypatch.setitem(sys.modules, PHILOX, stand_in(PHILOX, plus=philox.plus_twin))


def stand_in(name, **functions):
    module = ModuleType(name)
    for key, function in functions.items():
        setattr(module, key, function)
    package = sys.modules["segcertify.sampling.kernels"]
    setattr(package, name.rpartition(".")[2], module)
    return module


def maps(asked, bad):
    return scores.labels_twin(asked, bad).to(torch.int16)


def agree(asked, candidate, out, bad):
    out += (scores.labels_twin(asked, bad) == candidate).sum(0, dtype=out.dtype)


def count(asked, counts, bad):
    labels = scores.labels_twin(asked, bad)
    counts.scatter_add_(0, labels, counts.new_ones(labels.shape))


def asked(**changes):
    return scores.Scores(**{"values": torch.randn(2, 3, 4, 6), "size": (8, 12), "logs": False} | changes)


def fails(*arguments):
    raise RuntimeError("ptxas fatal: unresolved\nmore")


def wrong_candidate(asked, candidate, out, bad):
    agree(asked, candidate.roll(1, 0), out, bad)


def blind(asked, candidate, out, bad):
    agree(asked, candidate, out, bad.clone())


def shifted(asked, bad):
    return maps(scores.Scores(asked.values.roll(1, 3), asked.size, asked.logs), bad)


def overwriting(asked, counts, bad):
    counts.zero_()
    count(asked, counts, bad)


@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("size", [(8, 12), (16, 24), (32, 48), (64, 96), (9, 13), (4, 6)])
@pytest.mark.parametrize("dtype", scores.TYPES)
def test_right_kernels_are_used(size, logs, dtype):
    assert asked(values=torch.randn(2, 3, 4, 6).to(dtype), size=size, logs=logs).fused


@pytest.mark.parametrize(
    ("name", "planted", "said"),
    [
        ("label_maps", shifted, "wrong are label_maps"),
        ("add_agreement", wrong_candidate, "wrong are add_agreement"),
        ("add_agreement", blind, r"wrong are add_agreement .*\[True, False, False\]"),
        ("add_class_counts", overwriting, "wrong are add_class_counts"),
        ("add_class_counts", fails, "RuntimeError: ptxas fatal: unresolved\\. Plain torch runs instead"),
    ],
)
def test_wrong_kernels_are_left_out(monkeypatch, name, planted, said):
    monkeypatch.setattr(sys.modules[SCORES], name, planted)
    with pytest.warns(RuntimeWarning, match=f"the fused kernel counts is not used for logits in torch.float32.*{said}"):
        assert not asked().fused
    assert not asked().fused  # known by now: no second warning
    counts, bad = torch.zeros(3, 8, 12, dtype=torch.uint8), torch.zeros(1, dtype=torch.int32)
    scores.add_class_counts(asked(), counts, bad)
    assert (counts.sum(0) == 2).all()


def same_noise(  # noqa: PLR0917
    x, keys, law, scale, shift, call, size, dtype
):
    return philox.plus_twin(x, keys[:1].expand_as(keys), law, scale, shift, call, size, dtype)


def one_call(  # noqa: PLR0917
    x, keys, law, scale, shift, call, size, dtype
):
    return philox.plus_twin(x, keys, law, scale, shift, 0, size, dtype)


def other_weight(  # noqa: PLR0917
    x, keys, law, scale, shift, call, size, dtype
):
    return philox.plus_twin(x, keys, law, scale * (1 + 1e-3), shift, call, size, dtype)


@pytest.mark.parametrize("planted", [same_noise, one_call, other_weight, fails])
@pytest.mark.parametrize("size", [None, (2, 3)])
def test_wrong_noise_is_left_out(monkeypatch, planted, size):
    monkeypatch.setattr(sys.modules[PHILOX], "plus", planted)
    x, keys = torch.rand(3, 4, 6), torch.arange(8, dtype=torch.int32).view(2, 4)
    with pytest.warns(RuntimeWarning, match="the fused kernel noise is not used for normal noise"):
        drawn = philox.plus(x, keys, "normal", 0.25, size=size)
    assert torch.equal(drawn, philox.plus_twin(x, keys, "normal", 0.25, 0.0, 0, size, x.dtype))


def test_memory_that_runs_out_says_nothing_about_a_kernel(monkeypatch):
    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(sys.modules[SCORES], "add_agreement", full)
    with pytest.raises(torch.OutOfMemoryError):
        _ = asked().fused
    assert not trust._KNOWN


def test_votes_are_the_same_with_a_wrong_kernel(monkeypatch):
    model, settings = nn.Conv2d(3, 4, 4, stride=4).eval(), {"noise": sc.Gaussian(0.5), "n": 20, "n0": 4, "seed": 0}
    right = sc.sample(model, image(), **settings)
    trust._KNOWN.clear()
    monkeypatch.setattr(sys.modules[SCORES], "add_agreement", wrong_candidate)
    with pytest.warns(RuntimeWarning, match="wrong are add_agreement"):
        found = sc.sample(model, image(), **settings)
    assert same(found, right)
