"""The appendix's further examples: images under attack beside what is certified [Fischer2021, App. C].

Some are hand-picked; others are chosen by a seed, so that nobody picks them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segcertify import __version__, metrics
from segcertify.arrays import IntArray
from segcertify.attacks.comparison import Comparison, attack_base, compare
from segcertify.data import DataSet, Scene
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.figures.attack import Row, jpeg, rows_figure
from segcertify.models import card_of
from segcertify.models.initial_weights import described
from segcertify.noise import Gaussian
from segcertify.progress import Advance, progress_bar
from segcertify.records.settings import smoothed_steps
from segcertify.reproduce.attack_results import SECTIONS, Example, Results, Under
from segcertify.reproduce.bundled import ALPHA, N0, SETTINGS
from segcertify.sampling.segmenter import Segmenter, base_labels
from segcertify.sampling.smooth import certify
from segcertify.storage import archive

CLAIM = SETTINGS[0]
"""What is certified: sigma = 0.25, n = 100, tau = 0.75, as in the paper's Figure 1."""

RADIUS = Gaussian(CLAIM.sigma).radius(CLAIM.tau)
LICENCES = {
    "pets": "Oxford-IIIT Pet (Parkhi et al. 2012), CC BY-SA 4.0",
    "camvid": "CamVid (Brostow et al. 2009), for research use",
}
"""Where a data set's images come from, and what they may be used for."""

_KIND, _VERSION = "attacked", 1


@dataclass(frozen=True)
class Plan:
    """What is attacked, in plain values.

    ``model`` and ``non_robust`` name the models; ``examples`` are hand-picked ids,
    ``random`` says how many more the seed chooses; ``radii`` are attacked beyond
    the certified one.
    """

    model: str
    non_robust: str
    examples: tuple[str, ...] = ()
    random: int = 0
    radii: tuple[float, ...] = (2 * RADIUS, 4 * RADIUS)
    steps: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        require_integer("random", self.random, at_least=0)
        require_integer("steps", self.steps)
        require_integer("seed", self.seed, at_least=0)
        if not self.examples and not self.random:
            raise InputError("no images to attack: name some (--example ID), or ask for some at random (--random 6)")
        for radius in self.radii:
            if require_positive("radius", radius) <= RADIUS:
                raise InputError(
                    f"further radii must be above {RADIUS:.6f}, the certified one, which is attacked anyway, but got "
                    f"{radius:g}: leave it out"
                )
        for name in ("examples", "radii"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise InputError(f"{name} must all be different, but got {', '.join(map(str, values))}")

    def chosen(self, data: DataSet) -> dict[str, tuple[str, ...]]:
        """The ids of each section's images."""
        for name in self.examples:
            if name not in data.ids:
                close = get_close_matches(name, data.ids, n=3, cutoff=0.4) or data.ids[:3]
                raise InputError(f"no image {name!r} in {data.name}: there are {', '.join(close)}, ...")
        if self.random > len(data):
            raise InputError(f"{self.random} images at random, but {data.name} holds {len(data)}: ask for fewer")
        return {"hand_picked": self.examples, "random": tuple(shuffled(data.ids, self.seed)[: self.random])}


def shuffled(ids: Iterable[str], seed: int) -> list[str]:
    """Ids in an order that only the seed decides: by the SHA-256 of seed and id."""
    return sorted(ids, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())


def run(
    robust: Segmenter,
    non_robust: Segmenter,
    data: DataSet,
    plan: Plan,
    *,
    out: Path,
    device: str = "cpu",
    progress: bool | None = None,
) -> list[Path]:
    """Certify and attack the plan's images, and write results, page and a picture of each section; the files written.

    Each image's outcome lies in ``out/examples``: the same call again goes on from there.
    """
    chosen = plan.chosen(data)
    models = {plan.model: robust, plan.non_robust: non_robust}
    for name, model in models.items():
        _require_classes(name, model, data)
    work = _Work(robust, non_robust, data, plan, out / "examples", torch.device(device))
    work.over(dict.fromkeys(sum(chosen.values(), ())), progress=progress)
    licence = LICENCES.get(kind := data.name.partition("/")[0], f"{kind}, under its own licence")
    shown: dict[str, Any] = {name: tuple(map(work.example, ids)) for name, ids in chosen.items()}
    trained = {name: card.data for name, model in models.items() if (card := card_of(model)) is not None}
    results = Results(**work.settings, trained=trained, scenes=len(data), licence=licence, **shown)
    files = []
    for name, ids in chosen.items():
        if ids:
            rows = [work.row(each) for each in ids]
            figure = rows_figure(rows, colours=data.colours / 255, names=data.classes, source=licence)
            files.append(out / SECTIONS[name].picture)
            files[-1].write_bytes(jpeg(figure))
    return [*results.save(out), *files]


def named(spec: str) -> str:
    """A model's spec with each file in it by name and content, wherever it lies."""
    return re.sub(r"[^:?&=]+", lambda part: _named(part[0]), spec)


@dataclass(frozen=True)
class _Work:
    """Attacks in one folder, on one device."""

    robust: Segmenter
    non_robust: Segmenter
    data: DataSet
    plan: Plan
    folder: Path
    device: torch.device

    @property
    def settings(self) -> dict[str, Any]:
        """What decides an outcome, less the radii, which are in it."""
        plan = self.plan
        return {
            "version": __version__, "device": self.device.type, "model": plan.model, "non_robust": plan.non_robust,
            "data": self.data.name, "sigma": CLAIM.sigma, "tau": CLAIM.tau, "n": CLAIM.n, "n0": N0, "alpha": ALPHA,
            "correction": "holm", "radius": RADIUS, "steps": plan.steps, "seed": plan.seed,
        }  # fmt: skip

    @property
    def steps(self) -> int:
        """An image's share of the progress bar: the certificate's draws, the steps of all attacks, four recounts."""
        attacks = (2 + 2 * len(self.plan.radii)) * self.plan.steps + smoothed_steps(self.plan.steps)
        return N0 + CLAIM.n + attacks + 4 * CLAIM.n

    def over(self, ids: Iterable[str], *, progress: bool | None) -> None:
        """Make the outcomes that are missing, after a look at all that is needed."""
        missing = []
        for name in ids:
            if self._file(name).exists():
                self._require_same(name)
            else:
                self._scene(name)
                missing.append(name)
        with progress_bar(self.steps * len(missing), f"attacking {len(missing)} images", show=progress) as advance:
            for name in missing:
                self._make(self._scene(name), advance)

    def example(self, name: str) -> Example:
        """The numbers of an outcome."""
        return Example.from_plain(self._read(name)[0]["example"])

    def row(self, name: str) -> Row:
        """The arrays of an outcome."""
        arrays = self._read(name)[1]
        arrays["attacked"] = arrays["attacked"].astype(np.float32) / 255
        return Row(**arrays, captions=self.example(name).captions)

    def _make(self, scene: Scene, advance: Advance) -> None:
        """Certify and attack one image, and write the outcome."""
        plan, x = self.plan, torch.from_numpy(scene.x).to(self.device)
        target = np.where(scene.valid, scene.target, -1)
        certificate = certify(
            self.robust, x, sigma=CLAIM.sigma, tau=CLAIM.tau, n=CLAIM.n, n0=N0, alpha=ALPHA, seed=plan.seed,
            device=self.device, input_id=scene.id, progress=False,
        )  # fmt: skip
        advance(N0 + CLAIM.n)
        found = compare(
            self.robust, self.non_robust, x, certificate, target=target, steps=plan.steps, seed=plan.seed,
            progress=advance,
        )  # fmt: skip
        example = self._example(scene, found, [self._beyond(scene, x, radius, advance) for radius in plan.radii])
        arrays = {
            "attacked": np.rint(255 * found.non_robust.x).astype(np.uint8),
            "target": archive.smallest_integers(target),
            "non_robust": archive.smallest_integers(found.non_robust.labels),
            "robust": archive.smallest_integers(found.robust.labels),
            "certified": archive.smallest_integers(certificate.labels),
        }
        header = {"settings": self.settings, "example": asdict(example)}
        archive.write(self._file(scene.id), kind=_KIND, version=_VERSION, header=header, arrays=arrays)

    def _beyond(self, scene: Scene, x: torch.Tensor, radius: float, advance: Advance) -> Under:
        """Both base models under attack within another radius."""
        target, labels = np.where(scene.valid, scene.target, -1), []
        for model in (self.non_robust, self.robust):
            found = attack_base(
                model, x, radius=radius, target=target, steps=self.plan.steps, seed=self.plan.seed, progress=advance
            )
            labels.append(base_labels(model, found))
        return self._under(scene, radius, labels)

    def _example(self, scene: Scene, found: Comparison, beyond: Sequence[Under]) -> Example:
        """The numbers of one image."""
        matrix = self._confusion(scene, found.certificate.labels)
        asked = [each.smoothed for each in found.attacks.values()]
        base = (
            self._under(scene, 0.0, [found.non_robust.clean, found.robust.clean]),
            self._under(scene, found.radius, [found.non_robust.labels, found.robust.labels]),
            *beyond,
        )
        return Example(
            id=scene.id,
            pixels=found.certificate.N,
            certified=found.certificate.certified,
            accuracy=metrics.accuracy(matrix),
            abstained=metrics.abstention(matrix),
            moved=max(each.moved for each in asked),
            refuted=max(each.refuted for each in asked),
            base=base,
        )

    def _under(self, scene: Scene, radius: float, labels: Sequence[IntArray]) -> Under:
        """How right both base models' labels are."""
        return Under(radius, *(metrics.accuracy(self._confusion(scene, each)) for each in labels))

    def _confusion(self, scene: Scene, labels: IntArray) -> metrics.Confusion:
        return metrics.confusion(labels, scene.target, scene.valid, classes=len(self.data.classes))

    def _scene(self, name: str) -> Scene:
        """An image with ground truth."""
        scene = self.data[self.data.ids.index(name)]
        if scene.x.ndim != 3:
            raise InputError(
                f"{name!r} of {self.data.name} is a point cloud, but pictures are of images: name such data"
            )
        if not scene.valid.any():
            raise InputError(
                f"{name!r} of {self.data.name} has no pixel with ground truth to attack: take another image"
            )
        return scene

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _read(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return archive.read(self._file(name), kind=_KIND, version=_VERSION)

    def _require_same(self, name: str) -> None:
        """Refuse an outcome of other settings."""
        made = {**self._read(name)[0]["settings"], "radii": [under.radius for under in self.example(name).base[2:]]}
        now = {**self.settings, "radii": list(self.plan.radii)}
        for key, value in now.items():
            if made.get(key) != value:
                raise InputError(
                    f"{self._file(name)} was made with {key} = {made.get(key)}, but now {key} = {value}: "
                    "choose another folder (--out)"
                )


def _require_classes(name: str, model: Segmenter, data: DataSet) -> None:
    card = card_of(model)
    if card is not None and card.classes != data.classes:
        raise InputError(
            f"{name} has the classes {', '.join(card.classes)}, but {data.name} has {', '.join(data.classes)}: "
            "attack it on data of its own classes"
        )


def _named(part: str) -> str:
    path = Path(part)
    return described(path) if path.is_file() else path.name if path.is_dir() else part
