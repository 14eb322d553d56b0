"""The panel beside the picture on the pages of images and of clouds: what it says, and what its sliders look up.

There are only n + 1 different agreement counts. So a page holds each component's candidate label and count, and a
table of the radius that each count proves; whatever a slider changes is a look-up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from segcertify.arrays import FloatArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.certification import radii_of_counts
from segcertify.claims import not_promised
from segcertify.errors import InputError
from segcertify.figures.page import packed
from segcertify.figures.palette import Colours
from segcertify.names import visible
from segcertify.noise import described
from segcertify.numerals import confidence, exact, percent, radius_text
from segcertify.plain_words import AGAIN
from segcertify.preprocessing import file_radius
from segcertify.radii import RadiusMap
from segcertify.sets.certificate import SetCertificate
from segcertify.stats.correction import K_FWER, procedure
from segcertify.stats.pilotless import SUPPORTED, label_threshold
from segcertify.votes import Votes, seed_text

EXPLORED_TAUS = tuple(round(0.5 + step / 100, 2) for step in range(50))
EXPLORED_ALPHAS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4, 1e-5, 1e-6)
"""Where the page's sliders stop, besides the claim's own tau and alpha."""


_BEYOND = {
    "image": "a turn or a blur of the whole picture",
    "cloud": "a turn of the whole cloud, or points that are added or left out",
    "rotation": "points that move by themselves",
}


def panel(
    certificate: Certificate, votes: Votes, *, what: str, unit: str, coloured: Callable[[IntArray], Colours],
    names: Sequence[str] = (), prediction: IntArray | None = None, target: IntArray | None = None,
    attacked: Mapping[str, IntArray] | None = None, sets: SetCertificate | None = None, audit: str = "",
) -> dict[str, Any]:  # fmt: skip
    """The data of the panel, and each component's labels and count.

    ``votes`` are those that ``certificate`` is of. The radii are those of `segcertify.radius_map` at the certificate's
    alpha: a claim of its own, for all radii at once. ``what`` and ``unit`` say what is shown, ``"image"`` and
    ``"pixels"``; ``coloured`` gives the colours of some class numbers.
    ``attacked`` are labels of attacked inputs, by what a reader is told of them.
    """
    _require_same(certificate, votes)
    maps = {"candidate": votes.candidate, "certified": certificate.labels, "prediction": prediction, "target": target}
    maps |= {f"attacked-{place}": each for place, each in enumerate((attacked or {}).values())}
    given = {key: _labels(key, each, certificate.labels.shape) for key, each in maps.items() if each is not None}
    if sets is not None and sets.labels.shape != certificate.labels.shape:
        raise InputError(f"sets must have the shape {certificate.labels.shape}, but have {sets.labels.shape}")
    found = RadiusMap.of(votes, alpha=certificate.alpha, norm=certificate.norm)
    table = _radii(certificate, votes)
    shown = _Classes.of(given, sets, coloured, names)
    return {
        "title": visible(certificate.input_id),
        "unit": unit,
        "parts": [{"name": visible(n), "colour": c} for n, c in zip(shown.names, shown.colours, strict=True)],
        "labels": {key: packed(shown.indices(each), len(shown.names)) for key, each in given.items()},
        "attacked": {f"attacked-{place}": visible(said) for place, said in enumerate(attacked or {})},
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
        **_words(certificate, found, sets, what=what, unit=unit),
        "facts": _facts(certificate),
        "audit": visible(audit),
    }


@dataclass(frozen=True)
class _Classes:
    """The classes that occur, by their numbers, with names and colours."""

    numbers: IntArray
    names: list[str]
    colours: list[str]

    @classmethod
    def of(
        cls, maps: Mapping[str, IntArray], sets: SetCertificate | None, coloured: Callable[[IntArray], Colours],
        names: Sequence[str],
    ) -> "_Classes":  # fmt: skip
        """Those of some label maps, and all that a certificate of sets is about."""
        every = [np.unique(each) for each in maps.values()] + ([] if sets is None else [np.arange(len(sets.sets))])
        numbers = np.unique(np.concatenate(every))
        numbers = numbers[numbers >= 0]
        named = [names[number] if number < len(names) else f"class {number}" for number in numbers]
        return cls(numbers, named, [to_hex(row) for row in coloured(numbers)])

    def indices(self, labels: IntArray) -> IntArray:
        """Each label's place among the classes; the place after the last where there is none."""
        return np.where(labels < 0, len(self.numbers), np.searchsorted(self.numbers, labels))


def _require_same(certificate: Certificate, votes: Votes) -> None:
    """The votes and the certificate belong together."""
    shape = certificate.labels.shape
    if votes.candidate.shape != shape or (votes.n, votes.n0, votes.N) != (certificate.n, certificate.n0, certificate.N):
        raise InputError("these votes are not the certificate's: their shape or numbers of draws differ")
    certified = ~certificate.abstained
    if not np.array_equal(certificate.labels[certified], votes.candidate[certified]):
        raise InputError("these votes are not the certificate's: their labels differ")


def _labels(key: str, labels: IntArray, shape: tuple[int, ...]) -> IntArray:
    if labels.shape != shape or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{key} labels must be integers of shape {shape}, but are {labels.dtype} {labels.shape}")
    return labels


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


def _words(
    certificate: Certificate, found: RadiusMap, sets: SetCertificate | None, *, what: str, unit: str
) -> dict[str, Any]:
    """All sentences about the claims."""
    claimed, word, labelled = certificate.claimed, certificate.word, certificate.certified
    return {
        "heading": f"{word.capitalize()} {what}",
        "word": word,
        "share": f"{labelled:,} of {certificate.N:,} {unit} {word} ({percent(labelled / certificate.N)})",
        "sentence": certificate.sentence,
        "axis": f"{certificate.norm} norm" if certificate.noise.additive else "radians",
        "claim": certificate.claim,
        "radius": {
            "value": certificate.radius, "text": radius_text(certificate.radius, 4),
            "file": _in_file(certificate, certificate.radius),
            "dot": max(0, labelled - claimed.budget) / certificate.N if claimed.certifies else None,
        },
        "map": found.claim if claimed.proven else "",
        "of_sets": "" if sets is None else sets.claim,
        "not_promised": _not_promised(certificate, sets, what),
    }  # fmt: skip


def _not_promised(certificate: Certificate, sets: SetCertificate | None, what: str) -> list[str]:
    """What a reader could take the page to say, and it does not."""
    claimed = certificate.claimed
    if not claimed.proven:
        return ["No radius is proven for this noise: the labels are not certified."]
    claims, beyond = 2 + (sets is not None), _BEYOND[what if certificate.noise.additive else "rotation"]
    together = confidence(certificate.alpha, claims)
    said = (
        f"Each of the {claims} claims of this page (labels, radius map{', sets' if claims == 3 else ''}) holds with "
        f"probability at least 1 - {exact(certificate.alpha)} by itself, all with at least {together}."
    )
    return [
        *not_promised([claimed]),
        "Anything where it abstains. An abstention does not say that an attack exists.",
        f"Anything about changes beyond R in {claimed.threat}, such as {beyond}.",
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
