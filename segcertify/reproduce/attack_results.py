"""Results: what attacks did to base models and could not do to certificates, as JSON, and the page that follows."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from segcertify.certificate import radius_text
from segcertify.errors import InputError
from segcertify.report.table import Table

FILE, PAGE = "results.json", "README.md"
DASH = "\N{EM DASH}"
"""In place of a number that does not apply."""


@dataclass(frozen=True)
class Section:
    """A group of examples on the page, and its picture's file."""

    title: str
    picture: str


SECTIONS = {
    "hand_picked": Section("Hand-picked", "hand-picked.jpg"),
    "random": Section("Chosen at random", "random.jpg"),
}


@dataclass(frozen=True)
class Under:
    """Accuracies of both base models under attack within a radius, 0 for no attack."""

    radius: float
    non_robust: float
    robust: float


@dataclass(frozen=True)
class Example:
    """One image: what is certified of it, and how both base models do without attack and within growing radii.

    ``accuracy`` and ``abstained`` are the certificate's shares of the pixels that have
    ground truth; ``certified`` of all ``pixels`` have a label. At the worst of three
    attacked inputs ``moved`` of those have another majority, ``refuted`` significantly.
    """

    id: str
    pixels: int
    certified: int
    accuracy: float
    abstained: float
    moved: int
    refuted: int
    base: tuple[Under, ...]

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Example:
        """The example that `asdict` wrote down."""
        return cls(**{**values, "base": tuple(Under(**each) for each in values["base"])})

    @property
    def captions(self) -> tuple[str, ...]:
        """What stands below the panels of its row: the accuracies at the certified radius."""
        clean, attacked = self.base[:2]
        return (
            self.id,
            "",
            f"{clean.non_robust:.1%} \N{RIGHTWARDS ARROW} {attacked.non_robust:.1%} right",
            f"{clean.robust:.1%} \N{RIGHTWARDS ARROW} {attacked.robust:.1%} right",
            f"{self.accuracy:.1%} right, {self.abstained:.1%} white",
        )


@dataclass(frozen=True)
class Results:
    """All examples and what they come from, in plain values.

    ``trained`` says what each model was trained on, as far as its card does; ``scenes``
    were there to choose from.
    """

    version: str
    device: str
    model: str
    non_robust: str
    trained: dict[str, str]
    data: str
    scenes: int
    licence: str
    sigma: float
    tau: float
    n: int
    n0: int
    alpha: float
    correction: str
    radius: float
    steps: int
    seed: int
    hand_picked: tuple[Example, ...]
    random: tuple[Example, ...]

    def save(self, folder: Path) -> list[Path]:
        """Write the JSON and the page; the files written."""
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        return [path, render(folder)]

    @property
    def sections(self) -> dict[Section, tuple[Example, ...]]:
        """The sections that have examples."""
        return {section: getattr(self, name) for name, section in SECTIONS.items() if getattr(self, name)}

    def page(self, pictures: Container[str]) -> str:
        """The page of the documents, with those of the pictures that are there."""
        made = f"segcertify {self.version}, {self.device}"
        lines = [
            f"# Attacks on {self.data.partition('/')[0]}",
            "",
            f"Written by `segcertify reproduce attacks` ({made}) from [{FILE}]({FILE}). Do not edit.",
            "",
            *(f"- {note}" for note in self.notes),
            "",
        ]
        for section, examples in self.sections.items():
            lines += [
                f"## {section.title}",
                "",
                self._shown(section) if section.picture in pictures else "The picture is not kept here.",
                "",
                by_radius(examples, self.radius).markdown(),
                by_example(examples).markdown(),
            ]
        return "\n".join(lines)

    def _shown(self, section: Section) -> str:
        return f"![{section.title}: images under attack within {radius_text(self.radius, 3)}]({section.picture})"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        count, radius = len({each.id for each in (*self.hand_picked, *self.random)}), radius_text(self.radius, 3)
        notes = [
            f"Models: `{self.model}`, smoothed for its certificates, and `{self.non_robust}`, trained without noise. "
            f"Data: {self.data}. Both base models are attacked away from the ground truth by PGD in {self.steps} "
            "steps, inside an l2 ball around the image and inside [0, 1].",
            *(f"Trained: `{model}` on {data}." for model, data in self.trained.items()),
            f"Certificates: sigma = {self.sigma:g}, n0 = {self.n0}, n = {self.n}, tau = {self.tau:g}, alpha = "
            f"{self.alpha:g}, {self.correction}: R = {radius}. They are of the image without attack and hold at every "
            "image within R, those of all images here together with probability at least "
            f"{max(0.0, 1 - count * self.alpha):g}. Beyond R nothing is certified ({DASH}), and an attack that fails "
            "proves nothing.",
            "Accuracies are shares of the pixels that have ground truth; in a certified one an abstention counts as "
            "wrong, so that it is a lower bound of the smoothed model's under every attack within R. All are higher on "
            "images that a model was trained on; certificates hold on any. "
            "Pictures show the attacks within R, one on each base model (the image is the non-robust model's); "
            "pixels that abstain or have no ground truth are white.",
            f"Moved: certified pixels with another majority among {self.n} fresh draws, at the worst of three inputs "
            "within R, found by attacks on both base models and on the smoothed one. The certificate says that their "
            "label's probability stays above 1/2, perhaps just above, so a few may; significantly (at level alpha, for "
            "all pixels together) none should.",
        ]
        if self.random:
            notes.append(
                f"At random: the first {len(self.random)} of the {self.scenes} images, in the order of the SHA-256 of "
                f"`{self.seed} ID`. Nobody picked them."
            )
        return (
            *notes,
            f"Images: {self.licence}. The pictures are derived from them (attacked, tinted, put side by side), under "
            "the same terms.",
        )


def by_radius(examples: Sequence[Example], certified: float) -> Table:
    """Mean accuracies as the radius of the attack grows; the certificates' where they hold."""
    rows = []
    for place, first in enumerate(examples[0].base):
        under = [each.base[place] for each in examples]
        bound = _number(_mean([each.accuracy for each in examples])) if first.radius <= certified else DASH
        base = (_mean([each.non_robust for each in under]), _mean([each.robust for each in under]))
        rows.append((_radius(first.radius), *map(_number, base), bound))
    heads = ("attack within", "non-robust", "robust base model", "certified, at least")
    return Table(f"Mean accuracy under attack ({_count(examples)})", heads, tuple(rows))


def by_example(examples: Sequence[Example]) -> Table:
    """A row for each example, then their means; pixels are added up."""
    radii = [_radius(under.radius) for under in examples[0].base]
    heads = (
        "example",
        *(f"{model}, {radius}" for model in ("non-robust", "robust") for radius in radii),
        "certified", "abstained", "pixels certified", "of them moved", "significantly",
    )  # fmt: skip
    rows = [(each.id, *map(_number, _accuracies(each)), *_pixels([each])) for each in examples]
    means = [_mean(column) for column in zip(*map(_accuracies, examples), strict=True)]
    rows.append(("mean; sum of pixels", *map(_number, means), *_pixels(examples)))
    return Table(f"Accuracy by the radius of the attack ({_count(examples)})", heads, tuple(rows))


def read_results(folder: Path) -> Results:
    """The results in a folder."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"no {FILE} in {folder}: run segcertify reproduce attacks --out {folder} first")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        examples = {name: tuple(map(Example.from_plain, values[name])) for name in SECTIONS}
        return Results(**values | examples)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} holds no results of reproduce attacks ({error}): make it again") from None


def render(folder: Path) -> Path:
    """Write the page of the results in a folder."""
    pictures = {path.name for path in folder.glob("*.jpg")}
    (folder / PAGE).write_text(read_results(folder).page(pictures), encoding="utf-8")
    return folder / PAGE


def _accuracies(example: Example) -> list[float]:
    """The numbers of an example that have a mean."""
    base = [getattr(under, model) for model in ("non_robust", "robust") for under in example.base]
    return [*base, example.accuracy, example.abstained]


def _pixels(examples: Sequence[Example]) -> tuple[str, ...]:
    """Certified pixels, and how many moved."""
    names = ("certified", "pixels", "moved", "refuted")
    certified, pixels, moved, refuted = (sum(getattr(each, name) for each in examples) for name in names)
    return f"{certified:,} of {pixels:,}", f"{moved:,}", f"{refuted:,}"


def _count(examples: Sequence[Example]) -> str:
    return f"{len(examples)} image{'s' if len(examples) > 1 else ''}"


def _radius(radius: float) -> str:
    return radius_text(radius, 3) if radius else "no attack"


def _number(value: float) -> str:
    return f"{value:.4f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
