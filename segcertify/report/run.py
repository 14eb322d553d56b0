"""An evaluation, finished or not: its records, and the tables and curves that they give."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from segcertify.errors import InputError
from segcertify.noise import parse
from segcertify.records import Record, RunFolder
from segcertify.report.attacked import AttackedRow, attacked_rows, attacked_table
from segcertify.report.summary import Curve, Row, category_table, class_table, radius_curves, results_table, summarize
from segcertify.report.table import Table


@dataclass(frozen=True, repr=False)
class Run:
    """The records of an evaluation and the configuration they come from."""

    configuration: dict[str, Any]
    records: tuple[Record, ...]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        """The evaluation in a folder."""
        stored = RunFolder(folder)
        return cls(stored.configuration(), tuple(stored.records()))

    def __repr__(self) -> str:
        scenes, settings = sum(record.kind == "base" for record in self.records), self.configuration["settings"]
        claims = ", ".join(f"(sigma={s['sigma']:g}, n={s['n']}, tau={s['tau']:g})" for s in settings)
        return f"Run({self.title}: {scenes} scenes at {claims or 'no noise'})"

    @property
    def title(self) -> str:
        """Model, data set and, unless it is Gaussian, the noise."""
        drawn = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"{self.configuration['model']} on {self.configuration['data']}{drawn}"

    @property
    def noise(self) -> str:
        """The noise's name (`segcertify.noise.names`), or that of the function that made it, with brackets."""
        return str(self.configuration["noise"])

    @cached_property
    def rows(self) -> list[Row]:
        """The scores of the base model and of each setting."""
        return summarize(self.records, self.configuration["categories"])

    @cached_property
    def attacked_rows(self) -> list[AttackedRow]:
        """The scores under attack at each radius, beside what is certified; none if nothing was attacked."""
        return attacked_rows(self.records, self.rows, self.configuration["categories"])

    def table(self) -> Table:
        """All settings."""
        return results_table(self.rows, title=self.title, alpha=self.configuration["alpha"], k=self.configuration["k"])

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
        alpha, attack = self.configuration["alpha"], self.configuration["attack"]
        return attacked_table(self.attacked_rows, title=f"Under attack: {self.title}", alpha=alpha, attack=attack)

    def curves(self) -> list[Curve]:
        """Certified accuracy against the radius; none for a noise that only a function knows."""
        try:
            noise = parse(self.noise)
        except InputError:
            return []
        return radius_curves(self.records, noise=noise, alpha=self.configuration["alpha"])
