"""Certificates of sets over all scenes of an evaluation: tables of their own, in which no score stands alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segcertify.claims import Claim
from segcertify.errors import InputError
from segcertify.metrics.sets import SetCounts, SetScores, set_scores, sets_from_plain, worst_case_set_iou
from segcertify.numerals import NOTHING, counted, exact, lower, measured, radius_text
from segcertify.records import SETS, Record, grouped
from segcertify.report.summary import FILE_NOTE, require_radius, smallest
from segcertify.report.table import Table
from segcertify.sets.class_trees import name_of_set

FREQUENT = 8
"""How many sets of a setting are named."""

MODEL_NOTE = (
    "The worst-case IoU is of the majority-or-nothing model, which answers the majority label, or nothing where there "
    "is none (a miss, never a false positive). It is no bound for the arg-max model: that one is with the labels."
)
SIZE_NOTE = (
    "Small sets alone prove little: read them beside the certified labels, and how often the truth is in its set. One "
    "label by exclusion alone means this label or no majority, which is less than a certified label."
)
METHOD_NOTES = {
    SETS[0]: "Exclusion: labels at alpha / 2, and the labels that a component cannot get at alpha / 2.",
    SETS[1]: "Nested groups, a baseline: every level of the tree of classes at a share of alpha, the finest kept.",
    SETS[2]: (
        "Posterior gap, a baseline after Anani et al. (2024): the pilot chooses one level of the tree for each "
        "component, which the later draws test at alpha."
    ),
}


@dataclass(frozen=True)
class SetRow:
    """The scores of one setting's sets over all scenes, by one method; ``input_radius`` is as in `summary.Row`."""

    method: str
    sigma: float
    n: int
    tau: float
    radius: float
    input_radius: float | None
    scenes: int
    counts: SetCounts
    scores: SetScores
    claim: Claim

    @property
    def setting(self) -> str:
        """The setting in words."""
        return f"sigma={exact(self.sigma)}, n={self.n}, tau={exact(self.tau)}"

    @property
    def label(self) -> str:
        """The setting and the method in words."""
        return f"{self.setting}, {self.method}"

    def bound(self, score: float) -> str:
        """A score that is a lower bound under attack, if the noise has a proof."""
        return lower(score) if self.claim.proven else NOTHING


def set_rows(records: Sequence[Record], claim_of: Callable[[float, str], Claim]) -> list[SetRow]:
    """The sets of each setting and method, in the order of the records; none if no sets were asked for."""
    groups = grouped((record for record in records if record.kind == "sets"), _setting)
    return [_row(group, claim_of(group[0].sigma or 0.0, "holm")) for group in groups.values()]


def _setting(record: Record) -> tuple[float | None, int | None, float | None, str | None]:
    return record.sigma, record.n, record.tau, record.method


def _row(group: Sequence[Record], claim: Claim) -> SetRow:
    first = group[0]
    if None in (first.sigma, first.n, first.tau, first.method, first.radius):
        raise InputError(f"the records of sets of scene {first.id!r} lack their setting: evaluate again")
    require_radius(group, claim)
    counts = sets_from_plain(first.sets or {})
    for record in group[1:]:
        counts = counts + sets_from_plain(record.sets or {})
    return SetRow(
        first.method or "", first.sigma or 0.0, first.n or 0, first.tau or 0.5, first.radius or 0.0,
        smallest([record.input_radius for record in group]), len(group), counts, set_scores(counts), claim,
    )  # fmt: skip


def set_table(rows: Sequence[SetRow], *, title: str) -> Table:
    """All scores of sets, side by side."""
    in_files = any(row.input_radius is not None for row in rows)
    heads = (
        "setting", "sets by", "R", *(["R in files, least"] if in_files else []), "certified label",
        "certified and right", "at most 1 label", "1 by exclusion alone", "at most 2", "at most 3", "truth in set",
        "information gain", "mIoU worst case, majority or nothing",
    )  # fmt: skip
    body = tuple(
        (
            row.setting,
            row.method,
            *(_radius(row, radius) for radius in (row.radius, *([row.input_radius] if in_files else []))),
            measured(row.scores.certified),
            row.bound(row.scores.certified_accuracy),
            *map(measured, (row.scores.at_most_1, row.scores.only, row.scores.at_most_2, row.scores.at_most_3)),
            *map(measured, (row.scores.truth_in_set, row.scores.information_gain)),
            row.bound(row.scores.worst_case_miou),
        )
        for row in rows
    )
    scenes = rows[0].scenes
    notes = (
        f"{counted(scenes, 'scene')}, pooled. Shares are of the components with ground truth.",
        *dict.fromkeys(row.claim.sets_over(scenes) for row in rows),
        "Certified and right, and the worst-case IoU, are then lower bounds under attack, and are rounded down.",
        MODEL_NOTE,
        SIZE_NOTE,
        *(METHOD_NOTES[method] for method in dict.fromkeys(row.method for row in rows) if method in METHOD_NOTES),
        *([FILE_NOTE] if in_files else []),
        "Each row is a claim of its own, also beside the rows of labels.",
    )
    return Table(title, heads, body, notes)


def _radius(row: SetRow, radius: float | None) -> str:
    return radius_text(radius, 4) if row.claim.proven and radius is not None else NOTHING


def set_class_table(rows: Sequence[SetRow], classes: Sequence[str], *, title: str) -> Table:
    """Each class that the ground truth has: its worst-case IoU, certified and right, and in its set."""
    columns = ("IoU worst case", "certified and right", "truth in set")
    heads = ("class", *(f"{row.label}: {column}" for row in rows for column in columns))
    body = []
    for c, name in enumerate(classes):
        cells = []
        for row in rows:
            truth = int(row.counts.truth[c])
            if not truth:
                continue
            iou, right = float(worst_case_set_iou(row.counts)[c]), int(row.counts.right[c]) / truth
            cells += [row.bound(iou), row.bound(right), measured(int(row.counts.inside[c]) / truth)]
        body += [(name, *cells)] if cells else []
    return Table(title, heads, tuple(body), (MODEL_NOTE, "Shares are of the components of the class."))


def named_set_table(rows: Sequence[SetRow], classes: Sequence[str], *, title: str) -> Table | None:
    """The most frequent sets of two and three labels by exclusion, in words; None if there are none."""
    body = tuple(
        (
            row.setting,
            name_of_set(labels, classes),
            measured(count / row.counts.valid),
            measured(row.counts.small_true[labels] / count),
        )
        for row in rows
        if row.method == SETS[0]
        for labels, count in sorted(row.counts.small.items(), key=lambda item: (-item[1], item[0]))[:FREQUENT]
    )
    heads = ("setting", "set", "share of components", "truth in it")
    notes = (f"The {FREQUENT} most frequent sets of two or three labels, where no label is certified.",)
    return Table(title, heads, body, notes) if body else None
