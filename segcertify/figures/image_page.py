"""The page of a certified image: overlays on the photograph, a radius to choose, and what is claimed, in one file.

There are only n + 1 different agreement counts. So the page holds each pixel's candidate label and count, and a table
of the radius that each count proves; whatever a slider changes is a look-up.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from PIL import Image

from segcertify.arrays import Array, FloatArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.certification import radii_of_counts
from segcertify.claims import not_promised
from segcertify.errors import InputError
from segcertify.figures.page import built, encoded, packed
from segcertify.figures.palette import Colours
from segcertify.figures.panels import as_rgb, class_colours
from segcertify.names import visible
from segcertify.noise import described
from segcertify.numerals import confidence, exact, percent, radius_text
from segcertify.plain_words import AGAIN
from segcertify.preprocessing import file_radius
from segcertify.radii import RadiusMap
from segcertify.sets.certificate import SetCertificate
from segcertify.stats.correction import K_FWER, procedure
from segcertify.stats.pilotless import SUPPORTED, label_threshold
from segcertify.storage.atomic import write_text
from segcertify.votes import Votes, seed_text

EXPLORED_TAUS = tuple(round(0.5 + step / 100, 2) for step in range(50))
EXPLORED_ALPHAS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4, 1e-5, 1e-6)
"""Where the page's sliders stop, besides the claim's own tau and alpha."""

PNG_PIXELS = 2**17
"""Up to so many pixels a photograph is kept without loss; a larger one as a JPEG."""


def save_page(
    path: str | os.PathLike[str], x: Array, certificate: Certificate, votes: Votes, *,
    prediction: IntArray | None = None, target: IntArray | None = None, sets: SetCertificate | None = None,
    colours: Colours | None = None, names: Sequence[str] = (), audit: str = "",
) -> None:  # fmt: skip
    """Write one HTML file, which needs no other, to look at a certified image.

    ``x`` is the image (3, height, width) in [0, 1] that the noise went on; ``votes`` are those that ``certificate`` is
    of. The radii are those of `segcertify.radius_map` at the certificate's alpha: a claim of its own, for all radii
    at once. Also ``prediction``, the base model's labels without noise; ``target``, the ground truth, negative where
    it is ignored; a certificate of ``sets``; ``names`` and ``colours`` of the classes; and the command of an ``audit``.
    """
    _require_same(x, certificate, votes)
    maps = {"candidate": votes.candidate, "certified": certificate.labels, "prediction": prediction, "target": target}
    given = {key: _labels(key, each, certificate.labels.shape) for key, each in maps.items() if each is not None}
    if sets is not None and sets.labels.shape != certificate.labels.shape:
        raise InputError(f"sets must have the shape {certificate.labels.shape}, but have {sets.labels.shape}")
    found = RadiusMap.of(votes, alpha=certificate.alpha, norm=certificate.norm)
    table = _radii(certificate, votes)
    shown = _Classes.of(given, sets, colours, names)
    data = {
        "title": visible(certificate.input_id),
        "size": list(certificate.labels.shape),
        "photo": _photograph(x),
        "parts": [{"name": visible(n), "colour": c} for n, c in zip(shown.names, shown.colours, strict=True)],
        "labels": {key: packed(shown.indices(each), len(shown.names)) for key, each in given.items()},
        "agree": packed(votes.agree, votes.n),
        "tested": None if votes.mask is None else packed(votes.mask, 1),
        "n": votes.n,
        "N": votes.N,
        "levels": _levels(found, votes, table),
        "least": int(np.argmax(table > 0)),
        "needed": _needed(certificate, votes),
        "looks": bool(votes.looks),
        "explore": _explored(certificate, votes),
        "sets": None if sets is None else _sets(sets, shown),
        **_words(certificate, found, sets),
        "facts": _facts(certificate),
        "audit": visible(audit),
    }
    write_text(path, built("image", data))


@dataclass(frozen=True)
class _Classes:
    """The classes that occur, by their numbers, with names and colours."""

    numbers: IntArray
    names: list[str]
    colours: list[str]

    @classmethod
    def of(
        cls, maps: Mapping[str, IntArray], sets: SetCertificate | None, colours: Colours | None, names: Sequence[str]
    ) -> "_Classes":
        """Those of some label maps, and all that a certificate of sets is about."""
        every = [np.unique(each) for each in maps.values()] + ([] if sets is None else [np.arange(len(sets.sets))])
        numbers = np.unique(np.concatenate(every))
        numbers = numbers[numbers >= 0]
        table = class_colours([numbers], colours)
        if len(table) <= numbers.max():
            raise InputError(f"colours must be of at least {numbers.max() + 1} classes, but are of {len(table)}")
        named = [names[number] if number < len(names) else f"class {number}" for number in numbers]
        return cls(numbers, named, [to_hex(row) for row in table[numbers]])

    def indices(self, labels: IntArray) -> IntArray:
        """Each label's place among the classes; the place after the last where there is none."""
        return np.where(labels < 0, len(self.numbers), np.searchsorted(self.numbers, labels))


def _require_same(x: Array, certificate: Certificate, votes: Votes) -> None:
    """The image, the votes and the certificate belong together."""
    shape = certificate.labels.shape
    if x.ndim != 3 or x.shape[0] not in (1, 3) or x.shape[1:] != shape:
        raise InputError(f"the image of labels {shape} must have the shape (3, *{shape}), but has {x.shape}")
    if votes.candidate.shape != shape or (votes.n, votes.n0, votes.N) != (certificate.n, certificate.n0, certificate.N):
        raise InputError("these votes are not the certificate's: their shape or numbers of draws differ")
    certified = ~certificate.abstained
    if not np.array_equal(certificate.labels[certified], votes.candidate[certified]):
        raise InputError("these votes are not the certificate's: their labels differ")


def _labels(key: str, labels: IntArray, shape: tuple[int, ...]) -> IntArray:
    if labels.shape != shape or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{key} labels must be integers of shape {shape}, but are {labels.dtype} {labels.shape}")
    return labels


def _photograph(x: Array) -> dict[str, str]:
    """The image as a small file: without loss if it is small, else as a JPEG."""
    image = Image.fromarray(np.rint(255 * as_rgb(np.broadcast_to(x, (3, *x.shape[1:])))).astype(np.uint8))
    kind, options = ("PNG", {"optimize": True}) if image.width * image.height <= PNG_PIXELS else ("JPEG", {})
    image.save(content := io.BytesIO(), format=kind, **({"quality": 88} if kind == "JPEG" else options))
    return {"type": f"image/{kind.lower()}", "bytes": encoded(np.frombuffer(content.getvalue(), np.uint8), "u1")}


def _radii(certificate: Certificate, votes: Votes) -> FloatArray:
    """The radius of each count k = 0 .. n, rounded as in `RadiusMap`; none where the noise has no proof."""
    if not certificate.claimed.proven:
        return np.zeros(votes.n + 1)
    table = radii_of_counts(votes, alpha=certificate.alpha, norm=certificate.norm)
    return np.nextafter(table.astype(np.float32), np.float32(0)).astype(float)


def _levels(found: RadiusMap, votes: Votes, table: FloatArray) -> list[dict[str, Any]]:
    """The radii of the counts that occur, where they are above 0, rising, with their texts and colours."""
    shown, counts = colormaps["viridis"], np.flatnonzero(votes.histogram())
    return [
        {
            "count": int(count),
            "radius": float(table[count]),
            "text": radius_text(float(table[count]), 4),
            "file": _in_file(found, float(table[count])),
            "colour": to_hex(shown(table[count] / found.radius)),
        }
        for count in counts
        if table[count] > 0
    ]


def _in_file(claim: Certificate | RadiusMap, radius: float) -> str:
    """A radius in the pixels of the file, where that is another number and known."""
    inside = None if claim.file_radius is None else file_radius(radius, claim.norm, claim.preprocessing)
    return "" if inside is None else radius_text(inside, 4)


def _needed(certificate: Certificate, votes: Votes) -> int | None:
    """The smallest count that is certified, n + 1 if none; None where no single count decides."""
    if votes.looks or certificate.guarantee == "custom":
        return None
    chosen = procedure(certificate.correction, k=certificate.k if certificate.correction == K_FWER else None)
    return label_threshold(
        votes.histogram(), n=votes.n, tau=certificate.tau, alpha=certificate.alpha, chosen=chosen, pilot=votes.n0 > 0
    )


def _explored(certificate: Certificate, votes: Votes) -> dict[str, Any] | None:
    """The settings that the page computes thresholds for, and the claim's own; None where it cannot."""
    if votes.looks or not votes.n0 or certificate.correction not in SUPPORTED or not certificate.claimed.proven:
        return None
    taus = sorted({*EXPLORED_TAUS, certificate.tau})
    radii = [float(certificate.noise.radius(tau, certificate.norm, votes.input_shape)) for tau in taus]
    return {
        "taus": [
            {"value": tau, "text": exact(tau), "radius": radius_text(radius, 4), "file": _in_file(certificate, radius)}
            for tau, radius in zip(taus, radii, strict=True)
        ],
        "alphas": [
            {"value": alpha, "text": exact(alpha)} for alpha in sorted({*EXPLORED_ALPHAS, certificate.alpha})[::-1]
        ],
        "corrections": [*SUPPORTED],
        "claim": {"tau": certificate.tau, "alpha": certificate.alpha, "correction": certificate.correction},
    }


def _sets(sets: SetCertificate, shown: _Classes) -> dict[str, Any]:
    """Which set each pixel has, of those that occur, and the classes in each."""
    key = np.zeros(sets.labels.size, np.int64)
    for start in range(0, len(sets.sets), 24):
        weights = [(inside.ravel(), bit) for bit, inside in enumerate(sets.sets[start : start + 24])]
        bits = sum((inside.astype(np.int64) << bit for inside, bit in weights), np.zeros_like(key))
        key = np.unique((key << 24) | bits, return_inverse=True)[1].ravel()
    _, first = np.unique(key, return_index=True)
    members = sets.sets.reshape(len(sets.sets), -1)[:, first].T
    numbered = shown.indices(np.arange(len(sets.sets)))
    return {
        "index": packed(key, len(first)),
        "members": [numbered[inside].tolist() for inside in members],
        "certified": packed((sets.labels != ABSTAIN), 1),
        "excludes": sets.excludes,
    }


def _words(certificate: Certificate, found: RadiusMap, sets: SetCertificate | None) -> dict[str, Any]:
    """All sentences about the claims."""
    claimed, word, labelled = certificate.claimed, certificate.word, certificate.certified
    return {
        "heading": f"{word.capitalize()} image",
        "word": word,
        "share": f"{labelled:,} of {certificate.N:,} pixels {word} ({percent(labelled / certificate.N)})",
        "sentence": certificate.sentence,
        "threat": claimed.threat,
        "claim": certificate.claim,
        "radius": {
            "value": certificate.radius, "text": radius_text(certificate.radius, 4),
            "file": _in_file(certificate, certificate.radius),
            "dot": max(0, labelled - claimed.budget) / certificate.N if claimed.certifies else None,
        },
        "map": found.claim if claimed.proven else "",
        "of_sets": "" if sets is None else sets.claim,
        "not_promised": _not_promised(certificate, sets),
    }  # fmt: skip


def _not_promised(certificate: Certificate, sets: SetCertificate | None) -> list[str]:
    """What a reader could take the page to say, and it does not."""
    claimed = certificate.claimed
    if not claimed.proven:
        return ["No radius is proven for this noise: the labels are not certified."]
    claims = 2 + (sets is not None)
    together = confidence(certificate.alpha, claims)
    said = (
        f"Each of the {claims} claims of this page (labels, radius map{', sets' if claims == 3 else ''}) holds with "
        f"probability at least 1 - {exact(certificate.alpha)} by itself, all with at least {together}."
    )
    return [
        *not_promised([claimed]),
        "Anything where it abstains. An abstention does not say that an attack exists.",
        f"Anything about changes beyond R in {claimed.threat}, such as a turn or a blur of the whole picture.",
        "Anything about the model without noise, whose labels are shown for comparison. The claims are about the most "
        "likely label under noise.",
        *([AGAIN] if claimed.family_wise else []),
        said if claimed.family_wise else "That the labels and the radius map hold together: they are two claims.",
    ]


def _facts(certificate: Certificate) -> dict[str, str]:
    """Where the certificate comes from."""
    model = dict(certificate.model)
    own = dict(model.get("settings", {}).get("", {}))
    name = next((str(each) for each in (model.get("name"), own.get("class"), *model.get("classes", [])) if each), "")
    weights, seed = model.get("weights") or model.get("answers") or "", seed_text(certificate.seed)
    shape = " x ".join(map(str, certificate.input_shape or ()))
    drawn = "given" if certificate.seed_given else "from the operating system"
    facts = {
        "model": f"{name} {weights}".strip(),
        "input": f"{certificate.input_id} ({shape})" if shape else certificate.input_id,
        "input digest": certificate.input_digest,
        "pre-processing": certificate.units,
        "noise": described(certificate.noise),
        "draws": f"n0 = {certificate.n0:,}, n = {certificate.n:,}",
        "level": f"tau = {exact(certificate.tau)}, alpha = {exact(certificate.alpha)}, {certificate.correction}",
        "seed": f"{seed} ({drawn})" if certificate.seed is not None else "",
        "version": f"segcertify {certificate.version}",
        "date": certificate.date,
        "command": certificate.command,
    }
    return {key: visible(text) for key, text in facts.items() if text}
