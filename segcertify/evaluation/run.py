"""A model over a data set: every scene, every setting, resumable.

Each sigma is sampled once, at its largest n; smaller n are prefixes of the same
draws. Each (sigma, n, tau, correction) is a claim of its own: picking the best
after looking voids alpha. Over M scenes the claims of one setting hold together
with probability at least 1 - M alpha.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from segcertify import metrics
from segcertify.arrays import IntArray
from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.data import DataSet, Scene
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.evaluation.attacked import Assault
from segcertify.evaluation.noises import noise_of
from segcertify.evaluation.scenes import scenes_digest, text_digest
from segcertify.figures.cloud import cloud_figure, save_view
from segcertify.figures.image import certified_figure, save_figure, save_labels
from segcertify.models import card_of, with_precision
from segcertify.models.identity import weights_digest
from segcertify.noise import Noise
from segcertify.progress import Advance, progress_bar
from segcertify.records import (
    AttackSettings,
    Configuration,
    Record,
    RecordFile,
    Setting,
    claim_folder,
    distinct,
    scored,
)
from segcertify.sampling.draws import working_device
from segcertify.sampling.sampler import sample
from segcertify.sampling.segmenter import Segmenter, base_labels, given
from segcertify.stats.correction import procedure
from segcertify.votes import Votes


def evaluate(
    model: Segmenter,
    data: DataSet,
    *,
    out: str | os.PathLike[str],
    settings: Sequence[Setting | tuple[float, int, float]],
    noise: str | Callable[[float], Noise] = "gaussian",
    corrections: Sequence[str] = ("holm",),
    n0: int = 10,
    alpha: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    name: str = "",
    precision: str = "fp32",
    attack: AttackSettings | None = None,
    save_votes: bool = False,
    save_pictures: bool = False,
    progress: bool | None = None,
) -> list[Record]:
    """Certify every scene of a data set under every setting; returns the records, which lie in ``out``.

    ``settings`` are (sigma, n, tau); with none, only the base model is
    evaluated. ``noise`` is a key of ``NOISES``, or a function that makes a noise of a
    sigma; Gaussian noise on clouds leaves their normals alone. A model with a method
    ``given`` is told each scene's category. Run again with the same arguments to
    resume; other arguments are refused. An n that can certify nothing is recorded as
    full abstention. ``precision`` may be ``"bf16"`` or ``"fp16"``
    (`segcertify.models.with_precision`). ``attack`` also attacks every scene, for upper
    bounds beside the certified lower ones. ``save_pictures`` keeps each certificate's
    picture in ``out/certified``, of clouds also a page on which they turn.
    """
    card = card_of(model)
    if card is not None and card.classes != data.classes:
        raise InputError(
            f"the model labels {', '.join(card.classes)}, but {data.name} has the classes {', '.join(data.classes)}: "
            "evaluate it on scenes with its classes, in its order"
        )
    claims = distinct(settings)
    noises = {setting.sigma: noise_of(noise, setting.sigma, data) for setting in claims}
    place = working_device(device, model)
    seed = require_integer("seed", seed, at_least=0)
    configuration = Configuration(
        model=name or type(model).__name__,
        weights=weights_digest(model),
        data=data.name,
        classes=data.classes,
        categories=dict(data.categories),
        scenes=scenes_digest(data),
        settings=claims,
        corrections=tuple(procedure(correction).name for correction in corrections),
        n0=require_integer("n0", n0),
        alpha=require_probability("alpha", alpha),
        seed=seed,
        noise=noise if isinstance(noise, str) else str(getattr(noise, "__name__", noise)),
        precision=precision,
        device=place.type,
    )
    model, assault = with_precision(model, precision), None
    if attack is not None:
        threat = next(iter(noises.values()), None) or noise_of(noise, 1.0, data)  # of any scale
        attack = attack.with_radii(
            [float(noises[claim.sigma].radius(claim.tau)) for claim in claims],
            largest=math.pi if threat.norm == "angle" else math.inf,
        )
        assault = Assault(
            attack, threat, noises, classes=len(data.classes), seed=seed, batch_size=batch_size, device=place
        )
        assault.check(model, data[0])
        configuration = replace(configuration, attack=attack)
    if len(data) and not (Path(out) / "config.json").exists():  # found now, what the model refuses leaves no folder
        base_labels(given(model, data[0].category), torch.from_numpy(data[0].x).to(place))
    run = _Run(model, configuration, Path(out), noises=noises, assault=assault, batch_size=batch_size, device=place)
    run.keep_votes, run.keep_pictures = save_votes, save_pictures
    return run.over(data, progress=progress)


class _Run:
    """One evaluation in its folder."""

    keep_votes = keep_pictures = False

    def __init__(
        self,
        model: Segmenter,
        configuration: Configuration,
        out: Path,
        *,
        noises: Mapping[float, Noise],
        assault: Assault | None,
        batch_size: int | None,
        device: torch.device,
    ) -> None:
        self.model, self.configuration, self.out = model, configuration, out
        self.noises, self.assault, self.batch_size, self.device = noises, assault, batch_size, device
        self.names: dict[str, str] = {}
        self.largest: dict[float, int] = {}
        for setting in configuration.settings:
            self.largest[setting.sigma] = max(setting.n, self.largest.get(setting.sigma, 0))
        claim_folder(out, configuration)
        certified = len(configuration.settings) * len(configuration.corrections)
        attacked = assault.per_scene if assault else 0
        self.file = RecordFile(out / "records.jsonl", per_scene=1 + attacked + len(self.largest) + certified)

    def over(self, data: DataSet, *, progress: bool | None) -> list[Record]:
        """The records of all scenes, those already there first."""
        done = self.file.ids
        if done != list(data.ids[: len(done)]):
            raise InputError(f"the records in {self.out} are of other scenes: use another folder")
        self.names = _file_names(data.ids)
        work = sum(self.configuration.n0 + n for n in self.largest.values())
        work += self.assault.work if self.assault else 0
        with progress_bar(len(data) * work, f"{len(data)} scenes", show=progress) as advance:
            advance(len(done) * work)
            self._forget(done)  # killed between writing a scene's records and this
            for index in range(len(done), len(data)):
                self.file.append(self.scene(data[index], data, advance))
                self._forget([data.ids[index]])
        return self.file.records

    def scene(self, scene: Scene, data: DataSet, advance: Advance) -> list[Record]:
        """All records of one scene."""
        model = given(self.model, scene.category)
        start = time.perf_counter()
        prediction = base_labels(model, torch.from_numpy(scene.x).to(self.device))
        seconds = time.perf_counter() - start
        base = replace(scored(scene, "base", prediction, classes=len(data.classes)), sampling_seconds=seconds)
        records = [base, *(self.assault.records(model, scene, base, advance) if self.assault else [])]
        for sigma, n in self.largest.items():
            start = time.perf_counter()
            votes = sample(
                model,
                scene.x,
                noise=self.noises[sigma],
                n=n,
                n0=self.configuration.n0,
                seed=self.configuration.seed,
                batch_size=self.batch_size,
                device=self.device,
                input_id=scene.id,
                prefixes=[s.n for s in self.configuration.settings if s.sigma == sigma],
                checkpoint=self._resume(scene.id, sigma),
                progress=advance,
            )
            seconds = time.perf_counter() - start
            records.append(_radius_record(scene, votes, sigma))
            for setting in self.configuration.settings:
                if setting.sigma == sigma:
                    records += self._certified(scene, votes, setting, data=data, seconds=seconds, prediction=prediction)
            if self.keep_votes:
                votes.save(self.out / "votes" / f"{self.names[scene.id]}-sigma{sigma:g}.safetensors")
        return records

    def _certified(
        self, scene: Scene, votes: Votes, setting: Setting, *, data: DataSet, seconds: float, prediction: IntArray
    ) -> list[Record]:
        """A record for each correction. Sampling time is this n's share of the draws of its sigma."""
        share = (votes.n0 + setting.n) / (votes.n0 + votes.n)
        records = []
        for correction in self.configuration.corrections:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*can certify nothing.*")  # recorded as full abstention
                certificate = certify_votes(
                    votes.at(setting.n), tau=setting.tau, alpha=self.configuration.alpha, correction=correction
                )
            testing = time.perf_counter() - start
            records.append(
                replace(
                    scored(scene, "certified", certificate.labels, classes=len(data.classes)),
                    **asdict(setting),
                    correction=correction,
                    radius=certificate.radius,
                    N=certificate.N,
                    abstained=int(certificate.abstained.sum()),
                    sampling_seconds=seconds * share,
                    testing_seconds=testing,
                )
            )
            if self.keep_pictures:
                stem = f"{self.names[scene.id]}-sigma{setting.sigma:g}-n{setting.n}-tau{setting.tau:g}-{correction}"
                _draw(self.out / "certified" / stem, scene, certificate, data=data, prediction=prediction)
        return records

    def _resume(self, scene_id: str, sigma: float) -> Path:
        return self.out / f"resume-{self.names[scene_id]}-sigma{sigma:g}.safetensors"

    def _forget(self, scene_ids: Sequence[str]) -> None:
        """Delete the checkpoints of scenes whose records are written."""
        for scene_id in scene_ids:
            for sigma in self.largest:
                self._resume(scene_id, sigma).unlink(missing_ok=True)


def _radius_record(scene: Scene, votes: Votes, sigma: float) -> Record:
    """Right candidates by agreement count: the certified accuracy at every radius at once."""
    return Record(
        scene.id,
        "radius",
        components=scene.target.size,
        valid=int(scene.valid.sum()),
        category=scene.category or None,
        sigma=sigma,
        n=votes.n,
        N=votes.N,
        correct=metrics.radius_counts(votes, scene.target, scene.valid).tolist(),
    )


def _draw(stem: Path, scene: Scene, certificate: Certificate, *, data: DataSet, prediction: IntArray) -> None:
    """A certificate's pictures: labels and panels of an image, two views and a page of a cloud."""
    target, colours = np.where(scene.valid, scene.target, -1), data.colours / 255
    if scene.x.ndim == 3:
        save_labels(certificate.labels, f"{stem}.png", colours=colours)
        figure = certified_figure(scene.x, prediction, certificate, target=target, colours=colours, names=data.classes)
        save_figure(figure, f"{stem}-panels.png")
        return
    figure = cloud_figure(scene.x, prediction, certificate, target=target, colours=colours, names=data.classes)
    save_figure(figure, f"{stem}.png")
    save_view(
        f"{stem}.html",
        scene.x,
        certificate,
        prediction=prediction,
        target=target,
        colours=colours,
        names=data.classes,
    )


def _file_names(scene_ids: Sequence[str]) -> dict[str, str]:
    """Scenes' ids as parts of files' names; where some would be the same, a digest keeps them apart."""
    names = {each: "".join(c if c.isalnum() or c in "-_." else "_" for c in each) for each in scene_ids}
    shared = Counter(names.values())
    return {each: name if shared[name] == 1 else f"{name}-{text_digest(each)[:8]}" for each, name in names.items()}
