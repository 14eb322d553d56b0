"""Workers on a Ray cluster: an actor for each GPU, or for each CPU core where there is none.

Ray pickles what it sends, within the user's own cluster. A cluster that starts with a run listens on this machine's
loopback alone, without a dashboard, and reports no usage.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from segcertify.arrays import Array
from segcertify.engines.pool import Pool
from segcertify.engines.source import Source
from segcertify.engines.worker import WorkerLostError, portable
from segcertify.errors import InputError
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.tasks import Host, Task

if TYPE_CHECKING:
    from segcertify.engines.engine import Engine

LOOPBACK = "127.0.0.1"
LOOK_AGAIN = 5.0
"""Seconds between two looks at the cluster, for nodes that came."""
START_PATIENCE = 600.0
"""How many seconds an actor that has its place may take to load the model."""
PLACE_PATIENCE = 300.0
"""How many seconds a run waits for the first place in a cluster."""
STORE_BYTES = 2**30
"""The object store of a cluster of this machine: it holds a few inputs and counts for each worker."""


class Holder:
    """The actor: it holds the model and does tasks."""

    def __init__(self) -> None:
        self._host: Host | None = None

    def load(self, source: Source, sent: Segmenter | None) -> tuple[Exception | None, Any]:
        """Load the model, or take the one that was sent; its identity."""
        try:
            device = "cuda" if torch.cuda.is_available() and os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu"
            self._host, described = source.host(device, sent)
        except Exception as error:
            return portable(error), None
        return None, described

    def do(self, task: Task, *arrays: Array) -> tuple[Exception | None, Any]:
        """The answer to a task, or its error."""
        try:
            return None, task(self._host, *arrays)
        except Exception as error:
            return portable(error), None


class ActorWorker:
    """An actor, which Ray places on a node that has room."""

    def __init__(self, ray: Any, source: Source, sent: Any, needs: dict[str, float]) -> None:
        self._ray, self._source, self._sent = ray, source, sent
        self._stopped = threading.Event()
        self._actor = ray.remote(Holder).options(max_restarts=0, max_task_retries=0, **needs).remote()

    def start(self) -> dict[str, Any]:
        """Wait for a place, then load the model; returns its identity."""
        found: dict[str, Any] = self._answer(self._actor.load.remote(self._source, self._sent), None)
        return found

    def ask(self, task: Task, arrays: Sequence[Any], patience: float) -> Any:
        """Have a task done."""
        return self._answer(self._actor.do.remote(task, *arrays), patience)

    def stop(self) -> None:
        """Kill the actor."""
        self._stopped.set()
        with suppress(Exception):  # the cluster itself may be gone
            self._ray.kill(self._actor)

    def _answer(self, reference: Any, patience: float | None) -> Any:
        ray, end = self._ray, None if patience is None else time.monotonic() + patience
        while not ray.wait([reference], timeout=1.0)[0]:
            if self._stopped.is_set():
                raise WorkerLostError("was stopped")
            if end is not None and time.monotonic() > end:
                raise WorkerLostError(f"gave no answer for {patience:g} s")
        try:
            error, found = ray.get(reference)
        except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError, ray.exceptions.RaySystemError) as lost:
            raise WorkerLostError(f"was lost by Ray, {type(lost).__name__}: {_first_line(lost)}") from None
        except (ray.exceptions.ObjectLostError, ray.exceptions.OutOfMemoryError) as lost:
            raise WorkerLostError(f"was lost by Ray, {type(lost).__name__}: {_first_line(lost)}") from None
        if error is not None:
            raise error
        return found


@contextmanager
def connected(engine: Engine, source: Source, model: Segmenter, *, device: str | torch.device | None) -> Iterator[Pool]:
    """Actors with the model, on the engine's cluster. One that was started here ends with the block."""
    ray = imported()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, engine)
    try:
        wanted = None if device is None else torch.device(device).type
        on_gpus = wanted == "cuda" or (wanted is None and _count(ray, "GPU") > 0)
        if on_gpus and not _count(ray, "GPU"):
            raise InputError(f"device={str(device)!r}: the Ray cluster has no GPU: use cpu, or add a node that has one")
        needs = {"num_gpus": 1.0, "num_cpus": 0.0} if on_gpus else {"num_gpus": 0.0, "num_cpus": float(source.threads)}
        sent = None if engine.spec else _sent(ray, model)

        def places() -> int:
            return max(1, int(_count(ray, "GPU") if on_gpus else _count(ray, "CPU") // source.threads))

        def hire(index: int) -> ActorWorker:
            return ActorWorker(ray, source, sent, needs)

        kind = "cuda" if on_gpus else "cpu"
        with (
            Pool(hire, engine.workers or places(), device=kind, put=ray.put, patience=engine.patience) as pool,
            _growing(pool, places, wanted=engine.workers is None),
        ):
            yield pool
    finally:
        if ours:
            ray.shutdown()


def imported() -> Any:
    """The module ``ray``, with its usage reports off. Raises `InputError` where it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError(f"the engine ray needs Ray ({error}): pip install 'segcertify[ray]'") from None
    return ray


def _connect(ray: Any, engine: Engine) -> None:
    """Join the cluster at the address, or start one on this machine."""
    if engine.address is not None:
        try:
            ray.init(engine.address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise InputError(
                f"no Ray cluster answers at {engine.address!r} ({_first_line(error)}): start one by `ray start --head`"
            ) from None
        return
    cpus = None if engine.workers is None else max(engine.workers * engine.threads, 1)
    ray.init(
        num_cpus=cpus, include_dashboard=False, _node_ip_address=LOOPBACK, object_store_memory=STORE_BYTES,
        log_to_driver=False, configure_logging=False,
    )  # fmt: skip


def _sent(ray: Any, model: Segmenter) -> Any:
    """A model from Python, put once where every actor can take it."""
    try:
        return ray.put(model)
    except Exception as error:
        raise InputError(
            f"the model cannot be sent to other processes ({_first_line(error)}): load it by a spec"
        ) from None


def _count(ray: Any, kind: str) -> float:
    return float(ray.cluster_resources().get(kind, 0.0))


@contextmanager
def _growing(pool: Pool, places: Any, *, wanted: bool) -> Iterator[None]:
    """Within, a node that joins the cluster gets workers."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_AGAIN):
            with suppress(Exception):  # a cluster that does not answer now may do so later
                pool.grow(places())

    thread = threading.Thread(target=look, name="cluster", daemon=True)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join(30)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
