"""Write the measured numbers that README.md and the site's home page name, and the table of all certified results.

    python -m tools.measured

It reads the files in `results`. It writes docs/certified-results.md, and the blocks between `<!-- numbers: NAME -->`
and `<!-- end of numbers -->` in README.md and docs/index.md. Change the files by measuring again, never a block.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segcertify.bench.tables import duration
from segcertify.numerals import confidence, counted, exact, lower_percent, percent, radius_text

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "certified-results.md"
DOCUMENTS = {ROOT / "README.md": "", ROOT / "docs" / "index.md": "../"}
"""The documents with blocks, and what leads from their folders to the root."""

BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n?).*?(<!-- end of numbers -->)", re.S)
AUDITED = re.compile(r"([\d,]+) certified components in (\d+) inputs, ([\d,]+) tests with fresh draws. (\d+) of")

HEADS = (
    "model, data", "noise", "n", "tau", "R", "certified and right, at least", "certified but wrong", "abstained",
    "certified mIoU, at least", "right without noise, no guarantee", "holds with probability",
)  # fmt: skip

ABOVE = """# Certified results in one table

Written by `python -m tools.measured` from the files in `results`. Do not edit. Every row links to the page with its
command, its data and further scores; [all results](../results/README.md) lists what else was measured.

"""
BELOW = """

- Shares are of the pixels or points that have ground truth. What is *certified and right* keeps the right label under
  every perturbation within R, with the probability in the last column, for all scenes of the row together. It is a
  lower bound and rounded down. *Certified but wrong* keeps its label too, but the label is wrong.
- *Certified mIoU* is the worst case under attack, rounded down. It counts every abstention against the model.
- *Right without noise* is the model alone, without attack. No guarantee goes with it.
- R is an l2 norm at the network's input, with colours in [0, 1], or, for clouds, in units of the shape's radius. For
  rotations it is an angle in radians.
- Each row is a claim of its own. Do not choose the best after looking and quote its probability.
"""
"""What stands around the table."""

Values = Mapping[str, Any]


def read(name: str) -> Any:
    """The values of a file in `results`."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def certified_share(rows: list[Values]) -> Values:
    """The row of the paper's first setting."""
    (row,) = [row for row in rows if (row["n"], row["tau"]) == (100, 0.75)]
    return row


def three(up: str) -> str:
    """Three numbers: how much is certified, how many audits found nothing, how long the tests take."""
    values, stats = read("models/pets/results.json"), read("speed/stats.json")
    ours, ordinary = (certified_share(model["rows"]) for model in values["models"])
    printed = "".join((RESULTS / "audit" / f"{name}.txt").read_text(encoding="utf-8") for name in ("pets", "camvid"))
    audits = [[int(each.replace(",", "")) for each in found] for found in AUDITED.findall(printed)]
    _, inputs, tests, refuted = (sum(column) for column in zip(*audits, strict=True))
    lines = [
        f"**{lower_percent(ours['accuracy'])}** of the pixels of {values['scenes']} held-out photographs of pets are "
        f"certified with the right label at R = {radius_text(ours['radius'], 3)}, against "
        f"{lower_percent(ordinary['accuracy'])} for a model that was trained without noise "
        f"([pets]({up}results/models/pets/README.md)).",
        f"**{refuted} of {inputs}** certificates were refuted by our own audits, which attacked them and tested their "
        f"labels {tests:,} times with fresh draws ([audits]({up}docs/audit.md)).",
        f"**{duration(stats['segcertify_seconds'])}** on a CPU is what the tests and Holm's correction take for "
        f"{stats['settings']['components']:,} pixels; vectorised SciPy with the same correction takes "
        f"{stats['ratio_to_vectorised']:.3g} times as long ([speed]({up}docs/speed.md)).",
    ]
    return "\n".join(_item(line.replace("../docs/", "")) for line in lines) + "\n"


def _item(text: str) -> str:
    return textwrap.fill(
        text, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def rows() -> Iterator[tuple[str, ...]]:
    """A row of the table for each certified setting of the bundled models."""
    for file, of in (("models/pets", ""), ("models/camvid", ""), ("models/pets-without-noise", "pets: ")):
        values = read(f"{file}/results.json")
        for model in values["models"]:
            name = f"{of}{model['model']}, {values['data'].split(' ')[0]}"
            yield from _settings(name, file, "Gaussian", values, model)
    values = read("models/parts/results.json")
    for trial in values["trials"]:
        name = f"{values['name']}, {trial['data'].split(' ')[0]}"
        yield from _settings(name, "models/parts", trial["noise"].capitalize(), trial, trial)


def _settings(name: str, file: str, noise: str, run: Values, model: Values) -> Iterator[tuple[str, ...]]:
    """The certified rows of one model, each beside the model without noise."""
    base = next(row for row in model["rows"] if row["sigma"] is None)
    for row in model["rows"]:
        if row["sigma"] is None:
            continue
        scenes = run["scenes"]
        yield (
            f"[{name}](../results/{file}/README.md), {counted(scenes, 'scene')}", f"{noise}({exact(row['sigma'])})",
            f"{row['n']:,}", exact(row["tau"]), radius_text(row["radius"], 3), lower_percent(row["accuracy"]),
            percent(1 - row["accuracy"] - row["abstained"]), percent(row["abstained"]),
            lower_percent(row["miou_worst_case"]), percent(base["accuracy"]), confidence(run["alpha"], scenes),
        )  # fmt: skip


def page() -> str:
    """The page with the table."""
    heads = ["| " + " | ".join(HEADS) + " |", "| " + " | ".join(["---"] + ["--:"] * (len(HEADS) - 1)) + " |"]
    return ABOVE + "\n".join([*heads, *("| " + " | ".join(row) + " |" for row in rows())]) + BELOW


def filled(text: str, up: str) -> str:
    """A document with its blocks as the files have them."""
    return BLOCK.sub(lambda found: found[1] + {"three": three}[found[2]](up) + found[3], text)


def main() -> None:
    """Write the page and the blocks."""
    PAGE.write_text(page(), encoding="utf-8")
    for document, up in DOCUMENTS.items():
        document.write_text(filled(document.read_text(encoding="utf-8"), up), encoding="utf-8")


if __name__ == "__main__":
    main()
