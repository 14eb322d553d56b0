"""Random command lines as real processes, as a shell starts them; and two evaluations of one folder at once."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.campaign.attempts import Outcome
from tests.campaign.command_lines import LONG, Lines
from tests.campaign.commands import judged
from tests.campaign.findings import Tally
from tests.campaign.world import World, build

PAIRS = 20
"""Every so many attempts, one is a pair of processes."""
EVALUATE = ["evaluate", "--model", "python:tiny:make", "--data", "folder:set", "--sigma", "0.25", "--n", "60"]


def run(tally: Tally, *, count: int = 500, seed: int = 0) -> None:
    """Try ``count`` processes or pairs of them."""
    lines = Lines(seed + 1000)
    with tempfile.TemporaryDirectory() as folder:
        world = build(Path(folder) / "world")
        for number in range(count):
            fresh = world.fresh(Path(folder) / f"{number}")
            if number % PAIRS == PAIRS - 1:
                tally.add(*_pair(fresh))
            else:
                line = lines.line()
                while tuple(line[:1]) in LONG or tuple(line[:2]) in LONG:
                    line = lines.line()
                tally.add(*judged(line, process(fresh, line)))
            shutil.rmtree(fresh.outer)


def process(world: World, line: list[str]) -> Outcome:
    """Run a line in a new interpreter. The import of torch is no work that the line asked for: it is taken off."""
    before, start = world.outside(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(_command(line), check=False, capture_output=True, timeout=300, **_place(world))
    end, after = resource.getrusage(resource.RUSAGE_CHILDREN), world.outside()
    changed = world.changed(before, after)
    seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime - _import_seconds()
    peak = end.ru_maxrss * 1024 if end.ru_maxrss > start.ru_maxrss else 0  # that of the largest child so far
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return Outcome(done.returncode, out, err, seconds, peak, changed)


def _import_seconds(found: list[float] = []) -> float:  # noqa: B006
    if not found:
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import torch, transformers, onnxruntime"], check=False)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return found[0]


def _pair(world: World) -> tuple[str | None, str]:
    """Two evaluations of one folder: one may be refused, and no scene is there twice or missing."""
    both = [
        subprocess.Popen(_command([*EVALUATE, "--out", "both"]), stdout=-3, stderr=subprocess.PIPE, **_place(world))
        for _ in range(2)
    ]
    errors = [each.communicate(timeout=300)[1].decode(errors="replace") for each in both]
    if any("Traceback" in error for error in errors) or 0 not in [each.returncode for each in both]:
        return "raw", f"two processes: {[each.returncode for each in both]} {errors}"
    records = (world.work / "both" / "records.jsonl").read_text().splitlines()
    if len(records) != 9:  # three scenes, each with a base, a radius and a certified record
        return "doubled", f"two processes left {len(records)} records of 9"
    return None, ""


def _command(line: list[str]) -> list[str]:
    return [sys.executable, "-m", "segcertify", *line]


def _place(world: World) -> dict[str, object]:
    root = Path(__file__).resolve().parents[2]
    own = {"HOME": world.outer / "home", "TMPDIR": world.outer / "temp", "PYTHONPATH": root, "HF_HUB_OFFLINE": "1"}
    own |= {"MPLCONFIGDIR": tempfile.gettempdir(), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    own |= {"TORCHINDUCTOR_CACHE_DIR": tempfile.gettempdir()}  # torch makes its own in TMPDIR when it is imported
    return {"cwd": world.work, "env": os.environ | {key: str(value) for key, value in own.items()}}
