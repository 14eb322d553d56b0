"""Where the time of sampling goes that is not the network: HRNetV2-W48 (random weights) on 1024 x 2048, on a GPU.

    python benchmarks/loop.py [--scale 0.25] [--precision fp32] [--rows 25]

One `Smooth` serves several inputs; the first is warmed up on. Beside it, in the same run, the network alone on as many
resized inputs in equal batches; then a profile of one input.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.profiler import ProfilerActivity, profile

import segcertify as sc
from segcertify.models import HRNet, MultiScale, optimised, with_precision
from segcertify.models.networks.hrnet import W48

N, N0 = 100, 10


def now() -> float:
    """The time, once the device has done what it was told."""
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Time sampling, time the network, profile sampling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rows", type=int, default=25)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    network = HRNet(W48).eval().cuda()
    model = with_precision(MultiScale(network, [arguments.scale]).eval(), arguments.precision)
    model.fast = True  # as of a model that was loaded
    smooth = sc.Smooth(model, sc.Gaussian(0.25), seed=0)
    xs = [torch.rand(3, 1024, 2048) for _ in range(4)]
    took = []
    for i, x in enumerate(xs):
        start = now()
        votes = smooth.votes(x, n=N, n0=N0, input_id=str(i))
        took.append(now() - start)
    print("seconds of sampling", [round(each, 4) for each in took], "mean agreement", votes.agree.mean())
    size = smooth.draws(xs[0]).batch_size
    batch = min(size, N)
    height, width = MultiScale(network, [arguments.scale]).resized((1024, 2048), arguments.scale)
    image = torch.rand(batch, 3, height, width, device="cuda")
    alone = optimised(network, precision=arguments.precision)
    with torch.no_grad():
        for _ in range(2):
            start = now()
            for _ in range(-(-N // batch)):
                alone(image)
            bare = (now() - start) / (-(-N // batch) * batch) * (N + N0)
    print(f"fitting batch {size}; the network alone {bare:.4f} s for {N + N0} inputs, in batches of {batch}")
    print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        start = now()
        smooth.votes(xs[1], n=N, n0=N0, input_id="profile")
        print("profiled", round(now() - start, 4))
    for order in ("cuda_time_total", "self_cpu_time_total"):
        table = found.key_averages().table(sort_by=order, row_limit=arguments.rows, max_name_column_width=50)
        keep = [line[:50] + line[-130:] for line in table.splitlines()]
        print("\n".join(keep))


if __name__ == "__main__":
    main()
