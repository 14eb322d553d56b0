"""An evaluation, finished or not: its records, and the tables and curves that they give."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from segcertify import names
from segcertify.claims import Claim, MetricClaim, looked, seed_assumption
from segcertify.errors import InputError
from segcertify.noise import Gaussian, Noise, from_plain, parse
from segcertify.numerals import counted, exact
from segcertify.preprocessing import in_words
from segcertify.records import Record, RunFolder
from segcertify.report.attacked import AttackedRow, attacked_rows, attacked_table
from segcertify.report.frame import framed
from segcertify.report.metrics import MetricCurve, metric_curves, metric_rows, metric_table
from segcertify.report.sets import SetRow, named_set_table, set_class_table, set_rows, set_table
from segcertify.report.summary import Curve, Row, category_table, class_table, radius_curves, results_table, summarize
from segcertify.report.table import Table

UNKNOWN_CHANNELS = "R is about the channels that carry noise, which are all of an image."
"""What is said of the runs of earlier versions, which did not store the channels."""


@dataclass(frozen=True, repr=False)
class Run:
    """The records of an evaluation and the configuration they come from."""

    configuration: dict[str, Any]
    records: tuple[Record, ...]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        """The evaluation in a folder."""
        stored = RunFolder(folder)
        run = cls(stored.configuration(), tuple(stored.records()))
        classes = len(run.configuration["classes"])
        for record in run.records:
            if any(each.get("classes") != classes for each in (record.confusion, record.sets) if each is not None):
                raise InputError(
                    f"{folder}: the records of scene {record.id!r} are not about the {classes} classes of config.json: "
                    "restore the folder from a copy, or evaluate again in another one"
                )
        return run

    def __repr__(self) -> str:
        scenes, settings = sum(record.kind == "base" for record in self.records), self.configuration["settings"]
        claims = ", ".join(f"(sigma={exact(s['sigma'])}, n={s['n']}, tau={exact(s['tau'])})" for s in settings)
        return f"Run({self.title}: {counted(scenes, 'scene')} at {claims or 'no noise'})"

    @property
    def title(self) -> str:
        """Model, data set and, unless it is Gaussian, the noise."""
        drawn = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"{self.configuration['model']} on {self.configuration['data']}{drawn}"

    @property
    def noise(self) -> str:
        """The noise's name (`segcertify.noise.names`), or what the noise of each sigma is."""
        return str(self.configuration["noise"])

    def claim_of(self, sigma: float, correction: str) -> Claim:
        """What is claimed of the labels of a sigma and a correction."""
        noise, alpha, k = self._noise_of(sigma), self.configuration["alpha"], self.configuration["k"]
        remarks = " ".join(filter(None, (looked(self._looks_of(sigma)), self._remarks(noise))))
        return Claim.named(correction, alpha, noise, k=k, remarks=remarks)

    def _looks_of(self, sigma: float) -> tuple[int, ...]:
        """The times of the looks of a sigma; none if the run has none."""
        looks = self.configuration["looks"]
        return () if looks is None else tuple(looks["times"][exact(sigma)])

    def metric_claim_of(self, metric: str, sigma: float) -> MetricClaim:
        """What is claimed of a metric of a sigma."""
        noise, alpha, share = self._noise_of(sigma), self.configuration["alpha"], self.configuration["metrics"]["share"]
        if isinstance(noise, str):
            raise InputError(f"nothing is known of the noise {noise}: no metric is certified under it")
        return MetricClaim(metric, share, alpha, noise, remarks=self._remarks(noise))

    def _remarks(self, noise: Noise | str) -> str:
        """What belongs to every claim of this run."""
        unknown = not self.configuration.get("noises") and isinstance(noise, Gaussian) and noise.channels is None
        before = "the seed was chosen" if self.configuration["seed_given"] else "the run began"  # its folder shows it
        remarks = (
            UNKNOWN_CHANNELS if unknown else "",
            in_words(self.configuration["preprocessing"]),
            seed_assumption(True, what="scenes and model", before=before),
        )
        return " ".join(filter(None, remarks))

    def _noise_of(self, sigma: float) -> Noise | str:
        """The noise of a sigma, or its description where only that is known.

        Earlier versions stored a name alone. Their Gaussian noise on clouds with categories was on x, y and z.
        """
        stored = self.configuration.get("noises")
        try:
            if stored:
                return from_plain(stored[exact(sigma)])
            noise = parse(self.noise)(sigma)
        except (InputError, KeyError):
            return self.noise
        clouds = isinstance(noise, Gaussian) and noise.channels is None and self.configuration["categories"]
        return Gaussian(sigma, channels=(0, 1, 2), axis=1) if clouds else noise

    @cached_property
    def rows(self) -> list[Row]:
        """The scores of the base model and of each setting."""
        return summarize(self.records, self.configuration["categories"], self.claim_of)

    @cached_property
    def attacked_rows(self) -> list[AttackedRow]:
        """The scores under attack at each radius, beside what is certified; none if nothing was attacked."""
        return attacked_rows(self.records, self.rows, self.configuration["categories"])

    def _repr_html_(self) -> str:
        """What notebooks show: the table of all settings."""
        return self.results_table().html() if self.records else f"<code>{names.html(repr(self))}</code>"

    def table(self) -> Any:
        """All settings as a pandas DataFrame, where pandas is installed; else as `results_table`.

        The DataFrame has the methods of the table too, such as ``markdown()`` (`segcertify.report.frame`).
        """
        return framed(self.results_table())

    def results_table(self) -> Table:
        """All settings."""
        found = results_table(self.rows, title=self.title, preprocessing=self.configuration["preprocessing"])
        if (skipped := self.skipped_table()) is None:
            return found
        listed = ", ".join(name for name, _ in skipped.rows[:3]) + (", ..." if skipped.rows[3:] else "")
        said = f"{counted(len(skipped.rows), 'scene')} could not be read and was skipped, in no row: {listed}."
        return replace(found, notes=(said.replace(" was ", " were ") if skipped.rows[1:] else said, *found.notes))

    def skipped_table(self) -> Table | None:
        """The scenes that could not be read; None if all could."""
        rows = tuple((record.id, record.reason or "") for record in self.records if record.kind == "skipped")
        return Table(f"Skipped scenes: {self.title}", ("scene", "reason"), rows) if rows else None

    def class_table(self) -> Table:
        """All classes."""
        return class_table(self.rows, self.configuration["classes"], title=f"By class, pooled: {self.title}")

    def category_table(self) -> Table | None:
        """All categories of clouds; None where there are none."""
        return category_table(self.rows, title=f"By category: {self.title}") if self.rows[0].categories else None

    def attacked_table(self) -> Table | None:
        """All radii that were attacked; None if none was."""
        if not self.attacked_rows:
            return None
        settings = {"attack": self.configuration["attack"], "preprocessing": self.configuration["preprocessing"]}
        return attacked_table(self.attacked_rows, title=f"Under attack: {self.title}", **settings)

    @cached_property
    def set_rows(self) -> list[SetRow]:
        """The scores of sets, by setting and method; none if no sets were asked for."""
        return set_rows(self.records, self.claim_of)

    def set_table(self) -> Table | None:
        """The scores of all sets, apart from labels; None if no sets were asked for."""
        return set_table(self.set_rows, title=f"Sets, majority or nothing: {self.title}") if self.set_rows else None

    def set_class_table(self) -> Table | None:
        """The sets of each class; None if no sets were asked for."""
        title = f"Sets by class, majority or nothing: {self.title}"
        return set_class_table(self.set_rows, self.configuration["classes"], title=title) if self.set_rows else None

    def named_set_table(self) -> Table | None:
        """The most frequent sets in words; None if there are none."""
        title = f"Frequent sets of labels: {self.title}"
        return named_set_table(self.set_rows, self.configuration["classes"], title=title)

    def metric_table(self) -> Table | None:
        """The bounds of all metrics, apart from voted labels; None if none was asked for."""
        rows = metric_rows(self.records, self.configuration, self._noise_of)
        title = f"Metrics of noisy runs: {self.title}"
        return metric_table(rows, self.configuration, self.metric_claim_of, title) if rows else None

    def metric_curves(self) -> list[MetricCurve]:
        """The bounds on metrics against the radius."""
        return metric_curves(self.records, self.configuration, self._noise_of)

    def curves(self) -> list[Curve]:
        """Certified accuracy against the radius; none for a noise whose radius is not proven."""
        return radius_curves(self.records, self.claim_of, self._looks_of, cap=self.configuration["cap"])

    def tables(self) -> dict[str, Table]:
        """All tables that this run has, by the names of their files."""
        found = {
            "results": self.results_table(),
            "classes": self.class_table(),
            "categories": self.category_table(),
            "attacked": self.attacked_table(),
            "skipped": self.skipped_table(),
            "metrics": self.metric_table(),
            "sets": self.set_table(),
            "sets-classes": self.set_class_table(),
            "sets-named": self.named_set_table(),
        }
        return {name: table for name, table in found.items() if table is not None}
