"""`segcertify certify`: the certificate of one input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli import engines
from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, certificate_values, noted, resumable
from segcertify.errors import InputError
from segcertify.names import file_name
from segcertify.noise.names import parse

if TYPE_CHECKING:
    from segcertify.data import Input


def certify(
    input: Annotated[
        Path,
        typer.Argument(
            help="An image (becomes RGB in [0, 1]). A cloud of points (is centred and scaled to radius 1) in a .txt, "
            ".xyz, .csv, .ply or .pcd file, or in a .npy file if the model is for shapes' parts: columns "
            "x y z, then nx ny nz and label where known. A volume in a .nii or .nii.gz file (needs nibabel). Any other "
            ".npy file of floats stays as it is: (channels, depth, height, width) is a volume."
        ),
    ],
    model: opt.Model[str],
    sigma: opt.Sigma[float],
    noise: opt.Noise[str] = "gaussian",
    n: opt.Draws[int] = 100,
    tau: opt.Tau[float] = 0.75,
    seed: opt.Seed[int | None] = None,
    n0: opt.Candidates = 10,
    alpha: opt.Alpha = 0.001,
    correction: opt.Correction[str] = "holm",
    k: opt.ErrorCount = None,
    b: opt.ErrorBudget = None,
    norm: opt.Norm = None,
    looks: opt.Looks = 0,
    until: opt.Until = None,
    cap: opt.Cap = None,
    metric: opt.Metric[list[str] | None] = None,
    target_radius: opt.TargetRadius[float | None] = None,
    share: opt.Share[float | None] = None,
    sets: opt.Sets = False,
    short_side: opt.ShortSide = None,
    full_size: opt.FullSize = False,
    label: opt.Label = None,
    ignore: opt.Ignore = 255,
    batch_size: opt.BatchSize = None,
    device: opt.Device = None,
    engine: engines.Kind = "local",
    workers: engines.Workers = None,
    address: engines.Address = None,
    patience: engines.Patience = 600.0,
    precision: opt.Precision = "fp32",
    compile: opt.Compile = False,
    trust_code: opt.TrustCode = False,
    out: opt.Out[Path | None] = None,
    colours: opt.Colours = "own",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Certify one input. Writes votes, certificate and pictures, by default to certified/NAME. Run again to resume.

    The same draws serve other claims: with another --tau, --alpha or --correction, another certificate lies beside the
    first. Nothing is overwritten.
    With --metric it bounds metrics of the segmentation instead of certifying labels. With --cap it also gives each
    component a radius of its own, in a file and a picture.
    """
    import torch

    from segcertify.cli.certificates import VOTES, Claimed, draws_kept, print_truth, stored_once
    from segcertify.cli.inputs import class_names, draw, input_id, read
    from segcertify.cli.metric_certificates import print_metrics
    from segcertify.cli.pages import audit_command, page_beside
    from segcertify.cli.radius_maps import mapped_beside, print_map
    from segcertify.cli.set_certificates import sets_beside, sets_facts, sets_values
    from segcertify.models import sigma_note, size_note
    from segcertify.stats.correction import procedure
    from segcertify.storage import limits, reading
    from segcertify.storage.lock import locked

    printer, pictures = Printer(json, quiet), list[Path]()
    _require_options(noise, sigma, metric=bool(metric), of_metric=(target_radius, share), cap=cap, n0=n0)
    reading.readable(input, most=limits.IMAGE_BYTES)
    ready = engines.ready(
        engines.chosen_engine(engine, workers, address, patience), model, device, precision=precision, compile=compile,
        trust_code=trust_code,
    )  # fmt: skip
    segmenter, device = ready.model, ready.device
    found = read(input, segmenter, label=label, ignore=ignore, short_side=short_side, full_size=full_size)
    x = torch.from_numpy(found.x)
    drawn = found.domain.noise(parse(opt.noise_on(noise, found.domain.axis))(sigma), x.shape)
    for note in (size_note(segmenter, x.shape), sigma_note(segmenter, sigma), *_input_notes(segmenter, found, input)):
        printer.note(note)
    out = opt.folder(out or Path("certified") / file_name(input_id(input)))
    if metric:
        with ready.smoothed(drawn, seed=seed, batch_size=batch_size) as smooth:
            print_metrics(
                printer, smooth, found, metric, out=out, input_id=input_id(input), radius=target_radius, tau=tau,
                share=share, n=n, alpha=alpha, norm=norm,
            )  # fmt: skip
        return
    votes, resume = out / VOTES, out / "resume.safetensors"
    claim = Claimed(tau, alpha, procedure(correction, k=k, b=b), norm or drawn.norm)
    with locked(out), resumable(lambda: draws_kept(resume)):
        file, already = claim.file(out), list(out.glob("*.safetensors"))  # none of them is overwritten
        with ready.smoothed(drawn, seed=seed, batch_size=batch_size) as smooth:
            certificate = smooth.certify(
                x, tau=tau, n=n, n0=n0, alpha=alpha, correction=correction, k=k, b=b, norm=norm, looks=looks,
                until=until, input_id=input_id(input), checkpoint=resume, save_votes=votes, counts=sets,
                preprocessing=found.preprocessing, progress=printer.progress,
            )  # fmt: skip
        certificate = stored_once(replace(certificate, command=opt.command_line()), file)
        with noted(printer, "no pictures"):
            pictures = draw(segmenter, found, certificate, device=device, stem=claim.pictures(file), colours=colours)
        if sets:
            of_sets, set_files = sets_beside(
                printer, segmenter, found, file, votes, tau=tau, alpha=alpha, norm=norm, colours=colours
            )  # fmt: skip
        pictures += page_beside(
            printer, segmenter, found, certificate, votes, device=device, sets=of_sets if sets else None,
            page=Path(f"{claim.pictures(file)}.html"), colours=colours,
            audit=audit_command(
                file, model, input, label=label, ignore=ignore, short_side=short_side, full_size=full_size,
                precision=precision, trust_code=trust_code,
            ),
        )  # fmt: skip
        radii = mapped_beside(printer, segmenter, found, out, cap=cap, alpha=alpha, norm=norm, colours=colours)
        resume.unlink(missing_ok=True)  # last: until here, a run that was killed loses no draw
    files, values = [file, votes, *pictures], certificate_values(certificate)
    printer.certificate(certificate)
    values |= print_truth(printer, certificate, found.target)
    if sets:
        printer.claim(of_sets, before="Sets, a claim of their own. ")
        names = class_names(segmenter, len(of_sets.sets))
        printer.facts(sets_facts(of_sets, names))
        files, values = [*files, *set_files], values | {"sets": sets_values(of_sets, names)}
    files, values = [*files, *radii.files], values | print_map(printer, radii)
    printer.files(files, again=already)
    printer.result(**values, files=files)


def _require_options(
    noise: str, sigma: float, *, metric: bool, of_metric: tuple[float | None, ...], cap: float | None, n0: int
) -> None:
    """Refuse bad options before the model is loaded."""
    from segcertify.cli.radius_maps import require_cap

    parse(noise)(sigma)
    if not metric and any(option is not None for option in of_metric):
        raise InputError("--target-radius and --share are for a metric: add --metric, such as --metric agreement")
    require_cap(cap, n0=n0, metric=metric)


def _input_notes(model: object, found: Input, path: Path) -> Iterator[str | None]:
    """What to say of an input before it is certified."""
    yield _units_note(model, found, path)
    if (neighbours := (found.preprocessing or {}).get("normals_from")) is not None:
        yield (
            f"{path} has no normals, which the model needs: they are estimated from each point's {neighbours} nearest "
            "neighbours, and the claim holds them as they are. Give nx ny nz if you have them"
        )


def _units_note(model: object, found: Input, path: Path) -> str | None:
    """A note on an image that is not in [0, 1], as a trained model takes it; of 0..255 the sampler warns."""
    from segcertify.models import card_of

    largest = float(abs(found.x).max()) if found.x.size and found.domain.bounds else 0.0
    if card_of(model) is None or largest <= 2 or found.x.min() >= 0:
        return None
    return (
        f"{path} has values of size {largest:g}, but the model was trained on images in [0, 1], whose units sigma "
        "and the radius have: undo the normalisation?"
    )
