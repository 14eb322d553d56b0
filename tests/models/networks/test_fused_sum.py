"""Sums at several resolutions: the plain one against torch's own steps, the kernel against the plain one."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch.nn.functional import interpolate

from segcertify.models.networks.fused_sum import enlarged, plain_sum, summed

SIZES = [(6, 7), (6, 7), (3, 4), (1, 1)]

IN_INTERPRETER = """
import torch
from segcertify.models.networks.fused_sum import enlarged, plain_sum
from segcertify.models.networks.triton_sum import launch

torch.manual_seed(0)
last = torch.channels_last
for channels, sizes in ((5, [(6, 7), (6, 7), (3, 4), (1, 1)]), (24, [(8, 8), (4, 4)]), (3, [(9, 5), (3, 5), (9, 5)])):
    terms = [torch.randn(2, channels, *size).to(memory_format=last) for size in sizes]
    bias, out = torch.randn(channels), torch.empty_like(terms[0])
    launch(terms, out, bias=bias)
    assert (out - plain_sum(terms, bias)).abs().max() < 1e-5, (channels, sizes)
x, out = torch.randn(2, 6, 3, 4).to(memory_format=last), torch.zeros(2, 10, 7, 8).to(memory_format=last)
plain = out.clone()
launch([x], out, first=3)
enlarged(x, plain, 3)
assert (out - plain).abs().max() < 1e-5
print("equal")
"""


def terms():
    torch.manual_seed(0)
    return [torch.randn(2, 5, *size) for size in SIZES]


def test_the_sum_is_that_of_the_steps():
    bias = torch.randn(5)
    steps = [interpolate(term, size=SIZES[0], mode="bilinear", align_corners=False) for term in terms()]
    expected = (sum(steps) + bias.view(-1, 1, 1)).relu()
    assert torch.allclose(summed(terms(), bias=bias), expected, atol=1e-5)
    given = terms()
    plain_sum(given, bias)
    assert all(torch.equal(a, b) for a, b in zip(given, terms(), strict=True))  # nothing is added in place


def test_enlarged_writes_its_channels_alone():
    out = torch.full((2, 9, 6, 7), -1.0)
    enlarged(terms()[2], out, 3)
    assert torch.equal(out[:, 3:8], interpolate(terms()[2], size=(6, 7), mode="bilinear", align_corners=False))
    assert (out[:, [0, 1, 2, 8]] == -1).all()


def test_at_most_four_terms():
    with pytest.raises(ValueError, match="at most 4 terms"):
        summed([*terms(), terms()[0]], bias=torch.zeros(5))


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernel_equals_its_twin():
    """In Triton's interpreter, in a process of its own: the variable counts when Triton is imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", IN_INTERPRETER]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "equal", run.stderr[-2000:]
