"""The page of a certified image or cloud in commands: `certify` writes it beside the pictures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from segcertify.cli.inputs import legend
from segcertify.cli.printing import Printer, noted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segcertify.arrays import IntArray
    from segcertify.certificate import Certificate
    from segcertify.data import Input
    from segcertify.figures.palette import ColoursOf
    from segcertify.sampling.segmenter import Segmenter
    from segcertify.sets.certificate import SetCertificate


def page_beside(
    printer: Printer, model: Segmenter, found: Input, certificate: Certificate, votes: Path, *, device: str,
    page: Path, colours: ColoursOf, sets: SetCertificate | None = None, audit: str = "",
    attacked: Mapping[str, IntArray] | None = None,
) -> list[Path]:  # fmt: skip
    """Write the page of a certified input from saved votes, and return its path; some inputs have none.

    ``attacked`` are labels of attacked images, by what is said of them.
    """
    if found.domain.page is None:
        return []
    with noted(printer, "no page"):
        import torch

        from segcertify.sampling.segmenter import base_labels
        from segcertify.votes import Votes

        prediction = base_labels(model, torch.from_numpy(found.x).to(device))
        kept = Votes.load(votes)
        highest = max(int(prediction.max()), int(kept.candidate.max()))
        names, table = legend(model, highest=highest, colours=colours)
        return found.domain.save_page(
            page, found.x, certificate, votes=kept, prediction=prediction, target=found.target, sets=sets,
            attacked=attacked, colours=table, names=names, audit=audit,
        )  # fmt: skip
    return []


def audit_command(
    certificate: Path, model: str, input: Path, *, label: Path | None = None, ignore: int = 255,
    short_side: int | None = None, full_size: bool = False, precision: str = "fp32", trust_code: bool = False,
) -> str:  # fmt: skip
    """The command that audits a certificate, with all options that change how input and model are read."""
    words = ["segcertify", "audit", str(certificate), "--model", model, "--input", str(input)]
    words += [] if label is None else ["--label", str(label)]
    words += [] if label is None or ignore == 255 else ["--ignore", str(ignore)]
    words += [] if short_side is None else ["--short-side", str(short_side)]
    words += ["--full-size"] if full_size else []
    words += [] if precision == "fp32" else ["--precision", precision]
    return shlex.join([*words, "--trust-code"] if trust_code else words)
