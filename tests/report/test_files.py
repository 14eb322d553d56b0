"""The files of a report, of runs that an earlier version made."""

from pathlib import Path

import pytest
from PIL import Image

from segcertify.report.files import write_report
from segcertify.report.run import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "runs"


@pytest.mark.parametrize("name", ["image-gaussian", "cloud-rotation"])
def test_every_table_and_figure_is_written(name, tmp_path):
    run = Run.load(GOLDEN / name)
    files = write_report(run, tmp_path / "report")
    tables = ["results", "classes", *(["categories"] if name.startswith("cloud") else [])]
    expected = [f"{table}.{suffix}" for table in tables for suffix in ("md", "tex", "csv")]
    assert [file.name for file in files] == [*expected, "radius.png", "index.html"]
    assert files[0].read_text(encoding="utf-8") == run.table().markdown()
    with Image.open(files[-2]) as image:
        assert image.size[0] > 500
