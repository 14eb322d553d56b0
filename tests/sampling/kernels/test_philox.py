"""Noise from counters: known answers, what a number depends on, and the kernel beside its twin.

The twins run anywhere. Kernels run in Triton's interpreter (`test_interpreted` starts it), and on CUDA in `test_cuda`.
"""

import pytest
import torch

from segcertify.sampling.kernels import philox
from segcertify.sampling.kernels.fused import interpreted
from segcertify.sampling.kernels.philox import numbers, plus, plus_twin, words
from segcertify.sampling.streams import DrawStream, key_words

LAWS = ("normal", "laplace", "exponential", "uniform")
in_the_interpreter = pytest.mark.skipif(not interpreted(), reason="run by test_interpreted, where Triton is installed")


def keys(count, phase="agree", seed=0):
    return key_words([DrawStream(seed, "", phase, j) for j in range(count)], torch.device("cpu"))


@pytest.mark.parametrize(
    ("key", "call", "first"),
    [
        ([0, 0, 0, 0], 0, ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]),
        (
            [0xA4093822, 0x299F31D0, 0x13198A2E, 0x03707344],
            0x85A308D3,
            ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"],
        ),
    ],
)
def test_known_answers(key, call, first):
    """Of Random123 1.14, kat_vectors: philox4x32 10; its second counter begins with block 0x243f6a88."""
    signed = torch.tensor([[word - 2**32 * (word >= 2**31) for word in key]], dtype=torch.int32)
    block = 0x243F6A88 if call else 0
    got = philox._rounds(torch.tensor([[block]]), signed, call)
    assert [f"{word:08x}" for word in got[0].tolist()] == first


@pytest.mark.parametrize("law", LAWS)
def test_a_number_depends_on_its_key_call_and_index_alone(law):
    like = torch.zeros(5, 7)
    whole = numbers(like, keys(4), law)
    assert torch.equal(whole[2:3], numbers(like, keys(4)[2:3], law))
    longer = numbers(torch.zeros(99), keys(4), law)
    assert torch.equal(longer[:, :35], whole.flatten(1))
    for other in (numbers(like, keys(4, "candidate"), law), numbers(like, keys(4, seed=1), law), whole.roll(1, 0),
                  numbers(like, keys(4), law, call=1)):  # fmt: skip
        assert (other != whole).double().mean() > 0.99


def test_no_two_draws_or_phases_share_a_block():
    drawn = torch.cat([words(keys(50, phase), 400) for phase in ("candidate", "agree")])
    assert len(drawn.view(-1, 4).unique(dim=0)) == 100 * 400


def test_every_word_of_a_key_counts():
    base = torch.arange(1, 5, dtype=torch.int32)[None]
    for i in range(4):
        other = base.clone()
        other[0, i] += 1
        assert not (words(base, 9) == words(other, 9)).any()


def test_tails_and_extreme_words(monkeypatch):
    """Uniform numbers never reach 0, so that the largest normal number is 6.76; exponential ones end at 22.9."""
    extreme = torch.tensor([[0, 0, 2**32 - 1, 2**32 - 1]])
    normal = philox._of_law(extreme, "normal", torch.float32)
    assert normal[0, 0].item() == pytest.approx(6.7637, abs=1e-3)
    assert normal[0, 2:].abs().max() < 1e-3
    assert philox._of_law(extreme, "exponential", torch.float32).max().item() == pytest.approx(22.87, abs=0.01)
    assert philox._of_law(extreme, "laplace", torch.float32)[0, 0].item() == pytest.approx(22.87, abs=0.01)
    uniform = philox._of_law(extreme, "uniform", torch.float32)
    assert (uniform.min(), uniform.max()) == (0, 1 - 2.0**-24)
    for law in LAWS:
        for dtype in (torch.float32, torch.float64):
            assert philox._of_law(extreme, law, dtype).isfinite().all()


def test_a_resize_of_noise_is_the_noise_of_a_resize():
    x = torch.rand(3, 12, 20)
    full = plus(x, keys(3), "normal", 0.5)
    small = plus(x, keys(3), "normal", 0.5, size=(3, 5), dtype=torch.bfloat16)
    expected = torch.nn.functional.interpolate(full, size=(3, 5), mode="bilinear", align_corners=False)
    assert small.dtype == torch.bfloat16
    torch.testing.assert_close(small.float(), expected, rtol=2.0**-7, atol=1e-5)  # the interpreter cuts bits off


@in_the_interpreter
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [None, (4, 5), (9, 13), (20, 17)])
def test_the_kernel_is_its_twin(law, size):
    x = torch.rand(3, 9, 13)
    ours = plus(x, keys(3), law, 0.25, shift=-0.5, call=3, size=size)
    assert (ours - plus_twin(x, keys(3), law, 0.25, -0.5, 3, size, x.dtype)).abs().max() < 5e-6
    assert torch.equal(ours[1:2], plus(x, keys(3)[1:2], law, 0.25, shift=-0.5, call=3, size=size))
    if law == "uniform" and size is None:
        assert torch.equal(numbers(x, keys(3), law), plus_twin(0 * x, keys(3), law, 1.0, 0.0, 0, None, x.dtype))
    assert plus(x, keys(1), law, 0.25, size=size, dtype=torch.bfloat16).dtype == torch.bfloat16
