"""The code of the documents runs: every block of Python, and every command but those that take hours."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import trees
from PIL import Image
from torch import nn
from torch.nn.functional import avg_pool2d, avg_pool3d

import segcertify as sc
from segcertify.cli import main
from segcertify.models.networks.hrnet import Architecture, HRNet
from segcertify.models.networks.lite import Lite
from segcertify.models.networks.pointnet2 import PointNet2

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
pytestmark = [
    pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the documents are in the repository only"),
    pytest.mark.fresh_seed,
]

SMALLER = {
    "n=1000, n0=100": "n=80, n0=2", "iterations=4000": "iterations=1, batch_size=2, crop=(16, 16)",
    "draws=8": "draws=2", "hrnet:FILE --data folder:": "hrnet:three.pth --data folder:",
    "hrnet:FILE": "hrnet:weights.pth", "steps=100": "steps=3",
    "'parts?category=Chair'": "'parts?category=Chair&runs=1'", "pointnet2:weights.pth": "pointnet2:points.pth",
}  # fmt: skip
"""What makes a block quick, or a file's name whole."""

QUICK = {"audit": ("--n", "40", "--steps", "2"), "attack": ("--steps", "3")}
"""Options that make a command quick."""

LONG = {"train", "harden", "join", "reproduce", "bench"}
"""Commands that take hours, or that need what these make: `test_docs.py` checks their options."""

WITHOUT = ("...", "cityscapes:", "shapenet:", "fdncnn", "cuda", "hf:", "runs/", "camvid:CAMVID")
"""Data sets, models and places that a test cannot stand in for shortly."""


BEFORE = {
    "audit.md": (
        "segcertify certify photo.jpg --model pets --sigma 0.25 --sets",
        "segcertify certify photo.jpg --model pets --sigma 0.25 --metric accuracy --label labels.png",
        "segcertify evaluate --model pets --data pets:FOLDER --sigma 0.25 --n 80 --tau 0.75 --sets --votes "
        "--out evaluation",
    )
}
"""What was done before the first command of a page."""


def blocks(document, language):
    """The blocks of a language in a document."""
    return re.findall(rf"^```(?:{language})\n(.*?)^```", document.read_text(encoding="utf-8"), re.S | re.M)


def named(documents):
    return [pytest.param(each, id=each.relative_to(ROOT).as_posix()) for each in documents]


PYTHON = [each for each in DOCUMENTS if blocks(each, "python")]
SHELL = [each for each in DOCUMENTS if blocks(each, "(?:ba)?sh")]


def two_classes(batch):
    """Bright or dark, as most of a neighbourhood is."""
    mean = avg_pool2d(batch.mean(1, keepdim=True), 5, stride=1, padding=2, count_include_pad=False)
    return torch.cat([0.5 - mean, mean - 0.5], 1)


def bright_voxels(batch):
    """As `two_classes`, of volumes of one channel."""
    mean = avg_pool3d(batch, 3, 1, 1, count_include_pad=False)
    return torch.cat([0.5 - mean, mean - 0.5], 1)


def names():
    """What a reader has before the first line: models, inputs, and what hangs on them."""
    x = torch.full((3, 16, 24), 0.2)
    x[..., 12:] = 0.8
    votes = sc.sample(two_classes, x, noise=sc.Gaussian(0.25), n=100, n0=10, counts=True)
    torch.manual_seed(0)
    return {
        "sc": sc, "np": np, "torch": torch, "x": x, "votes": votes, "model": two_classes,
        "certificate": sc.certify_votes(votes, tau=0.75, alpha=0.001), "target": np.zeros((16, 24), np.int64),
        "names": ("dark", "bright"), "network": nn.Conv2d(3, 4, 1).eval(),
        "scores": lambda batch: two_classes(batch)[:, 1:], "clouds": torch.rand(2, 30, 3),
        "cloud_model": lambda batch: batch.transpose(1, 2), "parts": torch.zeros(2, 30, dtype=torch.long),
        "class_scores": two_classes, "classifier": lambda batch: batch.flatten(1)[:, :3],
        "prompt_model": lambda batch, point: two_classes(batch - batch[..., point[0] : point[0] + 1, :1] * 0),
        "volume": torch.full((1, 6, 8, 10), 0.8), "unet": lambda batch, t: batch * 0.1,
        "volume_model": bright_voxels,
        "scheduler": type("Scheduler", (), {"alphas_cumprod": torch.linspace(0.999, 0.01, 50)}),
        "batch": x[None], "labels": (x.mean(0) > 0.5).long()[None], "draw": None,
    }  # fmt: skip


def files(folder):
    """What a reader has in the folder."""
    torch.manual_seed(0)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    for name in ("photo.jpg", "photos/a.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / name)
    Image.fromarray((pixels[..., 0] > 127).astype(np.uint8)).save(folder / "labels.png")
    for name, classes in (("weights.pth", 11), ("three.pth", 3)):
        network = HRNet(Architecture(width=4, classes=classes, blocks=1, modules=(1, 1, 1)))
        torch.save(network.state_dict(), folder / name)
    torch.save(PointNet2().state_dict(), folder / "points.pth")
    for make in (trees.camvid, trees.folder, trees.shapenet):
        make(folder / "FOLDER")
    trees.pets(folder / "FOLDER", count=4)
    trees.camvid(folder / "CAMVID")
    chair = sc.data.load("shapes:?category=Chair&count=1&normals=true&points=600")[0].x
    np.savetxt(folder / "chair.txt", chair)
    columns = [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")]
    head = ["ply", "format ascii 1.0", f"element vertex {len(chair)}", *columns, "end_header"]
    np.savetxt(folder / "chair.ply", chair, header="\n".join(head), comments="")
    encoder = {f"encoder.{name}": value for name, value in Lite(11).encoder.state_dict().items()}
    torch.save(encoder, folder / "efficientnet-lite0.pth")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a reader's files, from which nothing is imported afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    files(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", named(PYTHON))
def test_python_runs(document, here, monkeypatch):
    """All blocks of a document, one after the other, as a reader would."""
    small = torch.rand(3, 16, 20, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("segcertify.demo.photograph", lambda: small)
    known = names()
    for block in blocks(document, "python"):
        exec(compile(_quick(block), document.name, "exec"), known)


def _quick(text):
    for long, short in SMALLER.items():
        text = text.replace(long, short)
    return text


def commands(document):
    """The commands of a document's blocks, as lists of words, without those that a test cannot run."""
    for block in blocks(document, "(?:ba)?sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(_quick(line), comments=True)
            if words[:1] == ["segcertify"] and words[1] not in LONG and not any(each in line for each in WITHOUT):
                has = [option for option in QUICK.get(words[1], ()) if option.startswith("--") and option in words]
                yield words if has or "--sampler" in words else [*words, *QUICK.get(words[1], ())]


@pytest.mark.parametrize("document", named(each for each in SHELL if [*commands(each)]))
def test_commands_run(document, here, monkeypatch):
    """The commands of a document, one after the other, in a folder with a reader's files."""
    first = [shlex.split(line) for line in BEFORE.get(document.name, ())]
    for words in [*first, *commands(document)]:
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, words


def test_a_wrong_block_is_found(tmp_path):
    """What a planted fault in a document does: a name that is gone, and an option that never was."""
    page = tmp_path / "page.md"
    page.write_text("```python\nsc.certfy(model, x)\n```\n```sh\nsegcertify plan --tua 0.9\n```\n")
    with pytest.raises(AttributeError, match="certfy"):
        exec(blocks(page, "python")[0], {"sc": sc})
    assert [*commands(page)] == [["segcertify", "plan", "--tua", "0.9"]]


def test_most_commands_are_run():
    run = sum(len([*commands(each)]) for each in SHELL)
    assert run > 40, run
