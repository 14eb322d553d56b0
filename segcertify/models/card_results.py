"""What an evaluation found of a model, for its card: a table, what it claims, and metadata that Hugging Face reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segcertify import names
from segcertify.claims import Claim, seed_assumption
from segcertify.errors import InputError
from segcertify.noise import Noise
from segcertify.numerals import NOTHING, counted, exact, lower, measured, radius_text
from segcertify.plain_words import over
from segcertify.preprocessing import Preprocessing, in_words

HEADS = ("setting", "R", "certified accuracy", "certified but wrong", "abstained", "mIoU worst case", "accuracy")
SCORES = ("accuracy", "miou_worst_case", "abstained")
"""The shares that a row has, beside sigma, n, tau and radius: of its labels, or of the model without noise."""


@dataclass(frozen=True)
class Evaluated:
    """The scores of a model over a data set that certify: of Holm's or Bonferroni's certificates, with a proven noise.

    ``rows`` have ``sigma``, ``n``, ``tau`` and ``radius``, all None of the model without noise, and `SCORES`.
    ``weights`` says whose results these are where the card's own model was not evaluated. ``command`` made them,
    ``source`` holds them, and ``picture`` shows one; ``clouds`` have an IoU of shapes.
    """

    data: str
    scenes: int
    noise: Noise
    n0: int
    alpha: float
    correction: str
    rows: Sequence[Mapping[str, Any]]
    preprocessing: Preprocessing | None = None
    weights: str = ""
    command: str = ""
    source: str = ""
    picture: str = ""
    clouds: bool = False
    seed_given: bool = True

    def __post_init__(self) -> None:
        if not self.claim.family_wise:
            raise InputError(
                f"a card states what is certified, but {self.correction} with {self.noise} certifies no label: "
                "give an evaluation with holm and a noise of segcertify"
            )
        if not any(row["sigma"] is not None for row in self.rows):
            raise InputError(f"nothing of {self.data} was certified yet: finish the evaluation first")

    @property
    def claim(self) -> Claim:
        """What its labels are said to do."""
        assumed = seed_assumption(self.seed_given, what="scenes and model")
        remarks = f"{in_words(self.preprocessing)} {assumed}".strip()
        return Claim.named(self.correction, self.alpha, self.noise, remarks=remarks)

    @property
    def certified(self) -> list[Mapping[str, Any]]:
        """The rows of certificates."""
        return [row for row in self.rows if row["sigma"] is not None]

    def markdown(self) -> str:
        """The section of the card."""
        claim, radii = self.claim, [row["radius"] for row in self.certified]
        plain = over(claim, self.scenes, preprocessing=self.preprocessing, radii=radii)
        lines = [
            f"On {names.markdown(self.data)} ({counted(self.scenes, 'scene')}; n0 = {self.n0}, alpha = "
            f"{exact(self.alpha)} for each scene, {self.correction}).",
            *([f"**Not of these weights:** {names.markdown(self.weights)}"] if self.weights else []),
            self._table(),
            f"{plain} The certified accuracy and the worst-case mIoU are lower bounds under attack, rounded down; the "
            "accuracy counts an abstention as wrong. Each row is a claim of its own.".lstrip(),
            f"Exactly: {claim.over(self.scenes)}",
            *(
                [f"Made by {names.code(self.command)}{f' ([all numbers]({self.source}))' if self.source else ''}."]
                * bool(self.command)
            ),
        ]
        return "\n\n".join(lines)

    def _table(self) -> str:
        heads = [head.replace("mIoU", "shape IoU") if self.clouds else head for head in HEADS]
        lines = [heads, ["---"] * len(heads), *(self._cells(row) for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        accuracy, abstained = measured(row["accuracy"]), measured(row["abstained"])
        if row["sigma"] is None:
            return ["the model without noise, no guarantee", *[NOTHING] * 3, abstained, NOTHING, accuracy]
        setting = f"sigma = {exact(row['sigma'])}, n = {row['n']}, tau = {exact(row['tau'])}"
        bounds = lower(row["accuracy"]), lower(row["miou_worst_case"])
        return [setting, radius_text(row["radius"], 3), bounds[0], measured(wrong(row)), abstained, bounds[1], accuracy]

    @property
    def about(self) -> str:
        """The data set, and whether other weights were evaluated, in a line."""
        return f"{self.data}{', of another model by the same recipe' if self.weights else ''}"

    def metrics(self) -> list[dict[str, Any]]:
        """Each bound with the name of its claim, as ``model-index`` has it."""
        iou = "shape IoU" if self.clouds else "mIoU"
        found = []
        for row in self.certified:
            where = (
                f"within R = {radius_text(row['radius'], 3)} in {self.noise.norm} norm (sigma = {exact(row['sigma'])}, "
            )
            where += f"n = {row['n']}, tau = {exact(row['tau'])}, alpha = {exact(self.alpha)})"
            bounds = (
                ("accuracy", "Certified accuracy", "accuracy"),
                ("mean_iou", f"Worst-case {iou}", "miou_worst_case"),
            )
            found += [
                {"type": kind, "name": f"{name} {where}", "value": float(lower(row[key]))} for kind, name, key in bounds
            ]
        return found


def wrong(row: Mapping[str, Any]) -> float:
    """The share of labels that are not the true ones: what is neither right nor an abstention."""
    return float(round(max(0.0, 1 - row["accuracy"] - row["abstained"]), 12))
