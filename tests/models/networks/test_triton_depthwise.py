"""The kernel against a convolution in double precision: in Triton's interpreter, and on a GPU where there is one."""

import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from lite_networks import lively, without_norms
from torch.nn.functional import conv2d, pad

from segcertify.models.networks.fused_depthwise import TYPES
from segcertify.sampling.kernels.fused import interpreted

ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2.0 ** (-7 if interpreted() else -8), torch.float16: 2.0**-11}
"""Half of the last place; for single precision what sums of 25 terms may be off. The interpreter cuts bfloat16 off."""

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton")
in_the_interpreter = pytest.mark.skipif(not interpreted(), reason="run by test_the_kernel_in_the_interpreter")
everywhere = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=in_the_interpreter), pytest.param("cuda", marks=pytest.mark.cuda)]
)


@needs_triton
@pytest.mark.skipif(interpreted(), reason="this is the interpreter")
def test_the_kernel_in_the_interpreter():
    """In a process of its own: Triton reads the variable when it is imported."""
    root, path = str(Path(__file__).parents[3]), os.pathsep.join(sys.path)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout or "100%" in done.stdout


def case(size, channels, extent, *, batch=2, dtype=torch.float32, device="cpu"):
    """Features, a laid weight and a bias, whose sums lie below 0, between 0 and 6, and above."""
    draw = torch.Generator().manual_seed(size + channels + extent[0])
    shapes = (batch, channels, *extent), (size, size, channels), (channels,)
    x, weight, bias = (torch.randn(shape, generator=draw) for shape in shapes)
    x, weight, bias = (each.to(device, dtype) for each in (6 * x, weight / size, bias))
    return x.to(memory_format=torch.channels_last), weight, bias


def exact(x, weight, bias, stride, pads):
    """In double precision, on the CPU."""
    image, kernel = pad(x.cpu().double(), (*pads[1], *pads[0])), weight.cpu().double().permute(2, 0, 1).unsqueeze(1)
    return conv2d(image, kernel, bias.cpu().double(), stride, groups=len(bias)).clamp(0, 6)


def assert_close(given, wanted):
    rounding = ROUNDING[given.dtype]
    assert given.shape == wanted.shape
    assert given.is_contiguous(memory_format=torch.channels_last)
    assert ((given.cpu().double() - wanted).abs() <= rounding * wanted.abs() + 2e-5).all()


PADS = {3: ((0, 2), (1, 1)), 5: ((2, 2), (1, 3))}
SHAPES = {
    "one tile": (1, 32, (4, 8)), "odd": (2, 48, (9, 19)), "narrow": (3, 41, (13, 5)), "few channels": (1, 3, (6, 11)),
    "one pixel": (2, 80, (1, 1)), "one row": (2, 16, (1, 21)),
}  # fmt: skip


@needs_triton
@everywhere
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("name", SHAPES)
def test_the_kernel_is_a_convolution_and_relu6(name, size, stride, device):
    from segcertify.models.networks.triton_depthwise import launch

    batch, channels, extent = SHAPES[name]
    same = ((size // 2, size // 2),) * 2
    for pads in (PADS[size], same, ((0, 0), (0, 0)) if min(extent) >= size else ((4, 0), (3, 5))):
        given = *case(size, channels, extent, batch=batch, device=device), stride, pads
        wanted = exact(*given)
        assert_close(launch(*given), wanted)
    assert name == "one pixel" or {bool(each) for each in (wanted == 0).flatten()} == {False, True}
    assert name == "one pixel" or (wanted == 6).any()


@needs_triton
@everywhere
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [3, 5])
def test_it_sums_in_single_precision(size, dtype, device):
    from segcertify.models.networks.triton_depthwise import launch

    given = *case(size, 48, (7, 12), dtype=dtype, device=device), 1, PADS[size]
    found = launch(*given)
    assert found.dtype == dtype
    assert_close(found, exact(*given))


@needs_triton
@everywhere
def test_an_image_gets_the_same_numbers_wherever_it_lies(device):
    from segcertify.models.networks.triton_depthwise import launch

    x, *others = *case(5, 41, (9, 14), batch=4, device=device), 2, PADS[5]
    together = launch(x, *others)
    assert torch.equal(launch(x.flip(0), *others).flip(0), together)
    for i in range(4):
        assert torch.equal(launch(x[i : i + 1].clone(), *others), together[i : i + 1])
    x[1:] = 1e30
    assert torch.equal(launch(x, *others)[0], together[0])
    assert torch.equal(launch(x.contiguous(), *others)[0], together[0])


@needs_triton
@everywhere
def test_what_is_not_a_number_stays(device):
    """Else a network that went wrong would give numbers, which the sampler does not refuse."""
    from segcertify.models.networks.triton_depthwise import launch

    given = x, *_ = *case(3, 48, (7, 12), device=device), 1, PADS[3]
    x[1, 40, 3, 5] = torch.nan
    found, wanted = launch(*given).cpu(), exact(*given)
    assert torch.equal(found.isnan(), wanted.isnan())
    assert 0 < found.isnan().sum() <= 9


@needs_triton
@in_the_interpreter
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_network_runs_on_it(dtype, monkeypatch):
    from segcertify.models.networks import triton_depthwise
    from segcertify.models.networks.fused_lite import FusedLite

    net, calls, launch = without_norms(lively()).to(dtype), [], triton_depthwise.launch
    monkeypatch.setattr(triton_depthwise, "launch", lambda *given: calls.append(given) or launch(*given))
    fused, batch = FusedLite(net, lays=True), torch.rand(1, 3, 33, 38).to(dtype)
    with torch.no_grad():
        a, b = net(batch), fused(batch)
    assert len(calls) == len(net.encoder.blocks)
    assert float((a - b).abs().max()) <= (2e-5 if dtype == torch.float32 else 0.05) * float(a.max() - a.min())


@needs_triton
@pytest.mark.skipif(interpreted(), reason="the interpreter compiles nothing")
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_it_compiles_for_gpus_and_reads_and_writes_16_bytes_at_once(dtype, tmp_path, monkeypatch):
    """For one of compute capability 9.0, which need not be there."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from segcertify.models.networks.triton_depthwise import ACROSS, CHANNELS, DOWN, OPTIONS, convolve

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    names = list(inspect.signature(convolve.fn).parameters)
    tensors = dict.fromkeys(("out", "x", "weight", "bias"), f"*{dtype}")
    constants = {"KERNEL": 3, "STRIDE": 2, "DOWN": DOWN, "ACROSS": ACROSS, "CHANNELS": CHANNELS}
    signature = {name: tensors.get(name, "constexpr" if name in constants else "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    known = {(names.index(name),): [["tt.divisibility", 16]] for name in (*tensors, "channels")}
    source = ASTSource(convolve, signature, values, known)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=OPTIONS)
    assert "ld.global.v4" in made.asm["ptx"]
    assert "st.global.v4" in made.asm["ptx"]
    assert "ld.global.b" not in made.asm["ptx"], "elements are read one by one"


def compiled():
    """How many forms of the kernel this process has compiled."""
    from segcertify.models.networks.triton_depthwise import convolve

    return sum(len(caches[0]) for caches in convolve.device_caches.values())


@pytest.mark.cuda
@torch.no_grad()
def test_one_compiled_kernel_serves_all_sizes():
    from segcertify.models.networks.triton_depthwise import launch

    def run(channels, extent, batch, pads):
        given = *case(3, channels, extent, batch=batch, device="cuda"), 1, pads
        assert_close(launch(*given), exact(*given))

    run(48, (9, 14), 2, PADS[3])
    before = compiled()
    assert before > 0
    for extent in ((1, 1), (1, 16), (16, 1), (32, 48), (17, 31)):
        for batch in (1, 2, 16):
            run(96, extent, batch, ((1, 1), (1, 1)))
            run(32, extent, batch, ((0, 2), (2, 1)))
    assert compiled() == before


@pytest.mark.cuda
@torch.no_grad()
def test_beyond_two_to_the_31_elements():
    """Offsets have 64 bits: the last image of a batch gets what it gets alone."""
    from segcertify.models.networks.triton_depthwise import launch

    x, *others = *case(3, 32, (64, 64), batch=1, dtype=torch.float16, device="cuda"), 1, ((1, 1), (1, 1))
    shape = 2**31 // x.numel() + 2, *x.shape[1:]
    many = torch.empty(shape, dtype=x.dtype, device="cuda", memory_format=torch.channels_last).zero_()
    many[-1] = x[0]
    found = launch(many, *others)
    assert torch.equal(found[-1], launch(x, *others)[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[-1])
