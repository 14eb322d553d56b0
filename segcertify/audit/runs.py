"""Audits of an evaluation: the certificates of one of its settings, made again from the votes that it kept."""

import os
from collections.abc import Mapping
from typing import Any, Unpack, cast

import torch

from segcertify.audit.certificates import Audit, Finding, Options, audit_certificate
from segcertify.audit.sets import SetFinding, SetOptions, audit_sets
from segcertify.certification import certify_votes
from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.models import with_precision
from segcertify.numerals import exact
from segcertify.records import RunFolder, Setting
from segcertify.sampling.draws import input_digest
from segcertify.sampling.identity import same_identity
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, for_category
from segcertify.sets.exclusion import certify_sets
from segcertify.stats.correction import K_FWER
from segcertify.votes import Votes


def audit_run(
    model: Segmenter, data: DataSet, run: str | os.PathLike[str], *, setting: Setting | None = None,
    correction: str | None = None, sets: bool = False, seed: int | None = None, **options: Unpack[Options],
) -> Audit:  # fmt: skip
    """Audit the certificates of an evaluation that kept its votes (``save_votes``), for every scene of ``data``.

    ``setting`` and ``correction`` are the run's first by default; each is a claim of
    its own. With ``sets`` the sets of a run that has them are audited instead of its labels
    (`segcertify.audit.sets.audit_sets`). ``data`` may be a part of the run's. A network with other weights, and
    scenes with other inputs, are refused. The options are those of `audit_certificate`.
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
    files = {Votes.load(path).input_id: path for path in RunFolder(run).all_votes(setting.sigma)}
    missing = [scene_id for scene_id in data.ids if scene_id not in files]
    if missing or not len(data):
        raise InputError(
            f"{run} has no votes of {len(missing)} of {len(data)} scenes ({', '.join(missing[:3])}) at sigma="
            f"{setting.sigma:g}: choose the scenes as the run did (--every, --limit), or evaluate again with --votes"
        )
    if sets and not configuration["sets"]:
        raise InputError(f"{run} has no sets: evaluate again with --sets and --votes, or audit its labels")
    model = with_precision(model, configuration["precision"])
    seed = seed_of_run(seed).value
    findings: list[Finding | SetFinding] = []
    for scene in data:
        votes = Votes.load(files[scene.id])
        if (votes.input_digest, votes.input_shape) != (input_digest(torch.from_numpy(scene.x)), scene.x.shape):
            raise InputError(f"scene {scene.id!r} is not the input that {run} certified: give the same data")
        own = for_category(model, scene.category)
        if sets:
            found = certify_sets(votes.at(setting.n), tau=setting.tau, alpha=configuration["alpha"])
            findings.append(
                audit_sets(own, scene.x, found, preprocessing=scene.preprocessing, seed=seed, **_for_sets(options))
            )
            continue
        if votes.looks != _looks(configuration, setting):
            raise InputError(f"the votes of scene {scene.id!r} have looks {votes.looks}, which {run} does not have")
        certificate = certify_votes(
            votes if votes.looks else votes.at(setting.n),
            tau=setting.tau,
            alpha=configuration["alpha"],
            correction=correction,
            k=configuration["k"] if correction == K_FWER else None,
        )
        finding = audit_certificate(own, scene.x, certificate, preprocessing=scene.preprocessing, seed=seed, **options)
        findings.append(finding)
    return Audit(tuple(findings))


def _for_sets(options: Options) -> SetOptions:
    """Those options that an audit of sets has: it makes no attacks of its own."""
    names = ("n", "directions", "level", "batch_size", "device", "progress")
    return cast(SetOptions, {name: options[name] for name in names if name in options})  # type: ignore[literal-required]


def _looks(configuration: Mapping[str, Any], setting: Setting) -> tuple[int, ...]:
    """The times of the looks of a setting; none if the run has none."""
    found = configuration["looks"]
    return () if found is None else tuple(found["times"][exact(setting.sigma)])
