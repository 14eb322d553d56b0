"""Counting: the smallest types, blocks, and the memory and the files that follow from them."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify.sampling import counting, segmenter
from segcertify.sampling.draws import count_type
from segcertify.storage import archive, sparse

MEMORY = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def test_memory_and_checkpoint_are_bounded(tmp_path):
    """Of 150 classes: 12.6 bytes of memory per component and class, and 4 in the file, before counts were small."""
    path = tmp_path / "memory.json"
    options = ["--components", str(2**20), "--n", "2", "--n0", "3", "--every", "0.01", "--json", str(path)]
    subprocess.run([sys.executable, "-W", "ignore", str(MEMORY), *options], check=True, timeout=120)
    numbers = json.loads(path.read_text())
    assert numbers["bytes_per_component_and_class"] < 3.5
    assert numbers["largest_checkpoint_mib"] < 0.3 * 150  # 2^20 components: MiB are bytes per component


@pytest.mark.parametrize(("n", "expected"), [(255, torch.uint8), (256, torch.int16), (32768, torch.int32)])
def test_counts_have_the_smallest_type_that_holds_them(n, expected):
    assert count_type(n) == expected


def test_no_count_wraps_around():
    """Of 300 equal draws, also where both passes are in one batch."""
    votes = sc.sample(lambda batch: batch.long() * 0 + 7, image(), noise=NOISE, n=300, n0=256, batch_size=300, seed=0)
    assert (votes.candidate == 7).all()
    assert (votes.agree == 300).all()


def test_candidates_do_not_depend_on_the_blocks(monkeypatch):
    whole = sc.sample(stripes, image(), noise=NOISE, n=20, n0=9, seed=0)
    monkeypatch.setattr(counting, "_BLOCK", 7)
    assert same(whole, sc.sample(stripes, image(), noise=NOISE, n=20, n0=9, seed=0))


def test_labels_do_not_depend_on_how_many_logits_are_upsampled_at_once(monkeypatch):
    """Also among equal logits, of which the lowest class counts; 13 rows are no multiple of the logits' 7."""
    batch = torch.stack([image(seed, (3, 13, 16)) for seed in range(3)])
    logits = Conv(stride=2, classes=7).eval()(batch).detach()
    logits[:, 4] = logits[:, 1]
    whole = segmenter.to_labels(logits, batch)
    assert torch.equal(whole, segmenter.upsampled(logits, batch).argmax(1))
    for at_once in (1, 2 * batch[:, 0].numel(), 3 * batch[:, 0].numel()):
        monkeypatch.setattr(segmenter, "_LOGITS", at_once)
        assert torch.equal(segmenter.to_labels(logits, batch), whole)


@pytest.mark.parametrize(("every", "most"), [(1e-6, 3), (0, 30)])
def test_saving_takes_a_small_share_of_the_time(tmp_path, monkeypatch, every, most):
    """A save of 50 ms is followed by 1.6 s without one; unless every batch is to be saved."""
    write, saves = archive.write, []

    def slow(path, **content):
        time.sleep(0.05)
        saves.append(path)
        write(path, **content)

    monkeypatch.setattr(archive, "write", slow)
    settings = {"noise": NOISE, "n": 18, "n0": 10, "batch_size": 1, "seed": 0, "checkpoint": tmp_path / "resume"}
    sc.sample(stripes, image(), **settings, checkpoint_every=every)
    assert len(saves) <= most
    assert len(saves) == 28 or every


def test_a_dense_checkpoint_of_version_2_resumes(tmp_path):
    """Stopped in the first pass, where the file then held the counts of all classes as they are."""
    path, settings = tmp_path / "resume", {"noise": NOISE, "n": 20, "n0": 12, "batch_size": 2, "seed": 0}
    calls = []

    def mortal(batch):
        calls.append(len(batch))
        if len(calls) > 9:
            raise KeyboardInterrupt
        return stripes(batch)

    with pytest.raises(KeyboardInterrupt):
        sc.sample(mortal, image(), **settings, checkpoint=path, checkpoint_every=0)
    header, arrays = archive.read(path, kind="checkpoint", version=3)
    assert header["phase"] == "candidate"

    dense = np.stack([*sparse.unpacked("counts", arrays, (3, 12, 16))]).astype(np.int32)
    assert (dense.sum(0) == header["done"]).all()
    old = {"counts": dense, "labels_of_probes": arrays["labels_of_probes"]}
    archive.write(path, kind="checkpoint", version=2, header=header, arrays=old)
    assert same(sc.sample(stripes, image(), **settings, checkpoint=path), sc.sample(stripes, image(), **settings))


def test_a_checkpoint_whose_candidates_are_no_classes_is_refused(tmp_path):
    """With a right digest; it ended in an error of torch's."""
    path, settings = tmp_path / "resume", {"noise": NOISE, "n": 20, "n0": 4, "batch_size": 2, "seed": 0}
    calls = []

    def mortal(batch):
        calls.append(len(batch))
        if len(calls) > 12:
            raise KeyboardInterrupt
        return stripes(batch)

    with pytest.raises(KeyboardInterrupt):
        sc.sample(mortal, image(), **settings, counts=True, classes=40, checkpoint=path, checkpoint_every=0)
    header, arrays = archive.read(path, kind="checkpoint", version=3)
    assert header["phase"] == "agree"
    arrays["candidate"] = np.full_like(arrays["candidate"], 100)
    archive.write(path, kind="checkpoint", version=3, header=header, arrays=arrays)
    with pytest.raises(sc.InputError, match="the candidate labels reach 100, but there are 40 classes"):
        sc.sample(stripes, image(), **settings, counts=True, classes=40, checkpoint=path)
