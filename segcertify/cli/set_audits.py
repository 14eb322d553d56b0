"""`segcertify audit` of a certificate of sets: its labels by attacks, and its sets where these led."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from segcertify.cli import engines
from segcertify.cli.printing import Printer
from segcertify.errors import InputError
from segcertify.sets.certificate import SetCertificate
from segcertify.storage import archive
from segcertify.storage.reading import is_folder
from segcertify.votes import seed_text

if TYPE_CHECKING:
    from segcertify.engines import Engine


def is_sets(path: Path) -> bool:
    """Whether a file says that it holds sets."""
    return not is_folder(path) and archive.read_content(path).format == "segcertify.sets"


def audit_of_sets(
    printer: Printer, file: Path, model: str | None, input: Path | None, *, short_side: int | None, full_size: bool,
    engine: Engine, device: str | None, seed: int | None, precision: str, trust_code: bool, batch_size: int | None,
    n: int, level: float, copies: int, steps: int, restarts: int,
) -> None:  # fmt: skip
    """Audit the labels and the sets of a certificate, each at half of the level. Exit code 1 if any is refuted."""
    import torch

    from segcertify.audit import audit_certificate
    from segcertify.audit.sets import audit_sets
    from segcertify.cli.inputs import read
    from segcertify.sampling.seeds import seed_of_run

    certificate, seed = SetCertificate.load(file), seed_of_run(seed).value
    if model is None or input is None:
        raise InputError("give the --model and the --input that the certificate of sets is about")
    ready = engines.ready(engine, model, device, precision=precision, trust_code=trust_code)
    segmenter, device = ready.model, ready.device
    about = read(input, segmenter, short_side=short_side, full_size=full_size)
    x, prepared = torch.from_numpy(about.x), about.preprocessing
    with ready.smoothing as smoothing:
        labels = audit_certificate(
            segmenter, x, certificate.as_labels(), n=n, draws=copies, steps=steps, restarts=restarts, level=level / 2,
            seed=seed, batch_size=batch_size, device=device, preprocessing=prepared, progress=printer.progress,
            smoothing=smoothing,
        )  # fmt: skip
        sets = audit_sets(
            segmenter, x, certificate, n=n, level=level / 2, seed=seed, batch_size=batch_size, device=device,
            preprocessing=prepared, also=[each for each in labels.perturbed if each.name.startswith("attack")],
            progress=printer.progress, smoothing=smoothing,
        )  # fmt: skip
    printer.claim(certificate)
    printer.say(f"Sets: {sets.verdict}")
    printer.say(f"Certified labels: {labels.verdict}")
    printer.detail(f"seed {seed_text(seed)}")
    refuted = sets.refuted or labels.refuted
    printer.result(
        claim=certificate.claim, verdict=sets.verdict, refuted=refuted, tests=sets.tests + labels.tests, seed=seed,
        labels={"verdict": labels.verdict, "refuted": labels.refuted, "tests": labels.tests},
    )  # fmt: skip
    if refuted:
        raise typer.Exit(1)
