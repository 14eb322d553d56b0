"""Random command lines, each in a forked process of its own: no traceback, no long wait, no file elsewhere."""

import importlib
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.campaign.attempts import SECONDS, Outcome, command, forked
from tests.campaign.command_lines import LONG, Lines
from tests.campaign.findings import Tally
from tests.campaign.world import World, build

LOADED = (
    "segcertify.cli", "segcertify.evaluation", "segcertify.training", "segcertify.audit", "segcertify.demo",
    "segcertify.reproduce.comparison", "segcertify.reproduce.toy", "segcertify.attacks.comparison",
    "segcertify.cli.inputs", "segcertify.figures.attack", "segcertify.figures.cloud", "onnxruntime", "transformers",
)  # fmt: skip
"""What is loaded once, before the forks: an import is no work that a line asked for."""
OTHERS = ("segcertify", "torch", "typer", "rich", "pydantic", "annotated_types", "matplotlib", "PIL", "sympy", "mpmath",
          "numpy", "scipy", "markdown_it", "onnx")  # fmt: skip
"""The packages of which commands load more on their way."""
CLAIM = ["--model", "python:tiny:make", "--sigma", "0.25", "--n", "60", "--out", "out"]
WARM = (
    ["show", "certificate.safetensors"], ["certify", "a.png", *CLAIM],
    ["evaluate", "--data", "folder:set", "--tau", "0.75", *CLAIM], ["report", "run"],
    ["attack", "a.png", "--non-robust", "python:tiny:make", "--radius", "0.1", *CLAIM],
    ["join", "../models/lite.safetensors", "../models/lite.safetensors", "--out", "out"],
    [
        "train", "--data", "folder:set", "--model", "python:tiny:make", "--iterations", "1", "--crop", "16", "16",
        "--batch-size", "1", "--precision", "fp32", "--out", "out",
    ],
)  # fmt: skip
"""Lines that load most of it."""


def run(tally: Tally, *, count: int = 5000, seed: int = 0) -> None:
    """Try ``count`` random command lines."""
    prepare()
    lines = Lines(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = build(Path(folder) / "world")
        if count > 2 * len(WARM):
            warm(world, Path(folder) / "warm")
        for number in range(count):
            line = lines.line()
            tally.add(*judged(line, attempt(world, Path(folder) / f"{number}", line)))


def prepare() -> None:
    """Load what commands load, without a thread that a fork would lose."""
    import torch

    torch.set_num_threads(1)
    for name in LOADED:
        importlib.import_module(name)
    os.environ["MPLCONFIGDIR"] = tempfile.gettempdir()


def warm(world: World, folder: Path) -> None:
    """Load what commands load on their way too: a line of each runs in a child, which says what it loaded."""
    for line in WARM:
        fresh = world.fresh(folder)

        def run(line: list[str] = line) -> None:
            try:
                command(line)()
            finally:
                Path("modules").write_text("\n".join(sys.modules))

        forked(fresh, run)
        for name in (fresh.work / "modules").read_text().split():
            if name not in sys.modules and name.startswith(OTHERS):
                with suppress(Exception):
                    importlib.import_module(name)
        shutil.rmtree(folder)


def attempt(world: World, folder: Path, line: list[str]) -> Outcome:
    """Run a line in a copy of the world, which is removed afterwards."""
    try:
        return forked(world.fresh(folder), command(line))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judged(line: list[str], outcome: Outcome) -> tuple[str | None, str]:
    """The kind of finding, and the line with what it printed last."""
    asked = any(tuple(line[: len(words)]) == words for words in LONG)
    kind, shown = outcome.finding(seconds=60.0 if asked else SECONDS)
    return kind, f"{shown} <- {shlex.join(word if len(word) < 80 else word[:70] + '...' for word in line)!a}"
