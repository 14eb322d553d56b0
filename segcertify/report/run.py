"""A finished (or unfinished) evaluation, read back from its folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from segcertify.evaluation import configuration_of
from segcertify.records import Record, read_records
from segcertify.report.summary import Curve, Row, class_table, radius_curves, results_table, summarize
from segcertify.report.table import Table


@dataclass(frozen=True)
class Run:
    """The records of an evaluation and the configuration they come from."""

    configuration: dict[str, Any]
    records: tuple[Record, ...]

    @property
    def title(self) -> str:
        """Model and data set."""
        return f"{self.configuration['model']} on {self.configuration['data']}"

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each setting."""
        return summarize(self.records)

    def results(self) -> Table:
        """The table of all settings."""
        return results_table(self.rows, title=self.title, alpha=self.configuration["alpha"])

    def classes(self) -> Table:
        """The table of all classes."""
        return class_table(self.rows, self.configuration["classes"], title=f"IoU by class, pooled: {self.title}")

    def curves(self) -> list[Curve]:
        """Certified accuracy against the radius."""
        return radius_curves(self.records, alpha=self.configuration["alpha"])


def read_run(folder: str | os.PathLike[str]) -> Run:
    """The evaluation in a folder."""
    return Run(configuration_of(folder), tuple(read_records(Path(folder) / "records.jsonl")))
