"""HRNetV2-W48 on 1024 x 2048 frames, the network alone: how near each way to run it comes to the hardware's limits.

    python benchmarks/network.py [--scale 0.25] [--batch 110] [--parts peak,ways,layers] [--device cuda] [--json FILE]

``peak`` is a bf16 matrix product and a copy, measured in the same run. ``ways`` are whole networks: images per second,
TFLOP/s and their share of that peak. ``layers`` times every distinct convolution alone, beside the larger of its work
over the peak and its bytes over the bandwidth: the bound below which no kernel of one convolution gets.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from segcertify.bench.machine import machine, versions
from segcertify.models import HRNet, MultiScale, optimised
from segcertify.models.folding import folded
from segcertify.models.networks.fused_hrnet import FusedHRNet, fast_width
from segcertify.models.networks.fused_sum import plain_sum, summed
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture

FRAME = 1024, 2048
CHANNELS_LAST = torch.channels_last
TINY = Architecture(width=8, classes=19, blocks=1, modules=(1, 1, 1))


def seconds(work: Callable[[], Any], device: str, *, repeats: int = 5) -> float:
    """The median time of some calls, after two to warm up."""
    times = []
    for _ in range(2):
        work()
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def peaks(device: str) -> dict[str, float]:
    """TFLOP/s of a large bf16 matrix product, and TB/s of a large copy (what it reads and writes)."""
    side, length = (8192, 2**29) if device == "cuda" else (1024, 2**24)
    a = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    b, out = (
        torch.zeros(length, device=device, dtype=torch.int32),
        torch.zeros(length, device=device, dtype=torch.int32),
    )
    product, copied = seconds(lambda: a @ a, device), seconds(lambda: out.copy_(b), device)
    return {"tflops": 2 * side**3 / product / 1e12, "tbytes": 8 * length / copied / 1e12}


def convolutions(model: nn.Module, x: torch.Tensor) -> tuple[Counter[tuple[int, ...]], float]:
    """How often each shape of convolution runs (in, out, kernel, stride, height, width of its input), and the FLOP."""
    found, flop = Counter[tuple[int, ...]](), [0.0]

    def note(conv: Any, given: tuple[torch.Tensor], output: torch.Tensor) -> None:
        shape = conv.in_channels, conv.out_channels, conv.kernel_size[0], conv.stride[0], *given[0].shape[2:]
        found[shape] += 1
        flop[0] += 2 * output[0].numel() * conv.in_channels * conv.kernel_size[0] ** 2

    hooks = [each.register_forward_hook(note) for each in model.modules() if isinstance(each, nn.Conv2d)]
    model(x[:1])
    for hook in hooks:
        hook.remove()
    return found, flop[0]


def captured(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model as a CUDA graph for inputs of this shape."""
    static, stream = x.clone(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            model(static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(static)

    def replay(batch: torch.Tensor) -> torch.Tensor:
        static.copy_(batch)
        graph.replay()
        return output

    return replay


def ways(model: nn.Module, fold: nn.Module, x: torch.Tensor, chosen: list[str]) -> dict[str, Any]:
    """Each way's time for the batch, how far its logits are from those in single precision, and what preparing took."""
    device, want, found = x.device.type, model(x[:2]).float(), {}
    half, cast = torch.bfloat16, copy.deepcopy

    def autocast(net: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(batch: torch.Tensor) -> torch.Tensor:
            with torch.autocast(device, half):
                return net(batch)

        return run

    def low(net: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda batch: net(batch.to(half, memory_format=CHANNELS_LAST))

    def fused(*, pad: bool, dtype: torch.dtype = half) -> nn.Module:
        return FusedHRNet(fold, pad=pad).to(dtype, memory_format=CHANNELS_LAST)

    makers: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
        "fp32": lambda: model,
        "fp32 folded": lambda: cast(fold).to(memory_format=torch.contiguous_format),
        "fp32 folded channels-last": lambda: cast(fold).to(memory_format=CHANNELS_LAST),
        "fp32 fused padded": lambda: fused(pad=True, dtype=torch.float32),
        "bf16 autocast": lambda: autocast(model),
        "bf16 folded autocast": lambda: autocast(cast(fold).to(memory_format=torch.contiguous_format)),
        "bf16 folded channels-last autocast": lambda: autocast(cast(fold).to(memory_format=CHANNELS_LAST)),
        "bf16 folded channels-last": lambda: low(cast(fold).to(half, memory_format=CHANNELS_LAST)),
        "bf16 folded channels-last graph": lambda: captured(low(cast(fold).to(half, memory_format=CHANNELS_LAST)), x),
        "bf16 fused": lambda: fused(pad=False),
        "bf16 fused padded": lambda: fused(pad=True),
        "bf16 fused padded graph": lambda: captured(fused(pad=True), x),
        "bf16 compiled": lambda: torch.compile(low(cast(fold).to(half, memory_format=CHANNELS_LAST)), dynamic=False),
        "bf16 compiled graph": lambda: captured(
            torch.compile(low(cast(fold).to(half, memory_format=CHANNELS_LAST)), dynamic=False), x
        ),
        "bf16 compiled max-autotune": lambda: torch.compile(
            low(cast(fold).to(half, memory_format=CHANNELS_LAST)), mode="max-autotune-no-cudagraphs", dynamic=False
        ),
    }
    for name, make in makers.items():
        if chosen and name not in chosen:
            continue
        try:
            start = time.perf_counter()
            run = make()
            got = run(x)[:2].float()
            prepared = time.perf_counter() - start
            took = seconds(partial(run, x), device, repeats=3)
            found[name] = {
                "seconds": took, "preparing_seconds": prepared, "error": float((got - want).abs().max() / want.std()),
                "same_argmax": float((got.argmax(1) == want.argmax(1)).float().mean()),
            }  # fmt: skip
        except Exception as error:  # one way that fails must not lose the others
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        run = got = None
        if device == "cuda":
            torch.cuda.empty_cache()
        print(name, {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in found[name].items()}, flush=True)
    return found


def layers(shapes: Counter[tuple[int, ...]], batch: int, device: str, peak: dict[str, float]) -> list[dict[str, Any]]:
    """Each distinct convolution alone in bf16, channels-last: its time in each form, and its bound."""
    rows = []
    for shape, count in sorted(shapes.items(), key=str):
        row: dict[str, Any] = {"shape": [*shape], "count": count}
        try:
            row |= bound_and_times(shape, batch, device, peak)
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"[:200]
        times = [f"{name} {1e3 * value:.3f}" for name, value in row.items() if isinstance(value, float)]
        print(count, row["shape"], *times, "ms", flush=True)
        rows.append(row)
    return rows


def bound_and_times(shape: tuple[int, ...], batch: int, device: str, peak: dict[str, float]) -> dict[str, Any]:
    """One convolution's work and bytes, the seconds that these take at least, and those that its forms take."""
    inputs, outputs, kernel, stride, height, width = shape
    options: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}

    def given(channels: int) -> torch.Tensor:
        return torch.randn(batch, channels, height, width, **options).to(memory_format=CHANNELS_LAST)

    def weights(many: int, channels: int) -> torch.Tensor:
        return torch.randn(many, channels, kernel, kernel, **options).to(memory_format=CHANNELS_LAST)

    x, w, bias = given(inputs), weights(outputs, inputs), torch.randn(outputs, **options)
    settings: list[Any] = [[stride] * 2, [kernel // 2] * 2, [1, 1]]
    plain = torch.conv2d(x, w, None, *settings)
    flop, size = 2 * plain.numel() * inputs * kernel**2, 2 * (x.numel() + plain.numel() + w.numel())
    bound = max(flop / peak["tflops"], size / peak["tbytes"]) / 1e12
    row: dict[str, Any] = {"flop": flop, "bytes": size, "bound": bound}
    forms: dict[str, Callable[[], Any]] = {
        "conv": partial(torch.conv2d, x, w, None, *settings), "conv+bias": partial(torch.conv2d, x, w, bias, *settings),
    }  # fmt: skip
    if device == "cuda":
        fused, added = torch.cudnn_convolution_relu, torch.cudnn_convolution_add_relu
        forms["fused bias relu"] = partial(fused, x, w, bias, *settings, 1)
        forms["fused add bias relu"] = partial(added, x, w, plain, 1.0, bias, *settings, 1)
        padded = fast_width(inputs), fast_width(outputs)
        if padded != (inputs, outputs):
            wide = given(padded[0]), weights(padded[1], padded[0]), torch.randn(padded[1], **options)
            forms["fused padded"] = partial(fused, *wide, *settings, 1)
    for name, work in forms.items():
        try:
            row[name] = seconds(work, device, repeats=3)
        except Exception as error:
            row[name] = f"{type(error).__name__}: {error}"[:100]
    return row


def kernels(run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> dict[str, float]:
    """The milliseconds that one call spends in each kernel of the GPU, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    run(x)
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        run(x)
        torch.cuda.synchronize()
    events = [(each.key[:90], each.self_device_time_total / 1e3, each.count) for each in profiled.key_averages()
              if each.device_type.name == "CUDA"]  # fmt: skip
    return {f"{name} x{count}": took for name, took, count in sorted(events, key=lambda each: -each[1])[:14]}


def require_sums(device: str) -> float:
    """The largest difference between the kernel of sums and its twin, in single precision."""
    sizes, largest = [(16, 31), (16, 31), (8, 16), (4, 8)], 0.0
    for channels in (1, 24, 64, 384):
        for count in (1, 2, 3, 4):
            terms = [torch.randn(3, channels, *size, device=device) for size in sizes[:count]]
            terms = [term.to(memory_format=CHANNELS_LAST) for term in terms]
            bias = torch.randn(channels, device=device)
            largest = max(largest, float((summed(terms, bias=bias) - plain_sum(terms, bias)).abs().max()))
    return largest


def require_equivalence(device: str) -> dict[str, Any]:
    """`optimised` on this device: how far its logits are from the original's, and whether gradients pass through."""
    found: dict[str, Any] = {}
    x = torch.rand(2, 3, 96, 130, device=device)
    for name, blocks in (("w18", W18_SMALL_V2), ("tiny", TINY)):
        net = MultiScale(prepared(HRNet(blocks)), [0.75, 1.0], flip=True).eval().to(device)
        want = net(x)
        for precision in ("fp32", "bf16"):
            fast = optimised(net, precision=precision)
            error = float((fast(x) - want).abs().max() / want.std())
            found[f"{name} {precision}"] = {"error": error, **fast.execution.how}
        with torch.enable_grad():
            grads = []
            for model in (net, optimised(net)):
                given = x.clone().requires_grad_()
                model(given)[:, 0].sum().backward()
                grads.append(given.grad)
        found[f"{name} gradients"] = float((grads[0] - grads[1]).abs().max() / grads[0].std())
    return found


def prepared(model: HRNet) -> HRNet:
    """The network with batch norms that do something."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1), module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5), nn.init.normal_(module.bias, 0, 0.1)
    return model


def measured(scale: float, batch: int, arguments: argparse.Namespace, model: nn.Module, fold: nn.Module) -> Any:
    """All that was asked for at one scale."""
    device = arguments.device
    height, width = (round(side * scale) for side in FRAME)
    x = torch.rand(batch, 3, height, width, device=device)
    peak = peaks(device)
    shapes, flop = convolutions(model, x)
    numbers: dict[str, Any] = {"scale": scale, "batch": batch, "peak": peak, "tflop_each": flop / 1e12}
    print({name: f"{value:.4g}" if isinstance(value, float) else value for name, value in numbers.items()}, flush=True)

    def rates(row: dict[str, Any], size: int) -> str:
        row["images_per_second"] = size / row["seconds"]
        row["tflops"] = flop * size / row["seconds"] / 1e12
        row["share_of_peak"] = row["tflops"] / peak["tflops"]
        each = f"{row['images_per_second']:9.1f}/s {row['tflops']:7.1f} TFLOP/s"
        return f"{row['seconds']:.4f} s {each} {100 * row['share_of_peak']:5.1f} %"

    if "ways" in arguments.parts:
        numbers["ways"] = ways(model, fold, x, arguments.ways)
        for name, row in numbers["ways"].items():
            if "seconds" in row:
                print(f"{name:36}", rates(row, batch), flush=True)
    best = FusedHRNet(fold, pad=device == "cuda").to(torch.bfloat16, memory_format=CHANNELS_LAST)
    if "batches" in arguments.parts:
        numbers["batches"] = {}
        for size in sorted({max(1, batch // 2**power) for power in range(5)}):
            row = {"seconds": seconds(partial(best, x[:size]), device, repeats=3)}
            print("fused padded, batch", size, rates(row, size), flush=True)
            numbers["batches"][size] = row
    if "kernels" in arguments.parts:
        numbers["kernels_ms"] = kernels(best, x)
        for name, took in numbers["kernels_ms"].items():
            print(f"{took:8.3f} ms {name}", flush=True)
    if "layers" in arguments.parts:
        numbers["layers"] = layers(shapes, batch, device, peak)
        for name in ("bound", "conv", "conv+bias", "fused bias relu", "fused add bias relu"):
            total = sum(row["count"] * row[name] for row in numbers["layers"] if isinstance(row.get(name), float))
            print(f"all convolutions, {name}: {total:.4f} s", flush=True)
    return numbers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, nargs="+", default=[0.25])
    parser.add_argument("--batch", type=int, nargs="+", default=[110], help="one for each scale")
    parser.add_argument("--parts", default="ways,layers", help="of ways, layers, batches and kernels")
    parser.add_argument("--ways", nargs="*", default=[], help="names of ways; all by default")
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN choose by trying")
    parser.add_argument("--tiny", action="store_true", help="a tiny network, to try the script")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()

    torch._dynamo.config.cache_size_limit = 64
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = arguments.benchmark
    device = arguments.device
    model = prepared(HRNet(TINY if arguments.tiny else W48).eval())
    with torch.no_grad():
        fold, count = folded(model, torch.rand(1, 3, 64, 64))
        model, fold = model.to(device), fold.to(device)
        numbers: dict[str, Any] = {
            "machine": machine(torch.device(device)), "versions": versions(), "date": date.today().isoformat(),
            "settings": {"benchmark": arguments.benchmark, "parts": arguments.parts}, "folded": count,
            "sums_differ_by": require_sums(device), "scales": [],
        }  # fmt: skip
        try:
            numbers["equivalence"] = require_equivalence(device)
        except Exception as error:  # the times are still worth having
            numbers["equivalence"] = f"{type(error).__name__}: {error}"[:500]
        print(numbers, flush=True)
        for scale, batch in zip(arguments.scale, arguments.batch, strict=True):
            numbers["scales"].append(measured(scale, batch, arguments, model, fold))
            if arguments.json:
                arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
