"""The one writer of our result pages: a folder's results.json becomes its README.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from segcertify.claims import Claim, seed_assumption
from segcertify.errors import InputError
from segcertify.names import visible
from segcertify.noise import Gaussian
from segcertify.numerals import NOTHING, exact, lower, measured, radius_text
from segcertify.plain_words import over
from segcertify.preprocessing import in_words, of_image
from segcertify.report.table import Table

FILE, PAGE = "results.json", "README.md"
SCORES = ("accuracy", "miou_pooled", "miou_per_image", "miou_worst_case", "abstained", "abstained_all")
"""The numbers of a row of an evaluation that results keep."""
HEADS = (
    "certified accuracy", "certified but wrong", "abstained (valid)", "mIoU worst case", "accuracy", "mIoU pooled",
    "mIoU per image", "abstained (all)",
)  # fmt: skip
"""What pages show of them: first what is certified."""

Results = Mapping[str, Any]


def document(script: str, title: str, made: str, *blocks: str | Table | Sequence[str]) -> str:
    """A page: its title, what wrote it, then paragraphs, tables and lists of notes."""
    written = f"Written by `python experiments/{script}.py` ({made}) from [{FILE}]({FILE}). Do not edit."
    texts = [f"# {title}", written]
    for block in blocks:
        if isinstance(block, Table):
            texts.append(block.markdown().rstrip())
        elif block:
            texts.append(block if isinstance(block, str) else "\n".join(f"- {note}" for note in block))
    return "\n\n".join(texts) + "\n"


def picture(text: str, file: str) -> str:
    """A picture that lies beside the page."""
    return f"![{text}]({file})"


def save(folder: Path, results: Results, page: Callable[[Results, Path], str]) -> None:
    """Write the results and their page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    render(folder, page)


def render(folder: Path, page: Callable[[Results, Path], str]) -> None:
    """Write the page of the results in a folder."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"no {FILE} in {folder}: run the experiment with --out {folder} first")
    try:
        text = page(json.loads(path.read_text(encoding="utf-8")), folder)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, StopIteration) as error:
        raise InputError(f"{path} holds no results of this experiment ({error!r}): make it again") from None
    (folder / PAGE).write_text(text, encoding="utf-8")
    print(f"wrote {folder / PAGE}")


def parser(description: str | None, out: str) -> argparse.ArgumentParser:
    """The options that all experiments share."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--data", help="the spec of the data set")
    result.add_argument("--out", type=Path, help=f"the folder of the results (default {out}); run again to resume")
    result.add_argument("--render", type=Path, metavar="FOLDER", help="only write the page of a folder's results.json")
    result.add_argument("--seed", type=int, default=0, help="fixes all noise (default 0)")
    result.add_argument("--device", help="cpu, cuda, ...; CUDA where there is one by default")
    return result


def start(main: Callable[[], None]) -> None:
    """Run a script; models in the working folder can be imported, and errors are one line."""
    sys.path.append(os.getcwd())
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {visible(str(error))}")


def plain(row: Any) -> dict[str, Any]:
    """The setting and the scores of a row of an evaluation, in plain values."""
    return {key: getattr(row, key) for key in ("sigma", "n", "tau", "radius", *SCORES)}


def cells(row: Results) -> tuple[str, ...]:
    """The claim, its radius and what `HEADS` names of such a row, as text: bounds of Holm's certificates go down.

    Of a model without smoothing nothing is certified.
    """
    scores = {name: measured(row[name]) for name in SCORES}
    others = [scores[name] for name in ("accuracy", "miou_pooled", "miou_per_image", "abstained_all")]
    if row["sigma"] is None:
        return "none", NOTHING, NOTHING, NOTHING, scores["abstained"], NOTHING, *others
    certified, worst = (lower(row[name]) for name in ("accuracy", "miou_worst_case"))
    wrong = measured(round(max(0.0, 1 - row["accuracy"] - row["abstained"]), 12))  # all others have a label
    claim = f"sigma={exact(row['sigma'])}, n={row['n']}, tau={exact(row['tau'])}"
    return claim, radius_text(row["radius"], 3), certified, wrong, scores["abstained"], worst, *others


def remarks(results: Results) -> str:
    """What belongs to every claim on images: the units of the radius, and what a given seed assumes."""
    known = in_words(results.get("preprocessing"))
    units = known or f"{in_words(of_image())} An image that is resized is certified as it is afterwards."
    return f"{units} {seed_assumption(True, what='scenes and model')}"


def together(results: Results, scenes: int) -> str:
    """What Holm's certificates of Gaussian noise on images say, of one scene and of all."""
    if results["correction"] != "holm":
        raise InputError(f"pages are of Holm's certificates, but these are of {results['correction']}: run it again")
    claim = Claim.named("holm", results["alpha"], Gaussian(1.0), remarks=remarks(results))
    settings = f"n0 = {results['n0']}, alpha = {exact(results['alpha'])} for each scene, holm."
    return (
        f"{settings} {over(claim, scenes, preprocessing=of_image())} Exactly: {claim.over(scenes)} The certified "
        "accuracy and the worst-case mIoU are then lower bounds under attack, rounded down. Each row is a claim of its "
        "own."
    )


ABSTENTION = "An abstention counts as wrong. No other mIoU is a bound under attack."


def require_different(what: str, values: Iterable[Any]) -> None:
    """Refuse values that occur twice."""
    listed = [*values]
    if len(set(listed)) < len(listed):
        raise InputError(f"{what} must all be different, but got {', '.join(map(str, listed))}")
