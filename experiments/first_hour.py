"""What a newcomer tries in the first hour, with this version and with an older one: what came, and how long it took.

    python experiments/first_hour.py --data 'pets:FOLDER?split=val' --before CHECKOUT --out results/first-hour

CHECKOUT is a working tree of an older version of this repository (git worktree add CHECKOUT COMMIT). Each trial is a
command of its own, without a terminal, in a folder with the files of `newcomer.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from newcomer import bring
from page import Results, document, parser, render, save, start

import segcertify as sc
from segcertify.cli.options import chosen_scenes
from segcertify.errors import InputError
from segcertify.names import markdown

ROOT, OUT = Path(__file__).parents[1], "results/first-hour"
LIMIT = 400
"""Seconds for a trial."""
PIECES = 3
"""How much of what was printed is kept: at most so many places that fit."""

CERTIFIED = r"certified\s+[\d,]+ of [\d,]+ \([\d.]+%\)"
RIGHT = r"certified and right: the accuracy\s+[\d.]+%"
REFUSED = r"not overwritten[^.]*"
PYTHON = """import sys, warnings; sys.path.insert(0, ""); import segcertify as sc; from mine import *
x, net = photograph(), sc.models.load("pets"); warnings.simplefilter("always")
cert = {}
print(f"certified {{cert.certified:,}} of {{cert.N:,}} ({{cert.certified / cert.N:.1%}})")"""


class Trial(NamedTuple):
    """What a newcomer has or wants, what is written, and what (a regular expression) should then be printed."""

    what: str
    words: str
    hoped: str = CERTIFIED
    kept: bool = False
    """Whether no file that was there may be changed."""


SMALL, CHAIR = "--sigma 0.25 --n 70", "--model 'parts?category=Chair' --sigma 0.1 --n 70"
TRIALS = (
    Trial("a phone's photograph, 12 megapixels", "segcertify certify photo.jpg --model pets --sigma 0.25"),
    Trial("the same file, another sigma: nothing overwritten", "segcertify certify photo.jpg --model pets --sigma 0.5",
          REFUSED, True),
    Trial("another model: nothing overwritten", "segcertify certify photo.jpg --model pets-non-robust --sigma 0.25",
          REFUSED, True),
    Trial("ground truth for the upright photograph",
          "segcertify certify photo.jpg --model pets --sigma 0.25 --label photo-label.png --out labelled", RIGHT),
    Trial("ground truth whose void is 11",
          "segcertify certify small.jpg --model pets --sigma 0.25 --label small-label.png --out void",
          r"holds the value 11.*?--ignore 11"),
    Trial("that option", "segcertify certify small.jpg --model pets --sigma 0.25 --label small-label.png --ignore 11 "
          "--out void", RIGHT),
    Trial("several files", f"segcertify certify photos/a.jpg photos/b.jpg --model pets {SMALL} --out several"),
    Trial("a folder", f"segcertify certify photos --model pets {SMALL} --out folder"),
    Trial("slow work without a terminal: a line a minute",
          f"segcertify certify small.jpg --model python:mine:slow {SMALL} --out slow", r"\d+/\d+, .*?left"),
    Trial("a network that returns a dictionary", 'sc.certify(lambda b: {"out": net(b)}, x, sigma=0.25)'),
    Trial("a tuple", "sc.certify(lambda b: (net(b),), x, sigma=0.25)"),
    Trial("two outputs: refused, with the cure", "sc.certify(lambda b: (net(b), net(b)), x, sigma=0.25)",
          r"say which .*?adapt\(model, output=0\)"),
    Trial("Hugging Face's output", "sc.certify(lambda b: HuggingFace(net(b)), x, sigma=0.25)"),
    Trial("NumPy", "sc.certify(lambda b: net(b).numpy(), x, sigma=0.25)"),
    Trial("an array as JAX has", "sc.certify(lambda b: JaxLike(net(b)), x, sigma=0.25)"),
    Trial("an image in 0..255: a warning", "sc.certify(net, 255 * x, sigma=0.25)", r"values in .*?divide by 255"),
    Trial("a scan in 0..1000: a warning", "sc.certify(volumes(), torch.rand(1, 9, 9, 9) * 1000, sigma=0.25)",
          r"the volume has values in .*?\[0, 1\]"),
    Trial("logits without the border: a warning",
          "sc.certify(lambda b: unet(3)(b)[..., 2:-2, 2:-2], x, sigma=0.25)", r"logits of .*? are stretched .*?Pad"),
    Trial("coarse logits without the border", "sc.certify(lambda b: net(b)[..., 2:-2, 2:-2], x, sigma=0.25)",
          r"logits of .*? are stretched .*?Pad"),
    Trial("one score a pixel: refused, with the cure", "sc.certify(binary(), x, sigma=0.25)", r"Decisions\(model\)"),
    Trial("that cure, on the command line",
          f"segcertify certify small.jpg --model 'python:mine:binary?above=0' {SMALL} --out binary"),
    Trial("a checkpoint of before PyTorch 0.4.1",
          f"segcertify certify small.jpg --model hrnet:old.pth {SMALL} --out old"),
    Trial("a network of BGR images",
          f"segcertify certify small.jpg --model 'hrnet:old.pth?bgr=true' {SMALL} --out bgr"),
    Trial("a factory that takes num_classes",
          f"segcertify certify small.jpg --model 'python:mine:unet?classes=11' {SMALL} --out classes"),
    Trial("Mask2Former (random weights)", f"segcertify certify small.jpg --model hf:mask2former {SMALL} --out m2f"),
    Trial("OneFormer (random weights)", f"segcertify certify small.jpg --model hf:oneformer {SMALL} --out one"),
    Trial("a volume in NumPy's form, with ground truth", "segcertify certify scan.npy --model python:mine:volumes "
          f"{SMALL} --label seg.npy --out volume", r"certified and right.*?%|wrote volume/certified.png"),
    Trial("in NIfTI", "segcertify certify scan.nii.gz --model python:mine:volumes "
          f"{SMALL} --label seg.nii.gz --out nifti", r"certified and right.*?%|wrote nifti/certified.png"),
    Trial("a cloud without normals", f"segcertify certify chair.txt {CHAIR} --out txt"),
    Trial("`.xyz`", f"segcertify certify chair.xyz {CHAIR} --out xyz"),
    Trial("`.csv`", f"segcertify certify chair.csv {CHAIR} --out csv"),
    Trial("`.pcd`, text", f"segcertify certify text.pcd {CHAIR} --out pcd"),
    Trial("`.pcd`, binary", f"segcertify certify binary.pcd {CHAIR} --out pcd-binary"),
    Trial("how many draws, and which R", "segcertify plan -N 360x480 --sigma 0.25",
          r"recommended n\s+[\d,]+|radius R of.*?[\d.]{5,}"),
    Trial("how long here", "segcertify plan --model pets --size 160x240", r"about \d+ (?:s|minutes)"),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Try all and write the page, or only write the page."""
    command = parser(__doc__, OUT)
    command.add_argument("--before", type=Path, help="a working tree of an older version")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
    elif not options.data or not options.before:
        raise InputError("name scenes and an older version: --data 'pets:FOLDER' --before CHECKOUT, or --render FOLDER")
    else:
        save(options.out or Path(OUT), run(options), page)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The results of both versions, each in a new folder with the same files."""
    data = chosen_scenes(options.data, limit=1)
    scene, found = data[0], dict[str, list[dict[str, Any]]]()
    for name, tree in (("before", options.before.resolve()), ("now", ROOT)):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "newcomer"
            bring(folder, np.asarray(scene.x), np.asarray(scene.labels))
            found[name] = [tried(trial, folder, tree) for trial in TRIALS]
    commits = {name: _commit(tree) for name, tree in (("before", options.before), ("now", ROOT))}
    about = {"data": data.name, "scene": scene.id, "commits": commits, "version": sc.__version__}
    return about | {"trials": [{"what": each.what, "command": each.words} for each in TRIALS], **found}


def tried(trial: Trial, folder: Path, tree: Path) -> dict[str, Any]:
    """What a version answers to a trial: whether it is what was hoped for, in which words, in how many seconds."""
    python = f"{sys.executable} -m segcertify"
    words = trial.words.replace("segcertify", python, 1) if trial.words.startswith("segcertify ") else None
    command = ["bash", "-c", words] if words else [sys.executable, "-c", PYTHON.format(trial.words)]
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "COLUMNS": "4000",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    before, start, used = _files(folder), time.perf_counter(), _processor()
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        printed, failed = done.stderr + done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired:
        printed, failed = f"error: not done in {LIMIT} s", True
    seconds, processor = time.perf_counter() - start, _processor() - used
    changed = [name for name, digest in before.items() if _files(folder).get(name) != digest]
    works, said = judged(trial, printed.replace(f"{folder}/", "").replace(f"{tree}/", ""), changed, failed=failed)
    print(f"{'yes' if works else 'no':4}{seconds:6.0f} s  {trial.what}: {said}", flush=True)
    return {"works": works, "said": said, "seconds": round(seconds, 1), "processor_seconds": round(processor, 1)}


def judged(trial: Trial, printed: str, changed: Sequence[str], *, failed: bool) -> tuple[bool, str]:
    """Whether a trial printed what was hoped for and changed nothing that it must not, and what to quote of it."""
    text = re.sub(r"[\s│┃]+", " ", printed)
    if trial.kept and changed:
        return False, f"overwrote {', '.join(changed)}"
    if found := re.findall(trial.hoped, text):
        return True, "; ".join([*dict.fromkeys(each.strip() for each in found)][:PIECES])
    if failed:  # the last error, or what is in the box of a wrong command line
        errors = re.findall(r"[Ee]rror: (.*)", printed) or re.findall(r"│ (.*?) *│\s*$", printed, re.M) or [text]
        return False, f"refused: {errors[-1].strip()[:160]}"
    certified = re.findall(CERTIFIED, text)
    return False, f"{certified[-1]}, and no word of it" if certified else "no word of it"


def _files(folder: Path) -> dict[str, str]:
    """The digest of every result, by its path."""
    kinds = (".safetensors", ".png", ".html")
    found = sorted(path for path in folder.rglob("*") if path.suffix in kinds and "former" not in path.parts[-2])
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _processor() -> float:
    """The processor time of all commands that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _commit(tree: Path) -> str:
    told = subprocess.run(
        ["git", "-C", str(tree), "log", "-1", "--format=%h of %cs"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"


def page(results: Results, folder: Path) -> str:
    """The table: what, the command, and what both versions answered in how many seconds."""
    commits, tried = results["commits"], len(results["trials"])
    hoped = {name: sum(each["works"] for each in results[name]) for name in ("before", "now")}
    lines = ["| what | command | before | s | now | s |", "| --- | --- | --- | --: | --- | --: |"]
    for trial, before, now in zip(results["trials"], results["before"], results["now"], strict=True):
        cells = (trial["what"], f"`{trial['command']}`", *_cells(before), *_cells(now))
        lines.append(f"| {' | '.join(cells)} |")
    return document(
        "first_hour",
        "The first hour, before and now",
        f"segcertify {results['version']}, commit {commits['now']}; before: commit {commits['before']}",
        f"What a newcomer tries. Each is a command of its own, without a terminal. Of {tried}, {hoped['before']} did "
        f"what a newcomer hopes for before, and {hoped['now']} do now. The others begin with **no**.",
        "\n".join(lines),
        [
            "Seconds are of processor time, and those that passed are in brackets: the machine has two cores, no GPU, "
            "and was shared; each command had one thread. They include the start of Python and the loading of torch "
            "and of the model.",
            f"The photograph is the scene `{results['scene']}` of {results['data']}, enlarged to 12 megapixels and "
            "stored lying on its side, as phones do, with an EXIF orientation. `experiments/newcomer.py` makes all "
            "files.",
            'In lines of Python, `x` is the photograph at its own size, and `net` is `sc.models.load("pets")`.',
        ],
    )


def _cells(answer: Results) -> tuple[str, str]:
    said = markdown(answer["said"])
    times = f"{answer['processor_seconds']:.0f} ({answer['seconds']:.0f})"
    return said if answer["works"] else f"**no**: {said}", times


if __name__ == "__main__":
    start(main)
