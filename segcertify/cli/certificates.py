"""The certificates in a folder: several claims about the same votes lie side by side, and none is overwritten."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate
from segcertify.cli.printing import Printer
from segcertify.errors import InputError
from segcertify.metrics.scores import abstention, confusion, mislabelled, worst_case_accuracy
from segcertify.numerals import exact, lower_percent, percent
from segcertify.stats.correction import Procedure
from segcertify.storage import archive

VOTES = "votes.safetensors"
_FIRST = "certificate"


@dataclass(frozen=True)
class Claimed:
    """What is claimed of votes: all that two certificates of the same votes can differ in."""

    tau: float
    alpha: float
    procedure: Procedure
    norm: str

    def file(self, folder: Path) -> Path:
        """Where its certificate goes. The first claim's is ``certificate.safetensors``; others say theirs by name.

        Raises `InputError` if a certificate is there without its votes, or cannot be read.
        """
        first = folder / f"{_FIRST}.safetensors"
        if not first.exists():
            return first
        if not (folder / VOTES).exists():
            raise InputError(
                f"{first} is there, but its votes ({VOTES}) are not, and other draws would give another certificate: "
                "give another --out, or delete it"
            )
        there = _loaded(first)
        same = (there.tau, there.alpha, there.correction, there.k, there.norm) == (
            self.tau, self.alpha, self.procedure.name, self.procedure.k, self.norm,
        )  # fmt: skip
        return first if same else folder / f"{_FIRST}{self._suffix}.safetensors"

    def pictures(self, file: Path) -> Path:
        """How the names of the pictures begin that belong to the certificate in a file."""
        return file.with_name(file.stem.replace(_FIRST, "certified", 1))

    @property
    def _suffix(self) -> str:
        errors = f"-k{self.procedure.k}" if self.procedure.k > 1 else ""
        return f"-tau{exact(self.tau)}-alpha{exact(self.alpha)}-{self.procedure.name}{errors}-{self.norm}"


def stored_once(certificate: Certificate, file: Path) -> Certificate:
    """Write a certificate, or return the one that is there if it is the same but for its date and command.

    Raises `InputError` if another is there.
    """
    if not file.exists():
        certificate.save(file)
        return certificate
    there = _loaded(file)
    now = replace(
        certificate, date=there.date, version=there.version, command=there.command, seed_given=there.seed_given
    )
    if not np.array_equal(now.labels, there.labels) or _header(now) != _header(there):
        raise InputError(
            f"{file} holds another certificate, which is not overwritten: give another --out, or delete it"
        )
    return there


def truth_values(certificate: Certificate, target: IntArray | None) -> dict[str, float]:
    """How a certificate compares with ground truth, over the components that have some; empty without any.

    ``accuracy`` is its lower bound under attack where the certificate proves labels. Errors that k-fwer allows are
    subtracted.
    """
    if target is None or not (valid := target >= 0).any() or target.shape != certificate.labels.shape:
        return {}
    classes = 1 + max(int(target.max()), int(certificate.labels.max()))
    matrix = confusion(certificate.labels, target, valid, classes=classes)
    right, left_out = worst_case_accuracy(matrix, b=certificate.k - 1), abstention(matrix)
    return {"accuracy": right, "wrong": mislabelled(matrix), "abstained_of_valid": left_out}


def print_truth(printer: Printer, certificate: Certificate, target: IntArray | None) -> dict[str, Any]:
    """Print `truth_values`, if there are any, and return them for JSON."""
    values = truth_values(certificate, target)
    if not values:
        return {}
    certifies = certificate.claimed.certifies
    kind, right = ("certified", lower_percent) if certifies else ("labelled, not certified,", percent)
    printer.facts(
        {
            f"{kind} and right: the accuracy": right(values["accuracy"]),
            f"{kind} but wrong": percent(values["wrong"]),
            "abstained, of the components with ground truth": percent(values["abstained_of_valid"]),
        }
    )
    return {"truth": values}


def draws_kept(resume: Path) -> str:
    """What a stopped run left to go on from, in words."""
    if not resume.is_file():
        return "no draws are kept yet"
    header = archive.read_content(resume).header
    which = "that choose the labels" if header.get("phase") == "candidate" else "that test the labels"
    return f"{header.get('done', 0)} draws {which} are kept in {resume}"


def _loaded(file: Path) -> Certificate:
    try:
        return Certificate.load(file)
    except InputError as error:
        raise InputError(f"{error}: or delete it, or give another --out") from None


def _header(certificate: Certificate) -> dict[str, object]:
    """All but the labels, and the model, of which the votes were compared up to rounding."""
    return {name: value for name, value in vars(certificate).items() if name not in ("labels", "model")}
