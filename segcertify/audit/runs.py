"""Audits of an evaluation: the certificates of one of its settings, made again from the votes that it kept."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import torch

from segcertify.audit.certificates import Audit, Effort, Finding, Options, audit_certificate
from segcertify.audit.metrics import MetricFinding, audit_metric
from segcertify.audit.sets import SetFinding, SetOptions, audit_sets
from segcertify.certification import certify_votes
from segcertify.data import DataSet, Scene
from segcertify.errors import InputError, unknown
from segcertify.metrics.certificate import MetricCertificate
from segcertify.metrics.map_metrics import metric_name
from segcertify.metrics.names import parse
from segcertify.metrics.scores import from_plain
from segcertify.models import with_precision
from segcertify.numerals import exact
from segcertify.records import RunFolder, Setting
from segcertify.sampling.identity import same_identity
from segcertify.sampling.inputs import input_digest, working_device
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category
from segcertify.sampling.shared import alone
from segcertify.sets.exclusion import certify_sets
from segcertify.stats.correction import K_FWER
from segcertify.votes import Votes

Kind = Callable[[Segmenter, Scene, Votes], Finding | SetFinding | MetricFinding]
"""Audits one claim about a scene, with the model of its category and the votes that the run kept."""


def audit_run(
    model: Segmenter, data: DataSet, run: str | os.PathLike[str], *, setting: Setting | None = None,
    correction: str | None = None, sets: bool = False, metric: str | None = None, radius: float | None = None,
    seed: int | None = None, **options: Unpack[Options],
) -> Audit:  # fmt: skip
    """Audit the certificates of an evaluation that kept its votes (``save_votes``), for every scene of ``data``.

    ``setting`` and ``correction`` are the run's first by default; each is a claim of
    its own. With ``sets`` the sets of a run that has them are audited instead of its labels
    (`segcertify.audit.sets.audit_sets`). With ``metric``, one of the run's by name, its bounds are, within ``radius``:
    by default the first that the run states (`segcertify.audit.metrics.audit_metric`). ``data`` may be a part of the
    run's. A network with other weights, and scenes with other inputs, are refused. The options are those of
    `audit_certificate`.
    """
    configuration = RunFolder(run).configuration()
    if not same_identity(model, configuration["identity"]):
        raise InputError(
            f"the model is not the one that {run} certified ({configuration['model']}), or the run is of an earlier "
            "segcertify: give that model, or evaluate it again"
        )
    known = [Setting(**values) for values in configuration["settings"]]
    if not known or (setting is not None and setting not in known):
        raise InputError(f"the run has no setting {setting}, only {known}: audit one of these")
    setting = setting or known[0]
    correction = correction or configuration["corrections"][0]
    if correction not in configuration["corrections"]:
        raise InputError(f"the run has no correction {correction!r}, only {', '.join(configuration['corrections'])}")
    if radius is not None and metric is None:
        raise InputError(f"the radius {radius:g} is for a metric, but none is named: the radius of labels is the run's")
    if sets and metric is not None:
        raise InputError("audit the sets or a metric: each is a claim of its own")
    about = _About(run, configuration, setting, seed_of_run(seed).value, options)
    one = about.sets() if sets else about.labels(correction) if metric is None else about.metric(metric, radius)
    files = about.votes(data)
    model = with_precision(model, configuration["precision"])
    findings = []
    for scene in data:
        votes = Votes.load(files[scene.id])
        if (votes.input_digest, votes.input_shape) != (input_digest(torch.from_numpy(scene.x)), scene.x.shape):
            raise InputError(f"scene {scene.id!r} is not the input that {run} certified: give the same data")
        findings.append(one(for_category(model, scene.category), scene, votes))
    return Audit(tuple(findings))


@dataclass(frozen=True, eq=False)
class _About:
    """A setting of a run, and how its claims are audited."""

    run: str | os.PathLike[str]
    configuration: Mapping[str, Any]
    setting: Setting
    seed: int
    options: Options

    def votes(self, data: DataSet) -> dict[str, Path]:
        """The files with the votes of the setting, by scene. Raises `InputError` if one is missing."""
        files = {Votes.load(path).input_id: path for path in RunFolder(self.run).all_votes(self.setting.sigma)}
        missing = [scene_id for scene_id in data.ids if scene_id not in files]
        if missing or not len(data):
            raise InputError(
                f"{self.run} has no votes of {len(missing)} of {len(data)} scenes ({', '.join(missing[:3])}) at sigma="
                f"{self.setting.sigma:g}: choose the scenes as the run did (--every, --limit), or evaluate again with "
                "--votes"
            )
        return files

    def labels(self, correction: str) -> Kind:
        """Audits the certified labels."""
        k, looks = self.configuration["k"] if correction == K_FWER else None, self._looks()

        def audited(model: Segmenter, scene: Scene, votes: Votes) -> Finding:
            if votes.looks != looks:
                raise InputError(
                    f"the votes of scene {scene.id!r} have looks {votes.looks}, which {self.run} does not have"
                )
            counted = votes if votes.looks else votes.at(self.setting.n)
            certificate = certify_votes(
                counted, tau=self.setting.tau, alpha=self.configuration["alpha"], correction=correction, k=k
            )
            return audit_certificate(
                model, scene.x, certificate, preprocessing=scene.preprocessing, seed=self.seed,
                **self._options(scene),
            )  # fmt: skip

        return audited

    def sets(self) -> Kind:
        """Audits the sets, without attacks of its own."""
        if not self.configuration["sets"]:
            raise InputError(f"{self.run} has no sets: evaluate again with --sets and --votes, or audit its labels")
        names = ("n", "directions", "level", "batch_size", "device", "progress", "smoothing")

        def audited(model: Segmenter, scene: Scene, votes: Votes) -> SetFinding:
            found = certify_sets(votes.at(self.setting.n), tau=self.setting.tau, alpha=self.configuration["alpha"])
            options = cast(SetOptions, {key: each for key, each in self._options(scene).items() if key in names})
            return audit_sets(model, scene.x, found, preprocessing=scene.preprocessing, seed=self.seed, **options)

        return audited

    def metric(self, text: str, radius: float | None) -> Kind:
        """Audits the bounds on a metric of noisy runs, whose values the run's records hold."""
        measured, sigma = self.configuration["metrics"], self.setting.sigma
        if measured is None:
            raise InputError(
                f"{self.run} has no metrics: evaluate again with --metric and --votes, or audit its labels"
            )
        if text not in measured["names"]:
            raise unknown("metric of this run", text, measured["names"])
        name = parse(text, self.configuration["classes"])
        records = RunFolder(self.run).records()
        values = {each.id: each.values for each in records if (each.metric, each.sigma) == (text, sigma)}
        truth = {each.id: each.confusion for each in records if each.kind == "base"}

        def audited(model: Segmenter, scene: Scene, votes: Votes) -> MetricFinding:
            if scene.id not in values:
                raise InputError(
                    f"{self.run} has no record of scene {scene.id!r} yet: finish the evaluation with the same command, "
                    "or choose scenes that are done (--limit)"
                )
            if name.needs_target and not _same_truth(scene, truth.get(scene.id)):
                raise InputError(
                    f"the ground truth of scene {scene.id!r} is not what {self.run} measured: give its data"
                )
            x = torch.from_numpy(scene.x).to(working_device(self.options.get("device"), model))
            made = name.made(target=scene.labels, shown=base_labels(model, x))
            stated = measured["radii"] or [float(votes.noise.radius(self.setting.tau))]
            if radius not in (None, *stated):
                raise InputError(f"{self.run} states bounds within the radii {stated}, but got {radius}: audit these")
            certificate = MetricCertificate(
                metric_name(made), np.array(values[scene.id])[: self.setting.n], radius or stated[0],
                measured["share"], self.configuration["alpha"], votes.noise, two_sided=made.two_sided,
                metric_digest=made.digest, **votes.provenance,
            )  # fmt: skip
            options = cast(Effort, {key: each for key, each in self._options(scene).items() if key != "weakest"})
            return audit_metric(
                model, scene.x, certificate, made, target=scene.labels, preprocessing=scene.preprocessing,
                seed=self.seed, **options,
            )  # fmt: skip

        return audited

    def _options(self, scene: Scene) -> Options:
        """The options for a scene, whose category workers bind themselves."""
        return {**self.options, "smoothing": partial(self.options.get("smoothing", alone), category=scene.category)}

    def _looks(self) -> tuple[int, ...]:
        """The times of the looks of the setting; none if the run has none."""
        found = self.configuration["looks"]
        return () if found is None else tuple(found["times"][exact(self.setting.sigma)])


def _same_truth(scene: Scene, confusion: Mapping[str, Any] | None) -> bool:
    """Whether a scene has as many components of each class as when its base labels were scored."""
    matrix = from_plain(confusion or {})
    found = np.bincount(scene.target[scene.valid].ravel(), minlength=len(matrix))
    return np.array_equal(found, matrix.sum(1))
