"""Attacks on the scenes of an evaluation, and what they leave of the labels.

An attack gives an upper bound on what a model gets right under any perturbation
within a radius, where a certificate gives a lower one.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from segcertify import metrics
from segcertify.attacks.gradient_ascent import GradientAscent
from segcertify.attacks.loss_and_gradient import NoisyCopies
from segcertify.attacks.projected_gradient import Box
from segcertify.attacks.smoothed import noise_threat
from segcertify.data import Scene
from segcertify.errors import InputError
from segcertify.evaluation.scenes import labels_record
from segcertify.noise import Noise
from segcertify.progress import Advance
from segcertify.records import AttackSettings, Record
from segcertify.records.settings import smoothed_steps
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category
from segcertify.sampling.smooth import Smooth

COPIES = 8
"""Noisy copies a step, in attacks on a smoothed model: as many as `attack_smoothed` takes."""

GRADIENT = 3
"""A pass forward and back takes about as long as this many draws; progress bars count draws."""


@dataclass(frozen=True, eq=False)
class AttackedScenes:
    """The attacks on the scenes of one evaluation.

    ``threat`` is a noise: attacks may do to inputs what its certificates speak
    of. ``noises`` are those of the smoothed models, by sigma.
    """

    settings: AttackSettings
    threat: Noise
    noises: Mapping[float, Noise]
    classes: int
    seed: int
    batch_size: int | None
    device: torch.device

    @property
    def smoothed(self) -> Mapping[float, Noise]:
        """The noises of the smoothed models that are attacked."""
        return self.noises if self.settings.smoothed else {}

    @property
    def work(self) -> int:
        """How many draws take about as long as attacking one scene."""
        radii, restarts = len(self.settings.radii), self.settings.restarts
        base = radii * restarts * self.settings.steps * GRADIENT
        smoothed = radii * restarts * smoothed_steps(self.settings.steps) * COPIES * GRADIENT
        return base + len(self.smoothed) * (smoothed + (1 + radii) * self.settings.smoothed)

    def check(self, model: Segmenter, scene: Scene) -> None:
        """Refuse what cannot be attacked, before the long work: takes one step on a scene."""
        if self.settings.smoothed and not self.noises:
            raise InputError(
                f"smoothed={self.settings.smoothed} attacks the smoothed models of an evaluation's settings, "
                "but there are none: give a setting, or smoothed=0"
            )
        self.threat.check(scene.x.shape)
        x, box = self._input(scene)
        for radius in self.settings.radii:
            noise_threat(self.threat, radius, x, box=box)
        once = replace(self, settings=replace(self.settings, steps=1, restarts=1))
        once._search(for_category(model, scene.category), scene, self.settings.radii[0], lambda step: None)

    def records(self, model: Segmenter, scene: Scene, base: Record, advance: Advance) -> Iterator[Record]:
        """What is left of a scene at each radius: of the base model, then of the smoothed ones, these also at 0."""

        def attacked(radius: float) -> Record:
            found = self._search(model, scene, radius, advance)
            return labels_record(scene, "attacked", base_labels(model, found), classes=self.classes)

        yield from self._worsening(replace(base, kind="attacked"), attacked)
        for sigma, noise in self.smoothed.items():
            yield from self._on_smoothed(model, scene, sigma=sigma, noise=noise, advance=advance)

    def _on_smoothed(
        self, model: Segmenter, scene: Scene, *, sigma: float, noise: Noise, advance: Advance
    ) -> Iterator[Record]:
        smooth = Smooth(model, noise, seed=self.seed, batch_size=self.batch_size, device=self.device)

        def counted(x: torch.Tensor, radius: float) -> Record:
            """The most frequent labels at x, from draws that neither votes nor attacks use, the same at every x."""
            n, draws = self.settings.smoothed, f"attacked {scene.id}"
            labels = smooth.counts(x, n=n, input_id=draws, progress=advance).argmax(0)
            setting = {"sigma": sigma, "n": n, "radius": radius}
            return labels_record(scene, "attacked", labels, classes=self.classes, **setting)

        start = time.perf_counter()
        clean = counted(self._input(scene)[0], 0.0)
        yield replace(clean, sampling_seconds=time.perf_counter() - start)
        yield from self._worsening(
            clean, lambda radius: counted(self._search(model, scene, radius, advance, noise=noise), radius)
        )

    def _worsening(self, clean: Record, attacked: Callable[[float], Record]) -> Iterator[Record]:
        """The worst record so far, for each radius: what was found within a smaller one is inside the larger too."""
        worst = clean
        for radius in self.settings.radii:
            start = time.perf_counter()
            worst = min(worst, attacked(radius), key=_right)
            yield replace(worst, radius=radius, sampling_seconds=time.perf_counter() - start)

    def _search(
        self, model: Segmenter, scene: Scene, radius: float, advance: Advance, *, noise: Noise | None = None
    ) -> torch.Tensor:
        """The input within a radius at which the model, or its smoothed one, is most often wrong, as far as found."""
        (x, box), settings = self._input(scene), self.settings
        steps, copies, weight = settings.steps, None, GRADIENT
        if noise is not None:
            copies = NoisyCopies(noise, COPIES, min(self.batch_size or COPIES, COPIES), self.seed)
            steps, weight = smoothed_steps(settings.steps), GRADIENT * COPIES
        ascent = GradientAscent(steps, loss=settings.loss, restarts=settings.restarts, seed=self.seed)
        target, valid = (torch.from_numpy(each)[None] for each in (scene.target.astype(np.int64), scene.valid))
        threat = noise_threat(self.threat, radius, x, box=box)
        return ascent(
            model, x[None], target, threat, valid=valid, copies=copies, progress=lambda step: advance(step * weight)
        ).x[0]

    def _input(self, scene: Scene) -> tuple[torch.Tensor, Box | None]:
        """A scene's input on the device, and the bounds of its numbers: images have some, clouds none."""
        return torch.from_numpy(scene.x).to(self.device), scene.domain.bounds


def _right(record: Record) -> int:
    """How many valid components have the right label."""
    return int(np.trace(metrics.from_plain(record.confusion or {})))
