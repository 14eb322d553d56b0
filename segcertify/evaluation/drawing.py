"""What a model says of the scenes of an evaluation: its own labels, attacks on them, and the votes of each sigma.

In this process it is asked when a scene's records are made. Workers are asked some scenes ahead, so that none waits
while records are written: never more scenes than they can work on, however long the data set is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from segcertify.arrays import FloatArray, IntArray
from segcertify.data import DataSet, Scene
from segcertify.engines.pool import Pool
from segcertify.evaluation.attacked import AttackedScenes
from segcertify.evaluation.looks import enough_for_all
from segcertify.evaluation.scenes import labels_record
from segcertify.metrics.names import MetricName
from segcertify.noise import Noise
from segcertify.numerals import exact
from segcertify.progress import Advance
from segcertify.records import Configuration, Record, RunFolder
from segcertify.sampling.metrics import MetricRecorder
from segcertify.sampling.seeds import Seed
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category
from segcertify.sampling.shared import SharedSmooth
from segcertify.sampling.smooth import Smooth
from segcertify.sampling.tasks import Base, Host
from segcertify.votes import Votes

Found = TypeVar("Found")

AHEAD = 2
"""How many scenes are begun for each worker, so that one always has something to do."""


@dataclass(frozen=True, eq=False)
class Voted:
    """The votes of a scene at one sigma, the values of each metric in each draw, and how long they took."""

    votes: Votes
    values: FloatArray | Sequence[FloatArray]
    seconds: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """A model that draws for an evaluation, in this process or in workers."""

    model: Segmenter
    data: DataSet
    configuration: Configuration
    folder: RunFolder
    noises: Mapping[float, Noise]
    metrics: Sequence[MetricName]
    attacked: AttackedScenes | None
    batch_size: int | None
    device: torch.device
    workers: Pool | None
    smoothed: dict[tuple[str, float], Smooth] = field(default_factory=dict)

    def scenes(self, indices: Iterable[int], broken: Collection[str], advance: Advance) -> Generator[Drawn]:
        """What the model says of each scene, in order. Nothing is asked about a scene that is known to be broken."""
        if self.workers is None:
            yield from (Drawn(self, index, advance) for index in indices)
            return
        most = AHEAD * self.workers.slots
        waiting: deque[Drawn] = deque()
        with ThreadPoolExecutor(most, thread_name_prefix="scene") as threads:
            try:
                for index in indices:
                    if len(waiting) >= most:
                        yield waiting.popleft()
                    known = self.data.ids[index] in broken
                    waiting.append(Drawn(self, index, advance) if known else Ahead(self, index, advance, threads))
                while waiting:
                    yield waiting.popleft()
            finally:
                self.workers.close()  # frees the threads that wait for answers, if this ends early

    def base(self, scene: Scene) -> IntArray:
        """The model's own labels."""
        if self.workers is not None:
            found: IntArray = self.workers.submit(Base(scene.category), scene.x, about=scene.id).result()
            return found
        model = for_category(self.model, scene.category)
        return base_labels(model, torch.from_numpy(scene.x).to(self.device))

    def attacks(self, scene: Scene, base: Record, advance: Advance) -> Iterable[Record]:
        """What attacks leave of a scene."""
        if self.attacked is None:
            return ()
        if self.workers is None:
            return self.attacked.records(for_category(self.model, scene.category), scene, base, advance)
        found: list[Record] = self.workers.submit(Attack(self.attacked, scene, base), about=scene.id).result()
        advance(self.attacked.work)
        return found

    def votes(self, scene: Scene, sigma: float, shown: IntArray, advance: Advance) -> Voted:
        """The votes of one sigma, with counts at the n of each of its settings."""
        start, n, looks = time.perf_counter(), self.configuration.largest_n[sigma], self.configuration.looks
        metrics = [name.made(target=scene.labels, shown=shown) for name in self.metrics]
        recorder = MetricRecorder(metrics, n) if metrics else None
        smooth = self._smooth(scene.category, sigma)
        votes = smooth.votes(
            scene.x, n=n, n0=self.configuration.n0, input_id=scene.id,
            prefixes=[setting.n for setting in self.configuration.settings if setting.sigma == sigma],
            looks=() if looks is None else looks.times[exact(sigma)],
            until=None if looks is None else enough_for_all(self.configuration, sigma),
            checkpoint=self.folder.checkpoint(scene.id, sigma), preprocessing=scene.preprocessing,
            counts=bool(self.configuration.sets), progress=advance, watch=recorder,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        advance(votes.planned - votes.n)
        return Voted(votes, () if recorder is None else recorder.values(smooth.draws(scene.x, scene.id)), seconds)

    def _smooth(self, category: str, sigma: float) -> Smooth:
        """A smoothed model, which has its network probed once for each shape of inputs."""
        kind = category, sigma
        if kind not in self.smoothed:
            model, noise = for_category(self.model, category), self.noises[sigma]
            seed = Seed(self.configuration.seed, self.configuration.seed_given)
            made: Smooth
            if self.workers is None:
                made = Smooth(model, noise, seed=seed, batch_size=self.batch_size, device=self.device)
            else:
                made = SharedSmooth(
                    self.workers, model, noise, seed=seed, batch_size=self.batch_size, category=category
                )  # fmt: skip
            self.smoothed.setdefault(kind, made)
        return self.smoothed[kind]


class Drawn:
    """What the model says of one scene, when it is asked."""

    def __init__(self, drawing: Drawing, index: int, advance: Advance) -> None:
        self._drawing, self._index, self._advance = drawing, index, advance

    def scene(self) -> Scene:
        """The scene. Raises `InputError` if it cannot be read."""
        return self._drawing.data[self._index]

    def base(self, scene: Scene) -> tuple[IntArray, Record]:
        """The model's own labels, and their record."""
        start = time.perf_counter()
        labels = self._drawing.base(scene)
        record = labels_record(scene, "base", labels, classes=len(self._drawing.data.classes))
        return labels, replace(record, sampling_seconds=time.perf_counter() - start)

    def attacks(self, scene: Scene, base: Record) -> Iterable[Record]:
        """The records of attacks on it, if there are any."""
        return self._drawing.attacks(scene, base, self._advance)

    def votes(self, scene: Scene, sigma: float, shown: IntArray) -> Voted:
        """The votes of one sigma; ``shown`` are the model's own labels."""
        return self._drawing.votes(scene, sigma, shown, self._advance)


class Ahead(Drawn):
    """The same, asked at once by a thread. An error is raised where its step is asked for, and at all later ones."""

    def __init__(self, drawing: Drawing, index: int, advance: Advance, threads: ThreadPoolExecutor) -> None:
        super().__init__(drawing, index, advance)
        names = ("scene", "base", "attacks", *drawing.configuration.sigmas)
        self._steps: dict[object, Future[Any]] = {name: Future() for name in names}
        threads.submit(self._all)

    def scene(self) -> Scene:
        """As `Drawn.scene`."""
        found: Scene = self._steps["scene"].result()
        return found

    def base(self, scene: Scene) -> tuple[IntArray, Record]:
        """As `Drawn.base`."""
        found: tuple[IntArray, Record] = self._steps["base"].result()
        return found

    def attacks(self, scene: Scene, base: Record) -> Iterable[Record]:
        """As `Drawn.attacks`."""
        found: Iterable[Record] = self._steps["attacks"].result()
        return found

    def votes(self, scene: Scene, sigma: float, shown: IntArray) -> Voted:
        """As `Drawn.votes`."""
        found: Voted = self._steps[sigma].result()
        return found

    def _all(self) -> None:
        """Every step in turn."""
        try:
            scene = self._done("scene", super().scene)
            shown, base = self._done("base", lambda: Drawn.base(self, scene))
            self._done("attacks", lambda: Drawn.attacks(self, scene, base))
            for sigma in self._drawing.configuration.sigmas:
                self._done(sigma, lambda sigma=sigma: Drawn.votes(self, scene, sigma, shown))  # type: ignore[misc]
        except BaseException as error:
            for future in self._steps.values():
                if not future.done():
                    future.set_exception(error)

    def _done(self, name: object, step: Callable[[], Found]) -> Found:
        found = step()
        self._steps[name].set_result(found)
        return found


@dataclass(frozen=True, eq=False)
class Attack:
    """A task: attack a scene, on the worker's device."""

    attacked: AttackedScenes
    scene: Scene
    base: Record

    def __call__(self, host: Host) -> list[Record]:
        """The records of the attacks."""
        there, model = replace(self.attacked, device=host.device), host.model(self.scene.category)
        return list(there.records(model, self.scene, self.base, lambda step: None))


@dataclass(frozen=True, eq=False)
class CheckAttack:
    """A task: refuse what cannot be attacked."""

    attacked: AttackedScenes
    scene: Scene

    def __call__(self, host: Host) -> None:
        """One step on a scene."""
        replace(self.attacked, device=host.device).check(host.model(""), self.scene)


class Throughput:
    """How many draws a second were made, for a display."""

    def __init__(self, workers: Pool | None) -> None:
        self._workers, self._start, self._done, self._lock = workers, time.monotonic(), 0, threading.Lock()

    def counting(self, advance: Advance) -> Advance:
        """The same function, which several threads may call, and which counts."""

        def counted(step: int) -> None:
            with self._lock:
                self._done += step
                advance(step)

        return counted

    def __call__(self) -> str:
        """In words; nothing in the first second."""
        passed = time.monotonic() - self._start
        if self._workers is None or passed < 1:
            return ""
        return f"{self._done / passed:.1f} draws/s, {self._workers.news}"


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within, torch computes with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
