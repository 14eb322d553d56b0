"""Ray: a run on actors is the run of one process, whatever happens to them."""

import os
import signal
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import engine_runs
import evaluated
import pytest
from engine_runs import descendants, driver, evaluated_in, files, wait_for
from shared_models import Harmful, Parts, Slow, small_network

import segcertify as sc
from segcertify.data import load
from segcertify.engines import Engine, ray_cluster
from segcertify.engines.ray_cluster import imported

pytest.importorskip("ray", reason="Ray is not installed: pip install 'segcertify[ray]'")
pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")  # of Ray, whose processes end on their own


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    return evaluated.pets(tmp_path_factory.mktemp("data") / "pets")


@pytest.fixture(scope="module")
def data(pets):
    return load(f"pets:{pets}")


@pytest.fixture(scope="module")
def cluster():
    """A node of two CPUs, on the loopback; more can be added."""
    ray = imported()
    from ray.cluster_utils import Cluster

    helpers = str(Path(engine_runs.__file__).parent)  # for its actors, which import models from there
    others = {"PYTHONPATH": os.pathsep.join([helpers, *sys.path]), "RAY_AUTH_MODE": "disabled"}
    with ray_cluster._environment(others), ray_cluster._private(ray):
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        yield made
        ray.shutdown()
        made.shutdown()


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same in IPv6, and ::1, as the kernel writes them."""


def listening():
    """The addresses at which this process and those that it started listen."""
    sockets, found = set(), set()
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):  # it has just ended
            sockets |= {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    for name in ("tcp", "tcp6"):
        lines = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        found |= {words[1].split(":")[0] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets}
    return found


def test_a_cluster_of_this_machine_is_private_and_gives_the_same_run(data, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    model, engine = small_network(), Engine("ray", 2)
    with engine.started(model) as pool:
        assert pool.identity["classes"]
        assert listening()
        assert listening() <= LOOPBACK
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert pool.submit(lambda host: os.nice(0)).result() == os.nice(0)  # Ray's own default is 15
        with using(pool, engine) as same:
            evaluated_in(tmp_path / "shared", model, data, engine=same)
    assert not imported().is_initialized()
    assert not (tmp_path / "home" / ".ray").exists()
    evaluated_in(tmp_path / "alone", model, data, engine=Engine("local", 1))
    assert files(tmp_path / "shared")[1:] == files(tmp_path / "alone")[1:]


def test_the_folder_of_a_cluster_is_the_users_alone_and_goes_with_it(monkeypatch):
    """Where the folder that is asked for is too long for the path of a socket, it lies in /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        monkeypatch.setenv("RAY_TMPDIR", root)
        with Engine("ray", 1).started(small_network()) as pool:
            assert pool.identity
            (own,) = Path(root).iterdir()
            assert own.stat().st_mode & 0o777 == 0o700
            assert next(own.rglob("plasma_store"))
        assert not list(Path(root).iterdir())
        monkeypatch.setenv("RAY_TMPDIR", root + "/" + 30 * "x")
        with ray_cluster._folder() as folder:
            assert Path(folder).parents[1] == Path("/tmp")


@pytest.mark.parametrize("model", [small_network(), Parts()], ids=["images", "points"])
def test_a_running_cluster(data, tmp_path, cluster, model):
    scenes = load("shapes:?category=Mug&count=2&points=60") if isinstance(model, Parts) else data
    evaluated_in(tmp_path / "shared", model, scenes, engine="ray", address=cluster.address)
    evaluated_in(tmp_path / "alone", model, scenes)
    assert files(tmp_path / "shared")[1:] == files(tmp_path / "alone")[1:]


@pytest.mark.parametrize("harm", ["kill", "memory", "sleep"])
def test_harm_to_an_actor_changes_nothing(data, tmp_path, cluster, harm):
    """kill -9, memory that runs out, and an actor that hangs."""
    (tmp_path / "calls").mkdir()
    engine = Engine("ray", 2, cluster.address, patience=10.0 if harm == "sleep" else 600.0)
    model = Harmful(str(tmp_path / "calls"), harm)
    evaluated_in(tmp_path / "shared", model, data, engine=engine)
    assert len(list((tmp_path / "calls").glob("harm-*"))) == 1
    evaluated_in(tmp_path / "alone", replace(model, times=0), data)
    assert files(tmp_path / "shared")[1:] == files(tmp_path / "alone")[1:]


def test_a_node_comes_and_goes(data, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "LOOK_AGAIN", 0.2)
    model, engine, seen = Slow(0.002), Engine("ray", address=cluster.address), []
    with engine.started(model) as pool:
        assert pool.slots == 2
        node = cluster.add_node(num_cpus=1)
        wait_for(lambda: "3 workers" in pool.news)

        def progress(step):
            seen.append(step)
            if len(seen) == 20:
                cluster.remove_node(node, allow_graceful=False)

        with using(pool, engine) as same:
            evaluated_in(tmp_path / "shared", model, data, engine=same, progress=progress)
        assert len(seen) > 20
        wait_for(lambda: pool.replaced or "2 workers" in pool.news)
    evaluated_in(tmp_path / "alone", model, data)
    assert files(tmp_path / "shared")[1:] == files(tmp_path / "alone")[1:]


@contextmanager
def using(pool, engine):
    """An engine whose workers are there already."""

    class Started(Engine):
        @contextmanager
        def started(self, *arguments, **more):
            yield pool

    yield Started(engine.kind, engine.workers, engine.address)


def test_a_driver_that_is_killed_is_resumed_on_the_other_engine(pets, data, tmp_path, cluster):
    with driver(pets, tmp_path / "run", "ray", "", cluster.address):
        pass
    evaluated_in(tmp_path / "run", Slow(0.0), data, workers=2)
    with driver(pets, tmp_path / "other", "local", ""):
        pass
    evaluated_in(tmp_path / "other", Slow(0.0), data, engine="ray", address=cluster.address)
    evaluated_in(tmp_path / "alone", Slow(0.0), data)
    for name in ("run", "other"):
        assert files(tmp_path / name)[1:] == files(tmp_path / "alone")[1:]
    assert '"threads": 1' in files(tmp_path / "run")[0]  # as the run began


def test_signals_do_what_they_did():
    def ours(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, ours)
    try:
        with Engine("ray", 1).started(small_network()):
            assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_a_cluster_does_not_have(cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "PLACE_PATIENCE", 0.1)
    engine = Engine("ray", 1, cluster.address)
    with engine.started(small_network(), threads=99) as pool, pytest.raises(sc.InputError, match="found no place in"):
        _ = pool.identity
    with (
        pytest.raises(sc.InputError, match="the Ray cluster has no GPU: use cpu"),
        engine.started(small_network(), device="cuda"),
    ):
        pass


def test_no_cluster_answers():
    with (
        pytest.raises(sc.InputError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'.*ray start --head"),
        Engine("ray", 1, "127.0.0.1:1").started(small_network()),
    ):
        pass
