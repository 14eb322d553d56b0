"""The pictures of a run's page: which of them it holds, how large they are, and where links lead."""

import base64
import io

import evaluated
import numpy as np
import pytest
import torch
from PIL import Image

from segcertify.data import load
from segcertify.evaluation import Setting, evaluate
from segcertify.figures.palette import palette
from segcertify.records import RunFolder
from segcertify.report import gallery as module
from segcertify.report.gallery import gallery, legend_colours
from segcertify.report.run import Run

SETTING = Setting(0.1, 60, 0.75)
CLAIMS = [None, (SETTING, "holm")]


class Brightness(torch.nn.Module):
    """Cats are bright."""

    def forward(self, batch):
        grey = batch.mean(1)
        return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)


@pytest.fixture
def run(tmp_path):
    data = load(f"pets:{evaluated.pets(tmp_path / 'pets')}")
    return evaluate(Brightness().eval(), data, out=tmp_path / "run", settings=[SETTING], seed=0)


@pytest.fixture
def found(run, tmp_path):
    return lambda **options: gallery(
        tmp_path / "run", run, [*"abcde"], CLAIMS,
        **{"order": [3, 1, 0, 2, 4], "beside": tmp_path / "run" / "report", **options},
    )  # fmt: skip


def path_of(tmp_path, scene, claim=CLAIMS[1]):
    return RunFolder(tmp_path / "run", [*"abcde"]).thumbnail(scene, *(claim or ()))


def large(tmp_path, side=320):
    """Thumbnails of noise, which takes many bytes."""
    rng = np.random.default_rng(0)
    for scene in "abcde":
        for claim in CLAIMS:
            noise = Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8))
            noise.save(path_of(tmp_path, scene, claim), quality=90)


def test_all_are_shown_as_they_are(found, tmp_path):
    for claim, shown in zip(CLAIMS, found(), strict=True):
        assert [base64.b64decode(text) for text in shown.pictures] == [
            path_of(tmp_path, scene, claim).read_bytes() for scene in "abcde"
        ]
        assert shown.links == [[]] * 5  # the run kept no pages
        assert shown.words == ""


def test_too_many_bytes_become_smaller_pictures(found, tmp_path, monkeypatch):
    large(tmp_path)
    monkeypatch.setattr(module, "PICTURE_BYTES", 600_000)
    texts = [text for shown in found() for text in shown.pictures]
    assert all(texts)
    assert sum(map(len, texts)) <= 600_000
    for text in texts:
        with Image.open(io.BytesIO(base64.b64decode(text))) as image:
            assert module.SMALLEST_SIDE <= max(image.size) < 320


def test_then_fewer_and_those_first_that_are_wanted_most(found, tmp_path, monkeypatch):
    large(tmp_path)
    monkeypatch.setattr(module, "PICTURE_BYTES", 20_000)
    base, certified = found()
    shown = [[i for i, text in enumerate(each.pictures) if text] for each in (base, certified)]
    assert sum(len(text) for each in (base, certified) for text in each.pictures) <= 20_000
    assert 1 <= len(shown[0]) < 5
    assert shown[0] == sorted([3, 1, 0, 2, 4][: len(shown[0])])
    assert base.words.startswith(f"Pictures of {len(shown[0])} of 5 scenes: those that come first")


@pytest.mark.parametrize("content", [b"", b"no picture", b"\xff\xd8\xff\xe0 cut", "png", "huge", "folder"])
def test_what_is_no_small_jpeg_is_left_out(found, tmp_path, content):
    path = path_of(tmp_path, "b")
    if content == "png":
        Image.new("RGB", (8, 8)).save(path, format="PNG")
    elif content == "huge":
        Image.new("RGB", (3000, 8)).save(path, format="JPEG")
    elif content == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)
    base, certified = found()
    assert all(base.pictures)
    assert [bool(text) for text in certified.pictures] == [True, False, True, True, True]
    assert certified.words == "Pictures of 4 of 5 scenes: of the others none can be read."


def test_links_lead_to_files_whatever_their_names(tmp_path):
    scene = "50% #1?"
    stored = RunFolder(tmp_path / "a b#c", [scene])
    path = stored.pictures(scene, SETTING, "holm")
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.html").write_text("a page")
    [[(name, address)]] = [module._links(stored, scene, CLAIMS[1], tmp_path / "else" / "where")]
    assert name == "its page"
    assert address.startswith("../../a%20b%23c/certified/")
    assert not set(address) & set("#? ")


BLACK = '"#000000", "#000000"'


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"colours": 3}', f'{{"colours": [{BLACK}]}}', f'{{"colours": ["red", {BLACK}]}}',
     f'{{"colours": ["#00000g", {BLACK}]}}', '{"colours": [1, 2, 3]}'],
)  # fmt: skip
def test_colours_that_cannot_be_read_are_no_legend(run, tmp_path, content):
    assert legend_colours(tmp_path / "run", 3) == [
        f"#{bytes(each).hex()}" for each in np.rint(255 * palette(3)).astype(np.uint8)
    ]
    RunFolder(tmp_path / "run").colours.write_text(content)
    assert legend_colours(tmp_path / "run", 3) == []
    assert Run.load(tmp_path / "run").rows
