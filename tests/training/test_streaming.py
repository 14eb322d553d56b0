"""Streaming: the same batches and weights as from memory, within a limit of memory; bad files are named."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from toys import SIZES, killed, load, quick, same, trained, weights
from trees import cityscapes

import segcertify as sc
from segcertify import InputError
from segcertify.data import mixture
from segcertify.data.augmentation import UNLABELLED
from segcertify.data.images.augmentation import GREY
from segcertify.training import streaming
from segcertify.training.log import TIMES, read_log
from segcertify.training.pool import CloudPool, ImagePool, batch_order
from segcertify.training.streaming import StreamedPool, read_pool

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(params=["images", "clouds"])
def scenes(request, tmp_path):
    return load(tmp_path / "toys") if request.param == "images" else sc.data.load("shapes:?points=64&normals=true")


def tensors(batch):
    return {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}


# The same as from memory


def test_streamed_batches_are_those_of_the_pool(scenes):
    held, streamed = (read_pool(scenes, "cpu", memory=memory, progress=False) for memory in (1, 0))
    assert isinstance(held, ImagePool | CloudPool)
    assert isinstance(streamed, StreamedPool)
    assert (len(streamed), streamed.classes, streamed.noised) == (len(held), held.classes, held.noised)
    order = [indices for indices, _ in zip(batch_order(len(scenes), 4, seed=1), range(7), strict=False)]
    pairs = list(zip(held.batches(order), streamed.batches(order), strict=True))
    assert len(pairs) == 7
    for expected, found in pairs:
        assert type(found) is type(expected)
        assert same(tensors(found), tensors(expected))
        assert (found.classes, len(found)) == (expected.classes, 4)
    for (x, target), (y, other) in zip(held.scenes(), streamed.scenes(), strict=True):
        assert torch.equal(x, y)
        assert torch.equal(target, other)


def test_canvases_are_grey_and_unlabelled_outside_every_image(tmp_path):
    pool = read_pool(load(tmp_path / "toys"), "cpu", memory=0, progress=False)
    for batch in pool.batches([torch.arange(6)] * 4):
        for image, target, (height, width) in zip(batch.images, batch.targets, SIZES, strict=True):
            outside = torch.ones(24, 32, dtype=torch.bool)
            outside[:height, :width] = False
            assert (image[:, outside] == GREY).all()
            assert (target[outside] == UNLABELLED).all()


@pytest.mark.parametrize(
    "how",
    [
        {"optimiser": "adamw", "objective": "consistency", "rotate": 20.0},
        {"optimiser": "sgd", "class_weights": "log", "ema": 0},
    ],
)
def test_streamed_and_held_runs_end_with_the_same_weights(tmp_path, how):
    data, recipe = load(tmp_path / "toys"), quick(**how)
    others = load(tmp_path / "toys", split="val", sizes=[(20, 24), (18, 26)])
    paths = [
        trained(data, tmp_path / name, recipe, validation=others, memory=memory)
        for name, memory in (("held", None), ("streamed", 0))
    ]
    assert same(*map(weights, paths))
    logs = [
        [{k: v for k, v in row.items() if k not in TIMES} for row in read_log(path.with_name("log.csv"))]
        for path in paths
    ]
    assert logs[0] == logs[1]
    assert sc.models.read_card(paths[0]) == sc.models.read_card(paths[1])


def test_a_streamed_run_that_was_killed_ends_as_a_held_one(tmp_path, monkeypatch):
    data, recipe = load(tmp_path / "toys"), quick()
    whole = trained(data, tmp_path / "whole", recipe)
    killed(data, tmp_path / "parts", recipe, monkeypatch, after=6, memory=0)
    assert same(weights(trained(data, tmp_path / "parts", recipe, memory=0)), weights(whole))
    killed(data, tmp_path / "mixed", recipe, monkeypatch, after=6, memory=0)  # resumed from memory
    assert same(weights(trained(data, tmp_path / "mixed", recipe)), weights(whole))


def test_no_thread_outlives_its_run(tmp_path, monkeypatch):
    data, before = load(tmp_path / "toys"), threading.active_count()
    trained(data, tmp_path / "whole", memory=0)
    killed(data, tmp_path / "parts", quick(), monkeypatch, after=6, memory=0)
    assert threading.active_count() == before


def test_only_a_few_batches_are_read_ahead(tmp_path, monkeypatch):
    data, read = load(tmp_path / "toys"), []
    real = type(data).__getitem__
    monkeypatch.setattr(type(data), "__getitem__", lambda self, index: (read.append(index), real(self, index))[1])
    pool = read_pool(data, "cpu", memory=0, progress=False)
    assert read == []  # headers suffice
    batches = pool.batches(batch_order(6, 4, seed=0))
    next(batches)
    batches.close()
    assert len(read) <= 12  # the batch that is used, and two more


# Which data are streamed


def test_data_are_streamed_if_they_need_more_than_the_memory(tmp_path, monkeypatch):
    data = load(tmp_path / "toys")
    needed = 6 * 4 * 24 * 32  # images x (three colours and a class) x the canvas
    for memory, streamed in ((needed / 1e9, False), ((needed - 1) / 1e9, True), (0, True)):
        assert isinstance(read_pool(data, "cpu", memory=memory, progress=False), StreamedPool) == streamed
    for free, streamed in ((2 * needed, False), (2 * needed - 1, True)):
        monkeypatch.setattr(streaming, "free_memory", lambda device, free=free: free)
        assert isinstance(read_pool(data, "cpu", progress=False), StreamedPool) == streamed


def test_free_memory_is_known():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1e6 < streaming.free_memory("cpu") <= total


@pytest.mark.parametrize("memory", [-1, float("nan"), "x"])
def test_a_memory_that_is_none_is_refused_before_anything_is_read(tmp_path, memory):
    with pytest.raises(InputError, match="memory must be"):
        trained(load(tmp_path / "toys"), tmp_path / "out", memory=memory)
    assert not (tmp_path / "out").exists()


# A limit of memory

COUNT, SIDES = 640, (256, 512)
LIMITED = """
import resource, sys
from dataclasses import replace
import torch
import segcertify as sc
from toys import small
from segcertify.training import Intervals, Recipe, train

data = sc.data.load(sys.argv[1])
memory = None if sys.argv[2] == "held" else float(sys.argv[2])
recipe = Recipe(iterations=int(sys.argv[5]), batch_size=4, crop=(32, 32), precision="fp32", sigma=(0.25,))
usual = {"spec": "python:toys:small", "device": "cpu"}
train(small(classes=19), data.limit(8), replace(recipe, iterations=4), out=sys.argv[3] + "-warm", **usual)
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + int(sys.argv[4]), resource.RLIM_INFINITY))
train(small(classes=19), data, recipe, out=sys.argv[3], memory=memory, **usual)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A Cityscapes tree of 335 MB of pixels and labels: 640 names of the same few files."""
    root = cityscapes(tmp_path_factory.mktemp("cityscapes"), size=SIDES)
    kinds = ("leftImg8bit", "leftImg8bit.png"), ("gtFine", "gtFine_labelIds.png")
    sources = [sorted((root / kind / "train").rglob(f"*_{suffix}"))[0] for kind, suffix in kinds]
    for i in range(COUNT - 3):
        for source, (kind, suffix) in zip(sources, kinds, strict=True):
            os.link(source, root / kind / "train" / "frankfurt" / f"frankfurt_1{i:05}_000000_{suffix}")
    return f"cityscapes:{root}?split=train"


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA bounds all private memory on Linux alone")
@pytest.mark.parametrize(("memory", "trains"), [("held", False), ("0.1", True)])
def test_data_larger_than_the_memory_are_trained_on(large, tmp_path, memory, trains):
    """The process may take 160 MB more than after a warm-up run, and reads 335 MB, every scene once.

    Held data exceed the limit; streamed data train.
    """
    helpers = Path(__file__).parents[1] / "helpers"
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "PYTHONPATH": os.pathsep.join([str(helpers), *filter(None, sys.path)]),
    }
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, large, memory, str(tmp_path / "out"), "160000000", str(COUNT // 4)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert COUNT * 4 * SIDES[0] * SIDES[1] > 2 * 160_000_000
    assert (result.returncode == 0) == trains, result.stderr
    assert (tmp_path / "out" / "model.safetensors").exists() == trains
    if not trains:
        assert "memory" in result.stderr.lower()


# Files that are not as they should be


@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("images", b"x", r"3\.png is not an image"),
        ("labels", b"x", r"3\.png is not an image"),
        ("labels", None, r"3\.png is 8 x 9 pixels"),
    ],
)
def test_bad_headers_are_named_before_the_first_step(tmp_path, memory, kind, content, message):
    data, file = load(tmp_path / "toys"), tmp_path / "toys" / "train" / kind / "3.png"
    if content is None:
        Image.fromarray(np.zeros((8, 9), np.uint8)).save(file)
    else:
        file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        trained(data, tmp_path / "out", memory=memory)
    assert not (tmp_path / "out" / "log.csv").exists()


def test_a_file_that_is_cut_short_is_named_when_it_is_read(tmp_path):
    data, file = load(tmp_path / "toys"), tmp_path / "toys" / "train" / "images" / "3.png"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(InputError, match=r"3\.png cannot be read .*truncated"):
        trained(data, tmp_path / "out", memory=0)


def test_clouds_of_several_sizes_are_refused():
    one, two = (sc.data.load(f"shapes:?points={points}") for points in (64, 65))
    for memory in (None, 0):
        with pytest.raises(InputError, match=r"clouds of \(64, 4\) and of other shapes, such as .* of \(65, 4\)"):
            list(read_pool(mixture([one, two]), "cpu", memory=memory, progress=False).scenes())
