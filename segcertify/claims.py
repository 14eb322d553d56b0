"""Claim: what the labels of a correction under a noise are said to do; the one source of the words that are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from segcertify.noise import Noise, described, is_proven
from segcertify.numerals import confidence, exact, exact_percent, lower_value, radius_text, upper_value
from segcertify.stats.correction import K_FWER, PROCEDURES, Guarantee


@dataclass(frozen=True)
class Claim:
    """The guarantee of a correction, and the noise that turns a probability into a radius.

    ``noise`` is a description where the object is not known. ``norm`` is the noise's own by default. ``remarks`` are
    further sentences that belong to the claim, such as on the units of the radius. ``perturbed`` names what is
    perturbed, such as a file's pixels; by default it is the input that the noise goes on.
    """

    correction: str
    guarantee: Guarantee
    alpha: float
    noise: Noise | str
    norm: str = ""
    k: int = 1
    remarks: str = ""
    perturbed: str = ""

    @classmethod
    def named(
        cls, correction: str, alpha: float, noise: Noise | str, *, k: int | None = None, remarks: str = ""
    ) -> Claim:
        """The claim of a correction by its name (`segcertify.stats.correction`)."""
        guarantee: Guarantee = K_FWER if correction == K_FWER else PROCEDURES[correction].guarantee
        return cls(correction, guarantee, alpha, noise, k=k or 1, remarks=remarks)

    @property
    def proven(self) -> bool:
        """Whether segcertify has a proof of the noise's radius."""
        return not isinstance(self.noise, str) and is_proven(self.noise)

    @property
    def family_wise(self) -> bool:
        """Whether all labels hold at once."""
        return self.proven and self.guarantee == "fwer"

    @property
    def certifies(self) -> bool:
        """Whether labels hold, all of them or all but a few: their scores, less the budget, are then lower bounds."""
        return self.proven and self.guarantee in ("fwer", K_FWER)

    @property
    def budget(self) -> int:
        """How many labels of a scene may not hold, which bounds on scores subtract."""
        return self.k - 1 if self.guarantee == K_FWER else 0

    @property
    def stays(self) -> str:
        """Which labels are sure to stay, in a sentence."""
        if self.family_wise:
            return "A certified label is sure to stay, not to be right."
        few = f"All but at most {self.budget:,} of a scene's labels are sure to stay, but it is not known which."
        return few if self.certifies else "No single label is sure to stay, nor to be right."

    @property
    def heading(self) -> str:
        """What to write above a picture of the labels."""
        return "certified" if self.certifies else f"labels by {self.correction}, no certificate"

    @property
    def threat(self) -> str:
        """What the radius measures: the norm, and the channels if they are not all."""
        return "an unknown norm" if isinstance(self.noise, str) else self.noise.threat(self.norm or self.noise.norm)

    def about(self, certified: str, radius: float) -> str:
        """What holds for one input, in a sentence; ``certified`` names the components that have a label."""
        return self._sentence(f"1 - {exact(self.alpha)}", certified, radius_text(radius))

    def over(self, scenes: int) -> str:
        """What holds for several scenes together, each within a radius that is called R."""
        if not self.certifies:
            return self._sentence("", "the labelled components of each scene", "R")
        total, each = confidence(self.alpha, scenes), "all" if self.family_wise else "each of the"
        if scenes == 1 or total == "0":
            alone = self._sentence(f"1 - {exact(self.alpha)}", "the certified components of a scene", "R")
            many = f" Nothing is claimed of all {scenes:,} scenes together: {scenes:,} alpha is not below 1."
            return alone if scenes == 1 else alone + many
        return self._sentence(total, f"the certified components of {each} {scenes:,} scenes", "R")

    def of_sets(self, components: int, certified: int, radius: float, *, excludes: bool = True) -> str:
        """What the sets of so many components, of which some have a certified label, say within a radius."""
        if not self.proven:
            return self._sentence("", "", radius_text(radius))
        if not excludes:
            return f"No label is excluded: the {components:,} sets claim nothing. " + self._sentence(
                f"1 - {exact(self.alpha)}", f"the {certified:,} certified components", radius_text(radius)
            )
        sentence = self._in_sets(
            f"1 - {exact(self.alpha)}", f"{components:,} tested components", radius_text(radius),
            f" ({certified:,} components)",
        )  # fmt: skip
        only = "A set of one label that is not certified means: this label or no majority."
        return f"{sentence} {only} {self.remarks}".rstrip()

    def sets_over(self, scenes: int) -> str:
        """What the sets of several scenes say together, each within a radius that is called R."""
        if not self.proven:
            return self._sentence("", "", "R")
        total, alone = confidence(self.alpha, scenes), f"1 - {exact(self.alpha)}"
        together = scenes > 1 and total != "0"
        whose = f"tested components of {f'all {scenes:,} scenes' if together else 'a scene'}"
        sentence = self._in_sets(total if together else alone, whose, "R", "")
        many = f" Nothing is claimed of all {scenes:,} scenes together: {scenes:,} alpha is not below 1."
        return f"{sentence}{many if total == '0' else ''} {self.remarks}".rstrip()

    def _in_sets(self, sure: str, components: str, radius: str, certified: str) -> str:
        """The one place where the guarantee of sets is put into words."""
        threat = f"perturbations of {_what(self.perturbed)}{self.threat} at most {radius}"
        return (
            f"With probability at least {sure} over the noise draws, for all {components} and all {threat} at once, "
            "the smoothed model's majority label, where there is one, is in its set; where a label is certified"
            f"{certified}, it is that label."
        )

    def of_map(self, components: str, largest: float) -> str:
        """What holds for components that have a radius each, all at once."""
        if not self.proven:
            return self._sentence("", "", radius_text(largest))
        threat = f"perturbation of {self.threat} at most its own radius"
        sentence = (
            f"With probability at least 1 - {exact(self.alpha)} over the noise draws, {components} all keep their "
            f"label as the smoothed model's most likely one, each under every {threat}. The largest radius is "
            f"{radius_text(largest)}."
        )
        return f"{sentence} {self.remarks}".rstrip()

    def _sentence(self, sure: str, certified: str, radius: str) -> str:
        return f"{self._guarantee(sure, certified, radius)} {self.remarks}".rstrip()

    def _guarantee(self, sure: str, certified: str, radius: str) -> str:
        """The one place where a guarantee is put into words."""
        threat = f"perturbation of {_what(self.perturbed)}{self.threat} at most {radius}"
        sure = f"With probability at least {sure} over the noise draws, "
        kept = f"keep their label as the smoothed model's most likely one under every {threat}."
        if not self.proven:
            name = self.noise if isinstance(self.noise, str) else described(self.noise)
            return f"No robustness certificate: segcertify knows no proof of a radius for {name} ({self.threat})."
        if self.guarantee == "fwer":
            return f"{sure}{certified} all {kept}"
        if self.guarantee == K_FWER:
            return f"{sure}of {certified} all but at most {self.k - 1:,} {kept}"
        if self.guarantee == "fdr":
            condition = " if the components' tests are independent or positively dependent (PRDS)"
            return (
                f"No robustness certificate of {certified}: over the noise draws, the expected proportion of labels "
                f"that may change under some {threat} is at most {exact(self.alpha)}"
                f"{condition if self.correction == 'bh' else ''}."
            )
        return f"Of {certified}, those that {self.correction!r} guarantees at level {exact(self.alpha)} {kept}"


@dataclass(frozen=True)
class MetricClaim:
    """What is said of a metric: most noisy runs keep a bound under attack. The last fields are as in `Claim`."""

    metric: str
    share: float
    alpha: float
    noise: Noise
    norm: str = ""
    remarks: str = ""
    perturbed: str = ""

    @property
    def threat(self) -> str:
        """What the radius measures."""
        return self.noise.threat(self.norm or self.noise.norm)

    def about(self, bound: float | None, upper: float | None, radius: float) -> str:
        """What holds for one input, in two sentences; of no bound, that nothing is claimed."""
        if bound is None:
            return f"Nothing is claimed of {self.metric}: there are too few draws for a bound at this radius."
        kept = f"{self.metric} >= {lower_value(bound)}"
        if upper is not None:
            kept = f"{self.metric} between {lower_value(bound)} and {upper_value(upper)}"
        words = self._sentence(f"1 - {exact(self.alpha)}", radius_text(radius), kept)
        return f"{words} {ONE_NOISY_RUN} {self.remarks}".rstrip()

    def over(self, scenes: int, kept: str) -> str:
        """What holds of several scenes, each perturbed within a radius called R; ``kept`` says what most runs keep."""
        total = confidence(self.alpha, scenes)
        alone = self._sentence(f"1 - {exact(self.alpha)}", "R", kept)
        together = f" This is about one scene; it holds for all {scenes:,} together with probability at least {total}."
        many = together if total != "0" else f" Nothing is claimed of all {scenes:,} scenes together."
        return f"{alone}{many if scenes > 1 else ''} {ONE_NOISY_RUN} {self.remarks}".rstrip()

    def _sentence(self, sure: str, radius: str, kept: str) -> str:
        threat = f"perturbation of {_what(self.perturbed)}{self.threat} at most {radius}"
        runs = f"at least {exact_percent(self.share)} of the noisy runs have {kept}"
        return f"With probability at least {sure} over the noise draws, under every {threat}, {runs}."


def _what(perturbed: str) -> str:
    """What is perturbed, before the size of the perturbation; nothing if it is the input."""
    return f"{perturbed}, of " if perturbed else ""


ONE_NOISY_RUN = (
    'This is about the randomised predictor "one noisy run", whose noise the attacker does not see, and not about the '
    "voted map."
)
"""What a metric certificate is about, which every claim of one says."""


def looked(times: Sequence[int]) -> str:
    """At which looks components were tested, in words; empty if there was one test.

    >>> looked((50, 100))
    'Looks after 50, 100 draws, fixed before sampling, each at alpha / 2.'
    """
    after = ", ".join(map(str, times))
    return f"Looks after {after} draws, fixed before sampling, each at alpha / {len(times)}." if times else ""


def capped_words(cap: float) -> str:
    """What a cap on radii says.

    >>> capped_words(0.9)
    'No radius exceeds that of the cap 0.9, which was chosen before sampling.'
    """
    return f"No radius exceeds that of the cap {exact(cap)}, which was chosen before sampling."


def seed_assumption(given: bool, *, what: str = "input and model", before: str = "the seed was chosen") -> str:
    """What a claim assumes if the caller chose its seed; empty if the operating system drew it.

    >>> seed_assumption(True)
    'This assumes that input and model were fixed before the seed was chosen.'
    """
    return f"This assumes that {what} were fixed before {before}." if given else ""


def not_promised(claims: Iterable[Claim]) -> list[str]:
    """What a reader could take labels with these claims to say, and they do not."""
    claims = list(claims)
    single = dict.fromkeys(claim.correction for claim in claims if not claim.family_wise)
    if claims and not single:
        return ["That a label is right: it is sure to stay, not to be true."]
    weaker = [f"That any single label of {', '.join(single)} stays: see the exact claim."] if single else []
    return ["That a label is right.", *weaker]


def row_notes(
    claims: Iterable[Claim | None], scenes: int, *, bounds: str, plain: Callable[[Claim], str] = lambda claim: "",
    noise: str = "",
) -> list[str]:  # fmt: skip
    """What the rows of a table say of so many scenes: a note for each claim, with the corrections that share it.

    ``bounds`` names the scores that are lower bounds under attack where all labels hold, or all but a budget.
    ``plain`` says the same in plain words, which then go before the exact ones; an empty text is left out. ``noise``
    tells these rows from those of a table's other noises.
    """
    notes: dict[tuple[str, str], dict[str, None]] = {}
    for claim in filter(None, claims):
        so = f" Their {bounds} are then lower bounds for the smoothed model under attack, and are rounded down."
        less = (
            f" From them this budget is subtracted, {claim.budget:,} labels a scene and {claim.budget * scenes:,} in "
            "all. Which labels fail is not known: no single one is certified."
        )
        words = (
            claim.over(scenes) + (so if claim.certifies else "") + (less if claim.certifies and claim.budget else "")
        )
        notes.setdefault((plain(claim), words), {})[claim.correction] = None
    said = []
    for (first, exact_words), names in notes.items():
        of = f"Rows of {', '.join(names)}{f' with {noise} noise' if noise else ''}: "
        said += [f"{of}{first}", f"Exactly: {exact_words}"] if first else [f"{of}{exact_words}"]
    return said
