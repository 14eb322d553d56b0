"""Tables as Markdown, LaTeX and CSV."""

import csv

from segcertify.report.table import Table

TABLE = Table("50 % of a_b", ("x", "y & z"), (("1", "a|b"), ("2", "{c}, d")), ("A note.",))


def test_markdown():
    assert str(TABLE) == TABLE.markdown()
    assert TABLE.markdown().splitlines() == [
        "### 50 % of a_b", "", "| x | y & z |", "| --- | --- |", "| 1 | a\\|b |", "| 2 | {c}, d |", "", "- A note.",
    ]  # fmt: skip


def test_latex_escapes():
    text = TABLE.latex()
    assert r"\caption{50 \% of a\_b. A note.}" in text
    assert r"x & y \& z \\" in text
    assert r"2 & \{c\}, d \\" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_html_escapes():
    text = Table("<t>", ("x", "<b>"), (("<script>", "1"),), ("a < b",)).html()
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    assert "<li>a &lt; b</li>" in text
    assert TABLE._repr_html_() == TABLE.html()


def test_csv_and_files(tmp_path):
    files = TABLE.save(tmp_path / "deep", "t")
    assert [file.name for file in files] == ["t.md", "t.tex", "t.csv"]
    with files[2].open(newline="") as file:
        assert list(csv.reader(file)) == [["x", "y & z"], ["1", "a|b"], ["2", "{c}, d"]]
