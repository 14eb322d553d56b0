"""The curves of a run's page as data. The pages that draw them are in test_page.py."""

from pathlib import Path

import numpy as np
import pytest

from segcertify.report.charts import MOST_STEPS, _steps, charts
from segcertify.report.run import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "runs"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_every_kind_of_run_has_its_curves(name):
    run = Run.load(GOLDEN / name)
    found = charts(run)
    titles = [chart["title"].split()[0] for chart in found]
    assert titles == ["Certified"] * bool(run.curves()) + ["Accuracy"] * bool(run.attacked_rows)
    for chart in found:
        assert chart["words"]
        for series in chart["series"]:
            assert series["kind"] in ("steps", "line", "dots", "level")
            assert all(len(point) == 2 and np.isfinite(point).all() for point in series["points"])


@pytest.mark.parametrize("count", [1, 2, MOST_STEPS, MOST_STEPS + 1, 20 * MOST_STEPS])
def test_few_steps_are_below_many(count):
    radii, heights = np.linspace(0.1, 1, count), np.linspace(1, 0.2, count)
    few = _steps(radii, heights)
    assert len(few) == min(count, MOST_STEPS)
    assert few[-1] == (radii[-1], heights[-1])
    for radius, height in zip(radii, heights, strict=True):
        assert next(y for x, y in few if radius <= x) <= height
