"""Several processes: who does what, and that together they do what one does."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing
from toys import batch, load, quick, small, trained

import segcertify as sc
from segcertify import InputError
from segcertify.training.distributed import Processes, join_processes
from segcertify.training.objectives import PixelLoss, objective, repeat_batch
from segcertify.training.step import Step

TASKS = Path("/proc/self/task")


def gradients(here, *, name, seed=0):
    """The gradients on this process's part of a batch, with the noise that it has in the whole batch."""
    model = small(dropout=0.0, norm=False, seed=here.rank).to(memory_format=torch.channels_last).train()
    x, target = batch()
    target[target == 255] = 0  # means over as many pixels in each part
    share = here.local_batch_size(len(x))
    part = slice(here.rank * share, (here.rank + 1) * share)
    recipe = quick(objective=name, epsilon=0.1)
    step = Step(here.broadcast(model), objective(recipe, PixelLoss(), "cpu"), recipe, graphed=False)
    noise = torch.randn(len(x), 3, *x.shape[2:], generator=torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        fixed = lambda x, sigma, *, m=1, columns=None: 0.25 * repeat_batch(noise[part], m)  # noqa: E731
        patch.setattr("segcertify.training.objectives.gaussian_noise", fixed)
        losses = step(x[part], target[part])
    here.average_gradients(model)
    assert all(torch.isfinite(value) for value in losses.values())
    return [weight.grad.clone() for weight in model.parameters()], here.mean(losses["loss"])


def process(rank, port, folder):
    """One of two processes that a caller joined; none of the group's threads is left at the interpreter's end."""
    torch.set_num_threads(1)
    before = _threads()
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    distributed.barrier()
    of_the_group = _threads() - before
    assert of_the_group or not TASKS.exists()
    with join_processes("cpu") as here:
        assert (here.rank, here.world_size, here.first) == (rank, 2, rank == 0)
        for name in ("noise", "smoothadv"):
            torch.save(gradients(here, name=name), folder / f"{name}-{rank}.pt")
        here.barrier()
    assert distributed.is_initialized()  # whoever joined them parts them
    distributed.destroy_process_group()
    _require_gone(before)


def training(rank, port, folder):
    """One of two processes that train: nothing that training imports keeps the group's threads."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    data = sc.data.load(f"folder:{folder / 'toys'}?split=train")
    before = _threads()
    trained(data, folder / "out", quick(iterations=2))
    assert not distributed.is_initialized()
    assert "torch.distributed.nn.functional" in sys.modules
    _require_gone(before)


def _require_gone(before):
    """No thread of Gloo's is left; the system lists a joined thread a moment longer."""
    for _ in range(200):
        left = [name for task in _threads() - before if "gloo" in (name := _name(task))]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(left)


def _name(task):
    try:
        return (TASKS / task / "comm").read_text().strip()
    except OSError:
        return ""


def _threads():
    """This process's threads, those of libraries too, where the system lists them."""
    return {task.name for task in TASKS.iterdir()} if TASKS.exists() else set()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_no_thread_of_the_group_outlives_a_training(tmp_path):
    load(tmp_path / "toys")
    multiprocessing.spawn(training, (free_port(), Path(tmp_path)), nprocs=2)


def test_two_processes_find_the_gradient_of_the_joined_batch(tmp_path):
    multiprocessing.spawn(process, (free_port(), Path(tmp_path)), nprocs=2)
    for name in ("noise", "smoothadv"):
        expected, loss = gradients(Processes(0, 1, torch.device("cpu")), name=name)
        for rank in range(2):
            found, mean = torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True)
            assert mean.item() == pytest.approx(loss.item(), rel=1e-5)
            for ours, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_one_process_alone():
    with join_processes("cpu") as here:
        assert here == Processes(0, 1, torch.device("cpu"))
        assert here.first
        model, value = small(), torch.tensor(3.0)
        assert here.broadcast(model) is model
        assert here.mean(value) == 3
        here.barrier()
    assert not distributed.is_initialized()


def test_devices_that_are_not_there():
    with (
        pytest.raises(InputError, match="device must be such as 'cpu' or 'cuda', but got 'gpu'"),
        join_processes("gpu"),
    ):
        pass
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no CUDA device"), join_processes("cuda"):
            pass


def test_shares():
    assert Processes(1, 4, torch.device("cpu")).local_batch_size(12) == 3
    with pytest.raises(InputError, match="batch_size 10 must be a multiple of the number of processes, 4"):
        Processes(1, 4, torch.device("cpu")).local_batch_size(10)
