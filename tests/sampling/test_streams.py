"""Streams: one key for a draw, whose bytes serve the noise on the CPU, a random model's seed, and the noise on CUDA."""

import hashlib
import json

import pytest
import torch

from segcertify.sampling import streams
from segcertify.sampling.streams import DrawStream

ADDRESS = (7, "scene", "agree", 3)
SEED = 4240331565291497678
NORMAL = [-0.409219, 0.3668312]


def with_key(key):
    """A stream of which the key is known."""
    stream = DrawStream(*ADDRESS)
    stream._key = bytes(key)
    return stream


def numbers(stream):
    return stream.normal_(torch.empty(8)).tolist()


def test_known_values():
    """The key is a digest of the address: seeds and numbers of version 1 stay as they are."""
    key = hashlib.blake2b(json.dumps(["segcertify 1", *ADDRESS]).encode(), digest_size=32).digest()
    stream = DrawStream(*ADDRESS)
    assert stream._key == key
    assert stream.model_seed == SEED == int.from_bytes(key[16:24], "little") >> 1
    assert numbers(stream)[:2] == pytest.approx(NORMAL, abs=1e-6)


@pytest.mark.parametrize("byte", range(32))
def test_a_models_seed_and_its_noise_share_no_byte_of_the_key(byte):
    """Independent bytes of a digest make independent numbers: a model cannot know its noise by its seed."""
    key = list(range(1, 33))
    changed = [*key[:byte], 0 if byte != 16 else 255, *key[byte + 1 :]]  # the seed drops the lowest bit of byte 16
    before, after = with_key(key), with_key(changed)
    assert (before.model_seed != after.model_seed) == (16 <= byte < 24)
    assert (numbers(before) != numbers(after)) == (byte < 16)


@pytest.mark.cuda
@pytest.mark.parametrize("byte", range(32))
def test_on_cuda_the_noise_has_128_bits_of_the_key_and_none_of_a_models_seed(byte):
    key = list(range(1, 33))
    changed = [*key[:byte], 0, *key[byte + 1 :]]
    before, after = (with_key(each).normal_(torch.empty(8, device="cuda")).tolist() for each in (key, changed))
    assert (before != after) == (byte >= 24 or byte < 8)


def test_every_part_of_the_address_counts():
    """Also across the two phases and the parts that look alike."""
    addresses = [
        ADDRESS,
        (8, *ADDRESS[1:]),
        (7, "scen", "agree", 3),
        (7, "scene", "candidate", 3),
        (7, "scene", "agree", 4),
    ]
    streams = [DrawStream(*address) for address in addresses]
    assert len({stream.model_seed for stream in streams}) == len({str(numbers(stream)) for stream in streams}) == 5


@pytest.mark.parametrize("fill", ["normal_", "exponential_", "uniform_"])
def test_tensors_of_any_layout_get_the_same_numbers(fill):
    plain, turned = torch.zeros(4, 6), torch.zeros(6, 4).T
    for out in (plain, turned):
        assert getattr(DrawStream(*ADDRESS), fill)(out) is out
    assert not turned.is_contiguous()
    assert torch.equal(plain, turned)
    assert plain.unique().numel() == 24


def test_a_stream_counts_its_calls_on_cuda(monkeypatch):
    """Each call has numbers of its own: the counter goes up by one."""
    calls = []
    monkeypatch.setattr(streams, "like_cuda", lambda tensor: True)
    monkeypatch.setattr(streams.philox, "plus", lambda *args, call, **others: calls.append(call))
    drawn, x = [DrawStream(7, "scene", "agree", index) for index in range(3)], torch.zeros(4)
    for _ in range(3):
        DrawStream.plus(drawn, x, "normal", 0.25, 0.0)
    assert calls == [0, 1, 2]
