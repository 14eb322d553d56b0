"""Memory: what fits at once, and what an error that it ran out looks like."""

from types import SimpleNamespace

import pytest
import torch
from segmenters import NOISE, stripes

import segcertify as sc
from segcertify.sampling.batch_size import fitting_batch_size, halve_until_it_fits, out_of_memory, probe_size


@pytest.mark.parametrize(("room", "size"), [(100, 13), (13, 13), (12, 6), (5, 3), (1, 1)])
def test_half_as_much_until_it_fits(room, size):
    sizes = []

    def work(count):
        sizes.append(count)
        if count > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return "x" * count

    assert halve_until_it_fits(work, 13) == (size, "x" * size)
    assert sizes == [count for count in (13, 6, 3, 1) if count >= size]


@pytest.mark.parametrize("error", [RuntimeError("sizes differ"), ValueError("not enough memory"), KeyError(1)])
def test_other_errors_are_not_of_memory(error):
    assert not out_of_memory(error)


def test_what_torch_says_when_the_host_has_none():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert out_of_memory(caught.value)


@pytest.mark.parametrize(("shape", "size"), [((3, 4, 4), 1024), ((3, 256, 256), 5), ((3, 1024, 2048), 1)])
def test_on_the_host_small_inputs_come_in_large_batches(shape, size):
    """From the sizes of input and output, about a quarter of a gigabyte: at least one input, at most 1024."""
    x = torch.zeros(shape)
    assert fitting_batch_size(x, torch.zeros(1, 2, *shape[1:])) == size
    assert fitting_batch_size(torch.zeros(3, 4, 4), x.expand(2, *shape)) == size
    for threads in (2, 3, 64):
        fitting = fitting_batch_size(x, torch.zeros(1, 2, *shape[1:]), threads)
        assert size - threads < fitting <= size
        assert fitting % threads == 0 or fitting == size < threads


def test_on_a_gpu_half_of_the_free_memory_is_used(monkeypatch):
    """Two entries took 6 MB at their peak, 3 each. 40 MB are free and 20 cached: half of these 60 hold 10 entries."""
    measured = {"max_memory_allocated": 16, "memory_allocated": 10, "memory_reserved": 30}
    for name, megabytes in measured.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, megabytes=megabytes: megabytes * 2**20)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 * 2**20, 80 * 2**20))
    assert fitting_batch_size(SimpleNamespace(is_cuda=True, device="cuda"), torch.zeros(2, 5)) == 10


def test_on_a_gpu_batches_are_as_large_as_keeps_it_busy_where_memory_allows(monkeypatch):
    """HRNetV2-W48 gains less than 1 % beyond 2**25 numbers of input; larger batches cost more to be asked again."""
    monkeypatch.setattr("segcertify.sampling.draws.like_cuda", lambda tensor: True)
    draws = sc.Smooth(stripes, NOISE, seed=0).draws(torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0)))
    draws.batch_size, draws.even = 2**20, True
    assert 2**25 < draws.most * draws.x.numel() <= 2**26
    draws.batch_size = 7  # as many as fit
    assert draws.most == 7


@pytest.mark.parametrize(("shape", "size"), [((3, 16, 16), 2), ((3, 360, 480), 2), ((3, 600, 800), 1)])
def test_a_probe_takes_no_more_copies_than_a_batch_will(shape, size):
    """Two copies of a photograph would take twice the memory that a batch of one is made to save."""
    x = torch.empty(shape)
    assert probe_size(x) == size
    assert (fitting_batch_size(x, torch.empty(1, 2)) >= 2) == (size == 2)
