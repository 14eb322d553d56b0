"""`segcertify show`: what a certificate or a votes file is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.certificate import Certificate
from segcertify.cli import options as opt
from segcertify.cli.metric_certificates import metric_facts, metric_values
from segcertify.cli.printing import Printer, certificate_facts, certificate_values, seed_fact
from segcertify.cli.radius_maps import map_facts, map_values
from segcertify.cli.set_certificates import sets_facts, sets_values
from segcertify.errors import InputError
from segcertify.metrics.certificate import MetricCertificate
from segcertify.noise.names import described
from segcertify.preprocessing import in_words
from segcertify.radii import RadiusMap
from segcertify.sets.certificate import SetCertificate
from segcertify.storage import archive
from segcertify.votes import Votes

if TYPE_CHECKING:
    from segcertify.cli.printing import AnyCertificate

READERS: dict[
    str, type[Certificate] | type[MetricCertificate] | type[SetCertificate] | type[RadiusMap] | type[Votes]
] = {
    "segcertify.certificate": Certificate,
    "segcertify.metric-certificate": MetricCertificate,
    "segcertify.sets": SetCertificate,
    "segcertify.radius-map": RadiusMap,
    "segcertify.votes": Votes,
}
"""What reads a file, by the format that it says it has."""


def show(
    file: Annotated[
        Path, typer.Argument(help="A certificate's file, of labels, of sets or of a metric, or a file of votes.")
    ],
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print what a certificate claims and what it is about: model, input, noise, seed and origin. Also for votes.

    A file that was changed or damaged after it was written is refused.
    """
    printer = Printer(json, quiet)
    content = archive.read_content(file)
    if content.format not in READERS:
        raise InputError(f"{file} holds {content.format!r}: show is for certificates and for votes")
    found = READERS[content.format].load(file)
    old = content.digest is None
    origin = f"unknown (format version {content.version} did not say it)" if old else "unknown (made elsewhere)"
    checked = f"the content agrees with its digest {content.digest}"
    integrity = {
        "integrity": f"not checked: format version {content.version} has no digest" if old else checked,
        "format": f"{content.format}, version {content.version}",
    }
    if isinstance(found, MetricCertificate):
        printer.claim(found)
        printer.facts(metric_facts(found) | _about(found, origin) | _made(found, origin) | integrity)
        values = metric_values(found)
    elif isinstance(found, Certificate):
        printer.claim(found)
        printer.facts(certificate_facts(found) | _about(found, origin) | _made(found, origin) | integrity)
        values = certificate_values(found)
    elif isinstance(found, SetCertificate):
        printer.claim(found)
        printer.facts(sets_facts(found) | _about(found, origin) | _made(found, origin) | integrity)
        values = sets_values(found)
    elif isinstance(found, RadiusMap):
        printer.claim(found)
        printer.facts(map_facts(found) | _about(found, origin) | _made(found, origin) | integrity)
        values = map_values(found)
    else:
        printer.say("Votes claim nothing by themselves: segcertify.certify_votes(votes, tau=..., alpha=...) certifies.")
        printer.facts(_about(found, origin) | {"components": f"{found.N:,}", "draws": _draws(found)} | integrity)
        values = _votes_values(found)
    printer.result(**values, digest=content.digest, format=content.format, format_version=content.version)


def _about(found: AnyCertificate | Votes, unknown: str) -> dict[str, str]:
    """The model, the input, what was done to it, and the noise."""
    shape = "unknown" if found.input_shape is None else " x ".join(map(str, found.input_shape))
    known = f"{found.input_id!r} of shape {shape}, digest {found.input_digest}"
    return {
        "model": _model(found.model) or unknown,
        "input": known if found.input_digest else f"{found.input_id!r} of shape {shape}, digest {unknown}",
        "pre-processing": (in_words(found.preprocessing) if isinstance(found, Votes) else found.units)
        or ("none stated" if found.input_digest and found.model else unknown),
        "noise": described(found.noise),
        "seed": seed_fact(found),
    }


def _model(model: Mapping[str, Any]) -> str:
    """A model's description in a line: its name, a digest, and its own settings. JSON has those of all its modules."""
    if not model:
        return ""
    own = dict(model.get("settings", {}).get("", {}))
    names = (model.get("name"), own.pop("class", None), *model.get("classes", []))
    name = next((each for each in names if each), "a model")
    known = f"weights {model['weights']}" if model.get("weights") else f"answers {model.get('answers', 'unknown')}"
    return ", ".join([name, known, *(f"{key} = {value}" for key, value in own.items())])


def _draws(votes: Votes) -> str:
    ranges = ", ".join(f"{start} .. {stop - 1}" for start, stop in votes.draws)
    return f"n0 = {votes.n0:,} chose the labels, n = {votes.n:,} tested them (indices {ranges})"


def _made(certificate: AnyCertificate, unknown: str) -> dict[str, str]:
    return {
        "version": f"segcertify {certificate.version}" if certificate.version else unknown,
        "date": certificate.date or unknown,
        "command": certificate.command or (unknown if not certificate.version else "none: made in Python"),
    }


def _votes_values(votes: Votes) -> dict[str, Any]:
    """Votes without their counts, for JSON."""
    names = (
        "n0",
        "n",
        "N",
        "draws",
        "seed",
        "seed_given",
        "input_id",
        "input_shape",
        "input_digest",
        "model",
        "preprocessing",
    )
    return {name: getattr(votes, name) for name in names} | {"noise": described(votes.noise)}
