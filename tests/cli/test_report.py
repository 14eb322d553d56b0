"""`segcertify report`, on a run folder that an earlier version wrote."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).parents[1] / "golden" / "files" / "runs"


@pytest.fixture(params=["image-gaussian", "cloud-z-rotation"])
def run(request, folder):
    shutil.copytree(RUNS / request.param, folder / "run")
    return folder / "run"


def test_report(segcertify, run, folder):
    shown = segcertify("report", "run")
    assert "certified accuracy" in shown.text
    written = {path.name for path in (run / "report").iterdir()}
    assert {"results.md", "results.tex", "results.csv", "classes.csv", "radius.png", "index.html"} <= written
    found = segcertify("report", "run", "--out", "elsewhere", "--json").json
    assert {Path(file).name for file in found["files"]} == written
    assert {path.name for path in (folder / "elsewhere").iterdir()} == written
    assert len(found["results"]) > 1
    assert segcertify("report", "run", "--quiet").err == ""


def test_nothing_there(segcertify):
    assert "error: no evaluation at nowhere" in segcertify("report", "nowhere", code=2).err


def test_it_loads_no_torch(run):
    code = (
        "import sys; sys.argv = ['segcertify', 'report', 'run']\n"
        "from segcertify.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=run.parent, check=True, stdout=subprocess.DEVNULL)
