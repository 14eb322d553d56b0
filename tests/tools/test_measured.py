"""The numbers in README.md, on the home page and in the table of results are those of the files."""

import json
import shutil
from pathlib import Path

import pytest

from tools import measured

pytestmark = pytest.mark.skipif(not measured.RESULTS.exists(), reason="results are in the repository only")


def test_the_table_is_made_from_the_files():
    assert measured.PAGE.read_text(encoding="utf-8") == measured.page()


@pytest.mark.parametrize("document", measured.DOCUMENTS, ids=lambda path: path.name)
def test_blocks_are_made_from_the_files(document):
    text = document.read_text(encoding="utf-8")
    assert measured.BLOCK.search(text)
    assert text == measured.filled(text, measured.DOCUMENTS[document])


def test_a_changed_number_changes_the_text(tmp_path, monkeypatch):
    copy = Path(shutil.copytree(measured.RESULTS, tmp_path / "results"))
    monkeypatch.setattr(measured, "RESULTS", copy)
    before, file = measured.page(), copy / "models" / "pets" / "results.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    measured.certified_share(values["models"][0]["rows"])["accuracy"] = 0.91239
    file.write_text(json.dumps(values), encoding="utf-8")
    assert "**91.2%**" in measured.three("")
    assert before != measured.page()
    printed = copy / "audit" / "pets.txt"
    printed.write_text(printed.read_text(encoding="utf-8").replace(". 0 of 25", ". 1 of 25", 1), encoding="utf-8")
    assert "**1 of 120** certificates were refuted" in measured.three("")


def test_shares_of_a_row_add_up_and_bounds_round_down():
    row = {"sigma": 0.25, "n": 100, "tau": 0.75, "radius": 0.16862, "accuracy": 0.94756, "abstained": 0.0386,
           "miou_worst_case": 0.81349}  # fmt: skip
    base = {"sigma": None, "accuracy": 0.96}
    run = {"scenes": 2, "alpha": 0.001}
    (cells,) = measured._settings("model", "models/pets", "Gaussian", run, {"rows": [base, row]})
    assert cells[4:] == ("0.168", "94.7%", "1.4%", "3.9%", "81.3%", "96.0%", "0.998")
