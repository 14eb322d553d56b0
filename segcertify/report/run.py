"""A finished (or unfinished) evaluation, read back from its folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from segcertify.evaluation.noises import NOISES
from segcertify.records import Record, configuration_of, read_records
from segcertify.report.attacked import Standing, attacked_table, standings
from segcertify.report.summary import (
    Curve,
    Row,
    category_table,
    class_table,
    radius_curves,
    results_table,
    summarize,
)
from segcertify.report.table import Table


@dataclass(frozen=True)
class Run:
    """The records of an evaluation and the configuration they come from."""

    configuration: dict[str, Any]
    records: tuple[Record, ...]

    @property
    def title(self) -> str:
        """Model, data set and, unless it is Gaussian, the noise."""
        drawn = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"{self.configuration['model']} on {self.configuration['data']}{drawn}"

    @property
    def noise(self) -> str:
        """The noise's name, a key of `segcertify.evaluation.noises.NOISES` or a function's."""
        return str(self.configuration["noise"])

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each setting."""
        return summarize(self.records, self.configuration["categories"])

    def results(self) -> Table:
        """The table of all settings."""
        return results_table(self.rows, title=self.title, alpha=self.configuration["alpha"])

    def classes(self) -> Table:
        """The table of all classes."""
        return class_table(self.rows, self.configuration["classes"], title=f"By class, pooled: {self.title}")

    def categories(self) -> Table | None:
        """The table of all categories, of clouds that have them."""
        if not self.rows[0].categories:
            return None
        return category_table(self.rows, title=f"By category: {self.title}")

    @cached_property
    def standings(self) -> list[Standing]:
        """What attacks left at each radius, beside what is certified; none if nothing was attacked."""
        return standings(self.records, self.rows, self.configuration["categories"])

    def attacked(self) -> Table | None:
        """The table of all radii that were attacked, if any."""
        if not self.standings:
            return None
        return attacked_table(
            self.standings,
            title=f"Under attack: {self.title}",
            alpha=self.configuration["alpha"],
            attack=self.configuration["attack"],
        )

    def curves(self) -> list[Curve]:
        """Certified accuracy against the radius; none for a noise that only a function knows."""
        if self.noise not in NOISES:
            return []
        return radius_curves(self.records, noise=NOISES[self.noise], alpha=self.configuration["alpha"])


def read_run(folder: str | os.PathLike[str]) -> Run:
    """The evaluation in a folder."""
    return Run(configuration_of(folder), tuple(read_records(Path(folder) / "records.jsonl")))
