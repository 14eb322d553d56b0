"""Workers on a Ray cluster: an actor for each GPU, or for each CPU core where there is none.

Ray pickles what it sends, within the user's own cluster. A cluster that starts with a run listens on this machine's
loopback alone, to whoever has a token of this process, without a dashboard, and reports no usage. Its sockets and logs
lie in a folder of this user alone, which goes with it.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
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

LOOPBACK = ("127.0.0.1", "::1")
LOOK_AGAIN = 5.0
"""Seconds between two looks at the cluster, for nodes that came."""
PLACE_PATIENCE = 300.0
"""How many seconds an actor waits for a place; a run ends when none has one."""
START_PATIENCE = 600.0
"""How many seconds an actor that has its place may take to load the model."""
KNOCK_SECONDS = 10.0
"""How many seconds the head of a cluster may take to answer."""
STORE_BYTES = 2**30
"""The object store of a cluster of this machine: it holds a few inputs and counts for each worker."""
LONGEST_ROOT = 24
"""The most characters of the folder in which Ray's is made: a socket's path has at most 104, of which 80 are ours."""
NICENESS = "RAY_worker_niceness"
_AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What says who may use a cluster. Ray sets the first where it is not set."""


class Holder:
    """The actor: it holds the model and does tasks."""

    def __init__(self) -> None:
        self._host: Host | None = None

    def here(self) -> None:
        """Answers as soon as the actor has its place."""

    def load(self, source: Source, device: str, sent: Segmenter | None) -> tuple[Exception | None, Any]:
        """Load the model, or take the one that was sent; its identity."""
        try:
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

    def __init__(self, ray: Any, source: Source, device: str, sent: Any) -> None:
        self._ray, self._source, self._device, self._sent = ray, source, device, sent
        self._stopped = threading.Event()
        self._needs = needs(device, source.threads)
        self._actor = ray.remote(Holder).options(max_restarts=0, max_task_retries=0, **self._needs).remote()

    def start(self) -> dict[str, Any]:
        """Wait for a place, then load the model; returns its identity."""
        wanted = ", ".join(f"{name}={count:g}" for name, count in self._needs.items())
        late = f"found no place in the cluster within {PLACE_PATIENCE:g} s (it needs {wanted}: is that much free?)"
        self._found(self._actor.here.remote(), PLACE_PATIENCE, late)
        found: dict[str, Any] = self._answer(
            self._actor.load.remote(self._source, self._device, self._sent), START_PATIENCE
        )
        return found

    def ask(self, task: Task, arrays: Sequence[Any], patience: float) -> Any:
        """Have a task done."""
        return self._answer(self._actor.do.remote(task, *arrays), patience)

    def stop(self) -> None:
        """Kill the actor."""
        self._stopped.set()
        with suppress(Exception):  # the cluster itself may be gone
            self._ray.kill(self._actor)

    def _answer(self, reference: Any, patience: float) -> Any:
        error, found = self._found(reference, patience, f"gave no answer for {patience:g} s")
        if error is not None:
            raise error
        return found

    def _found(self, reference: Any, patience: float, late: str) -> Any:
        """What a call of the actor returned."""
        ray, end = self._ray, time.monotonic() + patience
        try:
            while not ray.wait([reference], timeout=1.0)[0]:
                if self._stopped.is_set():
                    raise WorkerLostError("was stopped")
                if time.monotonic() > end:
                    raise WorkerLostError(late)
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:  # the actor's own errors are answers
            raise InputError(
                f"what was sent to a worker cannot be used there ({_first_words(error.cause or error)}): a model from "
                "Python needs its class or function in a module that can be imported on every node"
            ) from None
        except ray.exceptions.RayError as lost:
            raise WorkerLostError(f"was lost by Ray, {type(lost).__name__}: {_first_words(lost)}") from None


@contextmanager
def connected(engine: Engine, source: Source, model: Segmenter, *, device: str | torch.device | None) -> Iterator[Pool]:
    """Actors with the model, on the engine's cluster. One that was started here ends with the block."""
    ray = imported()
    with _joined(ray, engine, source):
        kind = _kind(ray, device)
        sent = None if engine.spec else _sent(ray, model)

        def places() -> int:
            return max(
                1,
                *(
                    int(_count(ray, {"num_gpus": "GPU", "num_cpus": "CPU"}[name]) // each)
                    for name, each in needs(kind, source.threads).items()
                    if each
                ),
            )

        def hire(index: int) -> ActorWorker:
            return ActorWorker(ray, source, kind, sent)

        with (
            Pool(hire, engine.workers or places(), device=kind, put=ray.put, patience=engine.patience) as pool,
            _growing(pool, places, wanted=engine.workers is None),
        ):
            yield pool


def needs(device: str, threads: int) -> dict[str, float]:
    """What an actor takes of a cluster: a GPU, or a CPU for each of its threads."""
    return {"num_gpus": 1.0, "num_cpus": 0.0} if device == "cuda" else {"num_gpus": 0.0, "num_cpus": float(threads)}


def imported() -> Any:
    """The module ``ray``, with its usage reports off. Raises `InputError` where it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError(f"the engine ray needs Ray ({error}): pip install 'segcertify[ray]'") from None
    return ray


def _kind(ray: Any, device: str | torch.device | None) -> str:
    """The kind of device that the actors draw on: what was named, else CUDA if the cluster has a GPU."""
    wanted = None if device is None else torch.device(device).type
    gpus = _count(ray, "GPU")
    if wanted == "cuda" and not gpus:
        raise InputError(f"device={str(device)!r}: the Ray cluster has no GPU: use cpu, or add a node that has one")
    return wanted or ("cuda" if gpus else "cpu")


@contextmanager
def _joined(ray: Any, engine: Engine, source: Source) -> Iterator[None]:
    """Within, Ray is connected: as the caller has done, to the cluster at the address, or to one of this machine."""
    if ray.is_initialized():
        yield
        return
    with ExitStack() as after:
        if engine.address is None:
            folder = after.enter_context(_folder())
        after.callback(_forget_token, ray)
        after.callback(ray.shutdown)
        if engine.address is None:
            _start(ray, engine.workers or max(1, torch.get_num_threads() // source.threads), source.threads, folder)
        else:
            _connect(ray, engine.address)
        yield


@contextmanager
def _folder() -> Iterator[str]:
    """A folder for Ray's sockets and logs, in one of this user alone. Ray's own, /tmp/ray, is everybody's and stays."""
    chosen = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    root = chosen if len(chosen) <= LONGEST_ROOT or os.name == "nt" else "/tmp"
    with tempfile.TemporaryDirectory(prefix="ray-", dir=root, ignore_cleanup_errors=True) as own:
        yield str(Path(own) / "r")  # which Ray lets everybody enter


def _start(ray: Any, workers: int, threads: int, folder: str) -> None:
    """Start a cluster on this machine."""
    with _private(ray), _signals_kept():
        ray.init(
            "local",  # a new one, whatever else runs here
            num_cpus=workers * threads, include_dashboard=False, _node_ip_address=LOOPBACK[0], _temp_dir=folder,
            object_store_memory=STORE_BYTES, log_to_driver=False, configure_logging=False,
        )  # fmt: skip
    if (listens := ray.util.get_node_ip_address()) not in LOOPBACK:
        raise InputError(
            f"Ray {ray.__version__} would listen at {listens}, which other machines may reach, since it was "
            "imported before. Import segcertify's engine first, or start a cluster yourself and give its address"
        )


def _connect(ray: Any, address: str) -> None:
    """Join the cluster at the address."""
    try:
        _knock(address)
        with _signals_kept():
            ray.init(address, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no Ray cluster answers at {address!r} ({_first_words(error)}): start one by `ray start --head`"
        ) from None


def _knock(address: str) -> None:
    """Raise an `OSError` if nothing listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()


@contextmanager
def _private(ray: Any) -> Iterator[None]:
    """Within, Ray takes the loopback for this machine's address, as on macOS and Windows, and its token is ours.

    Else it writes a token to a file that others on this machine may be able to read. Workers have the priority of this
    process, unless the environment says otherwise: Ray's own default leaves them little of a machine that is busy.
    """
    constants, name = ray._private.ray_constants, "ENABLE_RAY_CLUSTER"
    chosen = {name: os.environ.get(name) for name in _AUTHENTICATION}
    if not any(chosen.values()):
        chosen["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    chosen[NICENESS] = os.environ.get(NICENESS, "0")
    before = getattr(constants, name, None)
    logger = logging.getLogger("ray._private.authentication")
    level = logger.level
    logger.setLevel(logging.ERROR)  # that tokens are used is no news
    setattr(constants, name, False)
    try:
        with _environment({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **chosen}):
            yield
    finally:
        setattr(constants, name, before)
        logger.setLevel(level)


def _forget_token(ray: Any) -> None:
    """Let Ray look again who may use a cluster: it would give the token of one that has ended to the next."""
    with suppress(AttributeError):  # of Ray's versions without tokens
        ray._raylet.Config.initialize("")
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Within, and in processes that start there, the environment has these values; None stands for none."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray's own handler of SIGTERM would end a run before its state is saved."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def _sent(ray: Any, model: Segmenter) -> Any:
    """A model from Python, put once where every actor can take it."""
    try:
        return ray.put(model)
    except Exception as error:
        raise InputError(
            f"the model cannot be sent to other processes ({_first_words(error)}): load it by a spec"
        ) from None


def _count(ray: Any, kind: str) -> float:
    return float(ray.cluster_resources().get(kind, 0.0))


@contextmanager
def _growing(pool: Pool, places: Callable[[], int], *, wanted: bool) -> Iterator[None]:
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


def _first_words(error: object) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
