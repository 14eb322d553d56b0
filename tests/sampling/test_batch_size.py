"""Memory: what fits at once, and what an error that it ran out looks like."""

import pytest
import torch

from segcertify.sampling.batch_size import halve_until_it_fits, out_of_memory


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
