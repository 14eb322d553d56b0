"""Commands that the campaign kills and starves: in forked children that have torch loaded, in folders of their own.

A `Bench` makes the inputs and the results of undisturbed runs. `Bench.start` forks a child that runs one command line;
`Bench.difference` says in which way a folder is not what the undisturbed run left.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from segcertify.storage import archive

MODEL = '''
import os
import torch
from torch import nn


class Tiny(nn.Module):
    """Three classes from a few weights. It counts what it is asked, and fails where the campaign wants it."""

    def __init__(self, classes=3):
        super().__init__()
        self.layer = nn.Conv2d(3, classes, 3, padding=1)
        with torch.no_grad():
            for index, weight in enumerate(self.parameters()):
                weight.copy_(torch.sin(torch.arange(weight.numel()) * (index + 1.7)).reshape(weight.shape))

    def forward(self, batch):
        logits = self.layer(batch) * 8
        if not self.training:
            with open(os.environ["CAMPAIGN_ASKED"], "ab", buffering=0) as file:
                file.write(b"." * len(batch))
            fails, calls = os.environ.get("CAMPAIGN_FAILS", ""), globals().setdefault("calls", [])
            calls.append(1)
            if fails and len(calls) >= int(os.environ["CAMPAIGN_AT"]):
                if fails == "nan":
                    return logits * torch.nan
                raise {"raise": RuntimeError, "exit": SystemExit, "memory": torch.OutOfMemoryError}[fails]("as asked")
        return logits


def make(classes=3):
    return Tiny(classes).eval()
'''
N0, N, BATCH, SCENES = 5, 60, 5, 3
PATIENCE = 150
"""After so many seconds a child that has not ended is ended by a signal, which is a finding."""
CLAIM = [
    "--sigma",
    "0.25",
    "--n",
    str(N),
    "--n0",
    str(N0),
    "--batch-size",
    str(BATCH),
    "--seed",
    "0",
    "--device",
    "cpu",
]
LOOKS = ["--looks", "3", "--until", "0.1", "--tau", "0.55"]
"""Some scenes end at the second of three looks."""
KEY = ("id", "kind", "sigma", "n", "tau", "correction", "metric", "method")
"""What no two records share."""
OWN = ["--model", "python:tiny_model:make", "--out", "OUT", "--quiet"]
COMMANDS = {
    "certify": ["certify", "photo.png", *OWN, *CLAIM],
    "evaluate": ["evaluate", "--data", "pets:pets", "--votes", *OWN, *CLAIM],
    "certify-metric": ["certify", "photo.png", *OWN, *CLAIM, "--metric", "agreement", "--target-radius", "0.1"],
    "certify-sets": ["certify", "photo.png", *OWN, *CLAIM, "--sets", "--cap", "0.9"],
    "certify-looks": ["certify", "photo.png", *OWN, *CLAIM, *LOOKS],
    "evaluate-metric": [
        "evaluate", "--data", "pets:pets", "--votes", *OWN, *CLAIM, "--metric", "accuracy", "--sets", "--cap", "0.9",
    ],
    "evaluate-looks": ["evaluate", "--data", "pets:pets", "--votes", *OWN, *CLAIM, *LOOKS],
    "train": [
        "train", "--data", "pets:pets", *OWN, "--iterations", "8", "--batch-size", "2", "--crop", "16", "16",
        "--log-every", "2", "--save-every", "2", "--validate-every", "4", "--precision", "fp32", "--device", "cpu",
    ],
    "report": ["report", "finished", "--out", "OUT", "--quiet"],
    "join": ["join", "member.safetensors", "member.safetensors", "--out", "OUT/joined.safetensors", "--quiet"],
}  # fmt: skip
"""The commands by name, such as certify-sets for certify with sets; OUT stands for the folder of an attempt."""


def program(name: str) -> str:
    """The command itself of one of `COMMANDS`."""
    return name.partition("-")[0]


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, negative if by a signal, and what it printed."""

    code: int
    text: str

    @property
    def raw(self) -> bool:
        """Whether the user saw a traceback."""
        return "Traceback (most recent call last)" in self.text

    @property
    def hung(self) -> bool:
        """Whether it had to be ended."""
        return self.code == -signal.SIGALRM


@dataclass
class Child:
    """A running command."""

    pid: int
    printed: int
    """The end of a pipe: a limit on files does not cut what is said."""

    def wait(self) -> Ended:
        """Until it ends."""
        with os.fdopen(self.printed, errors="replace") as pipe:
            text = pipe.read()
        return Ended(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text)


@dataclass
class Bench:
    """Inputs, and the results and times of undisturbed runs, in a folder."""

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)
        (self.folder / "tiny_model.py").write_text(MODEL)
        rng = np.random.default_rng(0)
        for each in ("pets/images", "pets/labels"):
            (self.folder / each).mkdir(parents=True)
        for index in range(SCENES):
            picture = Image.fromarray(rng.integers(0, 256, (18, 20, 3), np.uint8))
            picture.save(self.folder / "pets" / "images" / f"{index}.png")
            Image.fromarray(rng.integers(0, 3, (18, 20), np.uint8)).save(
                self.folder / "pets" / "labels" / f"{index}.png"
            )
        picture.save(self.folder / "photo.png")
        for module in ("cli", "training", "evaluation", "report.files", "figures.image", "cli.inputs", "models.saved"):
            importlib.import_module(f"segcertify.{module}")
        os.environ["CAMPAIGN_ASKED"] = str(self.folder / "asked")

    def reference(self, name: str) -> Path:
        """The folder that an undisturbed run of a command leaves; made when first asked for."""
        out = self.folder / f"whole-{name}"
        if name not in self.seconds:
            self._prepare(name)
            self.asked = 0
            start = time.monotonic()
            ended = self.start(name, out).wait()
            if ended.code:
                raise RuntimeError(f"the undisturbed {name} ended with {ended.code}: {ended.text}")
            self.seconds[name] = time.monotonic() - start
            for module in (self.folder / "modules").read_text().split():  # later children find them loaded
                if module not in sys.modules and module.startswith(("segcertify", "torch", "typer", "rich", "PIL")):
                    with suppress(Exception):
                        importlib.import_module(module)
        return out

    def _prepare(self, name: str) -> None:
        """Make what a command needs of others."""
        if name == "report":
            os.symlink(self.reference("evaluate"), self.folder / "finished")
        if name == "join":
            from segcertify.models.saved import FOLDER

            (self.folder / "member.safetensors").write_bytes((FOLDER / "pets.safetensors").read_bytes())

    def start(
        self, name: str, out: Path, *, inside: Callable[[], None] = lambda: None, more: Sequence[str] = ()
    ) -> Child:
        """Fork a child that runs a command; ``inside`` is called there first, to plant what will go wrong."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            return Child(pid, reading)
        code = 70
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        try:
            os.chdir(self.folder)
            for number in (1, 2):
                os.dup2(writing, number)
            sys.stdout, sys.stderr = (os.fdopen(each, "w", encoding="utf-8", closefd=False) for each in (1, 2))
            warnings.simplefilter("default")  # as in a process of its own, also where tests make them errors
            arguments = [part.replace("OUT", os.path.relpath(out, self.folder)) for part in (*COMMANDS[name], *more)]
            sys.argv = ["segcertify", *arguments]
            _save_every_batch()
            _draw_quickly()
            from segcertify.cli import main

            inside()
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            if name not in self.seconds:
                (self.folder / "modules").write_text("\n".join(sys.modules))
            os._exit(code)

    @property
    def asked(self) -> int:
        """How many entries the model was asked to label, since this was last set to 0."""
        path = self.folder / "asked"
        return path.stat().st_size if path.exists() else 0

    @asked.setter
    def asked(self, value: int) -> None:
        (self.folder / "asked").write_bytes(b"." * value)

    def difference(self, name: str, out: Path) -> tuple[str, str] | None:
        """The kind of defect and what it is, if a folder is not what the undisturbed run left; times do not count."""
        whole = self.reference(name)
        found, wanted = ({str(p.relative_to(top)) for p in top.rglob("*")} for top in (out, whole))
        if wanted - found:
            return "lost", f"no {sorted(wanted - found)[:3]}"
        if found - wanted:
            return "left", f"{sorted(found - wanted)[:3]} stayed"
        for each in sorted(wanted):
            if (whole / each).is_file() and (kind := _file_difference(out / each, whole / each)):
                return kind, f"{each} differs"
        return None


def _save_every_batch() -> None:
    """Let every batch be long enough for a checkpoint: it measures time by a clock that leaps."""
    from segcertify.sampling import checkpoint

    leaps = iter(range(0, 10**9, 10**5))
    checkpoint.time = type("Clock", (), {"monotonic": staticmethod(lambda: float(next(leaps)))})  # type: ignore[assignment]


def _draw_quickly() -> None:
    """Write small pictures instead of large ones: it is about the files."""
    from matplotlib.figure import Figure

    def savefig(self: object, target: object, **options: object) -> None:
        Image.new("RGB", (40, 30)).save(target, format="PNG")

    Figure.savefig = savefig  # type: ignore[assignment, method-assign]


def _file_difference(found: Path, wanted: Path) -> str | None:
    """The kind of defect, if two files differ in more than times, dates and digests."""
    if wanted.suffix == ".safetensors":
        return None if _archive(found) == _archive(wanted) else "silent"
    if wanted.name == "records.jsonl":
        ours, theirs = _records(found), _records(wanted)
        keys = [str([line.get(key) for key in KEY]) for line in ours]
        return "doubled" if len(set(keys)) < len(keys) else ("silent" if ours != theirs else None)
    if wanted.name == "log.csv":
        return None if same_losses(_log(found), _log(wanted)) else "silent"
    if wanted.suffix in (".md", ".csv", ".tex", ".png", ".html", ".json"):
        timed = wanted.suffix != ".json"  # tables and figures hold times: they must be whole
        same = (
            found.stat().st_size > 0.5 * wanted.stat().st_size if timed else found.read_bytes() == wanted.read_bytes()
        )
        return None if same else "silent"
    return None


def _archive(path: Path) -> object:
    content = archive.read_content(path)
    header = {key: value for key, value in content.header.items() if key not in ("date", "command")}
    arrays = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in content.arrays.items()}
    return json.dumps(header, sort_keys=True), arrays


def _records(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "digest" and not k.endswith("_seconds")} for line in lines]


def _log(path: Path) -> dict[float, float]:
    """The sum of all losses up to each step that has a row: rows hold the means since the row before."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    step, loss = rows[0].index("step"), rows[0].index("loss")
    sums, last, total = {}, 0.0, 0.0
    for row in rows[1:]:
        total += float(row[loss]) * (float(row[step]) - last)
        last = float(row[step])
        sums[last] = total
    return sums


def same_losses(found: dict[float, float], wanted: dict[float, float]) -> bool:
    """Whether a log has every step of another, with the same losses. A run that was stopped has rows more."""
    return all(step in found and abs(found[step] - total) <= 1e-5 * abs(total) for step, total in wanted.items())


@contextmanager
def bench() -> Iterator[Bench]:
    """A bench in a folder that goes afterwards."""
    with TemporaryDirectory() as folder:
        yield Bench(Path(folder))
