"""A run that is read back: an earlier version's names, its curves, and what it is called."""

from pathlib import Path

import pytest

from segcertify.errors import InputError
from segcertify.report.run import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "runs"


@pytest.mark.parametrize(
    ("name", "noise", "norm"),
    [
        ("image-gaussian", "gaussian", "l2"),
        ("cloud-gaussian", "gaussian", "l2"),
        ("cloud-rotation", "rotation", "angle"),
        ("cloud-z-rotation", "rotation:z", "angle"),
    ],
)
def test_golden_runs(name, noise, norm):
    run = Run.load(GOLDEN / name)
    assert run == Run.load(GOLDEN / name)
    assert run.noise == noise
    assert {curve.norm for curve in run.curves()} == {norm}
    assert ("noise" in run.title) == (noise != "gaussian")
    assert (run.category_table() is None) == name.startswith("image")
    assert run.attacked_table() is None
    assert run.metric_table() is None
    assert run.metric_curves() == []
    assert run.set_table() is None
    assert len(run.table().rows) == len(run.rows) == 1 + 3 * len(run.configuration["settings"])
    assert repr(run).startswith(f"Run({run.title}: {run.rows[0].scenes} scenes at (sigma=")


def test_a_run_without_records():
    configuration = Run.load(GOLDEN / "image-gaussian").configuration
    run = Run(configuration, ())
    assert "0 scenes" in repr(run)
    with pytest.raises(InputError, match="the evaluation has finished no scene yet"):
        run.table()
    assert run._repr_html_().startswith("<code>Run(")


def test_what_a_notebook_shows():
    run = Run.load(GOLDEN / "image-gaussian")
    assert run._repr_html_() == run.results_table().html()
    named = Run(run.configuration | {"model": "<script>"}, run.records)
    assert "<script>" not in named._repr_html_()
    assert "&lt;script&gt;" in named._repr_html_()
