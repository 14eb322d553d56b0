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
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from segcertify.models import HRNet
from segcertify.models.folding import folded
from segcertify.models.networks.hrnet import W48, Architecture

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


class Fused(nn.Module):
    """A folded HRNet whose convolutions add the bias, the shortcut and the ReLU before they write (cuDNN's own)."""

    def __init__(self, net: HRNet, *, compiled: bool) -> None:
        super().__init__()
        self.net, self.sum = net, torch.compile(summed, dynamic=False) if compiled else summed

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits, as those of the network."""
        net = self.net
        x = conv_relu(net.conv2, conv_relu(net.conv1, net.normalise(batch)))
        for block in net.layer1:
            shortcut = x if isinstance(block.downsample, nn.Identity) else block.downsample[0](x)
            x = conv_add_relu(block.conv3, conv_relu(block.conv2, conv_relu(block.conv1, x)), shortcut)
        branches = [x]
        for i in (1, 2, 3):
            transition, final = list(getattr(net, f"transition{i}")), len(branches) - 1
            branches = [sequence(step, branches[min(j, final)]) for j, step in enumerate(transition)]
            for module in getattr(net, f"stage{i + 1}"):
                branches = self.module(module, branches)
        height, width = branches[0].shape[2:]
        up = [b if k == 0 else nn.functional.interpolate(b, size=(height, width), mode="bilinear", align_corners=False)
              for k, b in enumerate(branches)]  # fmt: skip
        unit = net.last_layer
        return unit[3](conv_relu(unit[0], torch.cat(up, 1)))

    def module(self, module: Any, xs: list[torch.Tensor]) -> list[torch.Tensor]:
        """One `ParallelModule`."""
        xs = list(xs)
        for j, branch in enumerate(module.branches):
            for block in branch:
                xs[j] = conv_add_relu(block.conv2, conv_relu(block.conv1, xs[j]), xs[j])
        return [
            self.sum([sequence(layer, x) for layer, x in zip(layers, xs, strict=True)], j)
            for j, layers in enumerate(module.fuse_layers)
        ]


def conv_relu(conv: Any, x: torch.Tensor) -> torch.Tensor:
    """A convolution with its bias and a ReLU, in one kernel."""
    return torch.cudnn_convolution_relu(x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, 1)


def conv_add_relu(conv: Any, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """A convolution with its bias, a shortcut and a ReLU, in one kernel."""
    return torch.cudnn_convolution_add_relu(
        x, conv.weight, z, 1.0, conv.bias, conv.stride, conv.padding, conv.dilation, 1
    )


def sequence(steps: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A sequence of convolutions and ReLUs, pairs of them fused."""
    flat = [each for each in steps.modules() if isinstance(each, nn.Conv2d | nn.ReLU)]
    for i, each in enumerate(flat):
        if isinstance(each, nn.Conv2d):
            x = conv_relu(each, x) if isinstance(flat[i + 1 :] and flat[i + 1], nn.ReLU) else each(x)
    return x


def summed(terms: list[torch.Tensor], target: int) -> torch.Tensor:
    """The sum of the terms at the resolution of one of them, and a ReLU."""
    size, total = terms[target].shape[2:], terms[target]
    for i, term in enumerate(terms):
        if i != target:
            total = total + (
                term if term.shape[2:] == size
                else nn.functional.interpolate(term, size=size, mode="bilinear", align_corners=False)
            )  # fmt: skip
    return total.relu()


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

    makers: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
        "fp32": lambda: model,
        "fp32 folded": lambda: cast(fold).to(memory_format=torch.contiguous_format),
        "fp32 folded channels-last": lambda: cast(fold).to(memory_format=CHANNELS_LAST),
        "bf16 autocast": lambda: autocast(model),
        "bf16 folded autocast": lambda: autocast(cast(fold).to(memory_format=torch.contiguous_format)),
        "bf16 folded channels-last autocast": lambda: autocast(cast(fold).to(memory_format=CHANNELS_LAST)),
        "bf16 folded channels-last": lambda: low(cast(fold).to(half, memory_format=CHANNELS_LAST)),
        "bf16 folded channels-last graph": lambda: captured(low(cast(fold).to(half, memory_format=CHANNELS_LAST)), x),
        "bf16 fused": lambda: low(Fused(cast(fold).to(half, memory_format=CHANNELS_LAST), compiled=False)),
        "bf16 fused graph": lambda: captured(
            low(Fused(cast(fold).to(half, memory_format=CHANNELS_LAST), compiled=False)), x
        ),
        "bf16 fused compiled-sums graph": lambda: captured(
            low(Fused(cast(fold).to(half, memory_format=CHANNELS_LAST), compiled=True)), x
        ),
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
    for (inputs, outputs, kernel, stride, height, width), count in sorted(shapes.items(), key=str):
        row: dict[str, Any] = {"shape": [inputs, outputs, kernel, stride, height, width], "count": count}
        options: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}
        try:
            x = torch.randn(batch, inputs, height, width, **options).to(memory_format=CHANNELS_LAST)
            w = torch.randn(outputs, inputs, kernel, kernel, **options).to(memory_format=CHANNELS_LAST)
            bias = torch.randn(outputs, **options)
            settings = [stride] * 2, [kernel // 2] * 2, [1, 1]
            plain = torch.conv2d(x, w, None, *settings)
            row["flop"] = 2 * plain.numel() * inputs * kernel**2
            row["bytes"] = 2 * (x.numel() + plain.numel() + w.numel())
            row["bound"] = max(row["flop"] / peak["tflops"], row["bytes"] / peak["tbytes"]) / 1e12
            forms: dict[str, Callable[[], Any]] = {
                "conv": lambda: torch.conv2d(x, w, None, *settings),
                "conv+bias": lambda: torch.conv2d(x, w, bias, *settings),
            }
            if device == "cuda":
                forms["fused bias relu"] = lambda: torch.cudnn_convolution_relu(x, w, bias, *settings, 1)
                forms["fused add bias relu"] = lambda: torch.cudnn_convolution_add_relu(
                    x, w, plain, 1.0, bias, *settings, 1
                )
                padded = -(-outputs // 64) * 64, -(-inputs // 64) * 64
                if padded != (outputs, inputs) and inputs > 3:
                    wide = torch.randn(padded[0], padded[1], kernel, kernel, **options).to(memory_format=CHANNELS_LAST)
                    much = torch.randn(batch, padded[1], height, width, **options).to(memory_format=CHANNELS_LAST)
                    forms["padded to 64"] = lambda: torch.conv2d(much, wide, None, *settings)
            for name, work in forms.items():
                try:
                    row[name] = seconds(work, device, repeats=3)
                except Exception as error:
                    row[name] = f"{type(error).__name__}: {error}"[:100]
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"[:200]
        times = [f"{name} {1e3 * value:.3f}" for name, value in row.items() if isinstance(value, float)]
        print(
            count, row["shape"], *(each for each in times if not each.startswith(("flop", "bytes"))), "ms", flush=True
        )
        rows.append(row)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--batch", type=int, default=110)
    parser.add_argument("--parts", default="ways,layers")
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
    model = HRNet(TINY if arguments.tiny else W48).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1), module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5), nn.init.normal_(module.bias, 0, 0.1)
    height, width = (round(side * arguments.scale) for side in FRAME)
    with torch.no_grad():
        fold, count = folded(model, torch.rand(1, 3, 64, 64))
        model, fold = model.to(device), fold.to(device)
        x = torch.rand(arguments.batch, 3, height, width, device=device)
        peak = peaks(device)
        shapes, flop = convolutions(model, x)
        numbers: dict[str, Any] = {
            "device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__,
            "scale": arguments.scale, "batch": arguments.batch, "folded": count, "peak": peak,
            "tflop_each": flop / 1e12, "benchmark": arguments.benchmark,
        }  # fmt: skip
        print(
            {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in numbers.items()}, flush=True
        )
        if "ways" in arguments.parts:
            numbers["ways"] = ways(model, fold, x, arguments.ways)
            for name, row in numbers["ways"].items():
                if "seconds" in row:
                    row["images_per_second"] = arguments.batch / row["seconds"]
                    row["tflops"] = flop * arguments.batch / row["seconds"] / 1e12
                    row["share_of_peak"] = row["tflops"] / peak["tflops"]
                    print(f"{name:40} {row['images_per_second']:9.1f}/s {row['tflops']:7.1f} TFLOP/s "
                          f"{100 * row['share_of_peak']:5.1f} %", flush=True)  # fmt: skip
        if "layers" in arguments.parts:
            numbers["layers"] = layers(shapes, arguments.batch, device, peak)
            for name in ("bound", "conv", "conv+bias", "fused bias relu", "fused add bias relu"):
                total = sum(row["count"] * row[name] for row in numbers["layers"] if isinstance(row.get(name), float))
                print(f"all convolutions, {name}: {total:.4f} s", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
