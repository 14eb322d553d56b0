"""A report's table as a pandas DataFrame, where pandas is installed."""

import importlib
from functools import cache
from typing import Any

from segcertify.numerals import NOTHING
from segcertify.report.table import Table

_OF_TABLE = ("title", "heads", "rows", "notes", "markdown", "latex", "csv", "save")


def framed(table: Table) -> Any:
    """The table as a DataFrame with numbers as numbers, or the table itself where there is no pandas.

    The DataFrame also has what the table has: ``title``, ``notes``, ``markdown()``, ``save(folder, name)`` and so on.
    """
    try:
        frame = _frame()
    except ImportError:
        return table
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.heads)
    found = frame({head: _numbers(cells) for head, cells in zip(table.heads, columns, strict=True)})
    object.__setattr__(found, "table", table)
    return found


def _numbers(cells: tuple[str, ...]) -> list[Any]:
    """A column as floats, NaN where the table has no number; as texts if one of them is no number."""
    try:
        return [float("nan") if cell in ("", NOTHING) else float(cell) for cell in cells]
    except ValueError:
        return list(cells)


@cache
def _frame() -> Any:
    """The class of such DataFrames. What is made from one, such as a part of it, is a plain DataFrame."""
    pandas = importlib.import_module("pandas")

    class TableFrame(pandas.DataFrame):  # type: ignore[misc,name-defined]
        _metadata = ["table"]  # noqa: RUF012  # as pandas wants it

        @property
        def _constructor(self) -> Any:
            return pandas.DataFrame

        def __getattr__(self, name: str) -> Any:
            return getattr(self.table, name) if name in _OF_TABLE else super().__getattr__(name)

    return TableFrame
