"""A report's table as a DataFrame."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from segcertify.report.frame import framed
from segcertify.report.run import Run
from segcertify.report.table import Table

TABLE = Table("Title", ("setting", "R", "n"), (("base", "-", "10"), ("a=1, <b>", "0.25", "20")), ("A note.",))


def test_numbers_are_numbers():
    found = framed(TABLE)
    assert isinstance(found, pd.DataFrame)
    assert [*found.columns] == ["setting", "R", "n"]
    assert found["setting"].tolist() == ["base", "a=1, <b>"]
    assert np.isnan(found["R"][0])
    assert found["n"].sum() == 30
    assert found.loc[found["R"] > 0, "n"].tolist() == [20]
    assert "&lt;b&gt;" in found._repr_html_()


def test_it_has_what_the_table_has(tmp_path):
    found = framed(TABLE)
    assert (found.title, found.heads, found.rows, found.notes) == (TABLE.title, TABLE.heads, TABLE.rows, TABLE.notes)
    assert found.markdown() == TABLE.markdown()
    assert len(found.save(tmp_path, "t")) == 3
    part = found[found["n"] > 10]
    assert type(part) is pd.DataFrame
    with pytest.raises(AttributeError):
        part.markdown()


def test_a_table_without_rows():
    assert framed(Table("Title", ("a", "b"), ())).shape == (0, 2)


def test_without_pandas_it_is_the_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    from segcertify.report import frame

    frame._frame.cache_clear()
    assert framed(TABLE) is TABLE
    frame._frame.cache_clear()


def test_of_a_run():
    run = Run.load(Path(__file__).parents[1] / "golden" / "files" / "runs" / "image-gaussian")
    found = run.table()
    assert isinstance(found, pd.DataFrame)
    assert found["accuracy"].between(0, 1).all()
    assert found.markdown() == run.results_table().markdown()
