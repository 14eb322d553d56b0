"""Pool: every scene in its canvas; batches: permutations that depend on the seed alone."""

from itertools import islice

import numpy as np
import pytest
import torch
from toys import SIZES, load, quick, tree

import segcertify as sc
from segcertify import InputError
from segcertify.data.augmentation import UNLABELLED
from segcertify.data.images.augmentation import GREY
from segcertify.training.pool import batch_order, class_weights, frequencies
from segcertify.training.streaming import read_pool


@pytest.fixture
def data(tmp_path):
    return load(tmp_path / "toys")


def taken(count, scenes, batch_size, **settings):
    """The first batches, as lists."""
    return [indices.tolist() for indices in islice(batch_order(scenes, batch_size, **settings), count)]


def test_scenes_lie_in_the_corner_of_a_common_canvas(data):
    pool = read_pool(data, "cpu", progress=False)
    assert (len(pool), pool.classes) == (6, 3)
    assert pool.sizes.tolist() == [list(size) for size in SIZES]
    assert pool.images.shape == (6, 3, 24, 32)
    assert pool.targets.shape == (6, 24, 32)
    assert pool.images.dtype == pool.targets.dtype == torch.uint8
    for scene, image, target, (height, width) in zip(data, pool.images, pool.targets, SIZES, strict=True):
        assert np.array_equal(image[:, :height, :width].numpy() / np.float32(255), scene.x)
        assert np.array_equal(target[:height, :width] != UNLABELLED, scene.valid)
        assert np.array_equal(target[:height, :width][scene.valid], scene.target[scene.valid])
        outside = torch.ones(24, 32, dtype=torch.bool)
        outside[:height, :width] = False
        assert (image[:, outside] == GREY).all()
        assert (target[outside] == UNLABELLED).all()
    assert (pool.targets[0, :3, :3] == UNLABELLED).all()


def test_frequencies_are_of_valid_pixels(data):
    labels = np.concatenate([scene.target[scene.valid] for scene in data])
    shares = frequencies(read_pool(data, "cpu", progress=False))
    assert shares.tolist() == pytest.approx([(labels == k).mean() for k in range(3)])


def test_class_weights(data):
    scenes = read_pool(data, "cpu", progress=False)
    assert class_weights(scenes, quick(), "cpu") is None
    found = class_weights(scenes, quick(class_weights="log"), "cpu")
    labels = np.concatenate([scene.target[scene.valid] for scene in data])
    expected = 1 / np.log(1.02 + np.bincount(labels) / len(labels))
    assert (found / found[0]).tolist() == pytest.approx(expected / expected[0], rel=1e-5)
    fixed = class_weights(scenes, quick(class_weights=(0.5, 1.0, 4.5)), "cpu")
    assert fixed.tolist() == pytest.approx([0.25, 0.5, 2.25])


@pytest.mark.parametrize("classes", [255, 256])
def test_targets_are_bytes(tmp_path, classes):
    spec, names = tree(tmp_path), [f"class {i}" for i in range(classes)]
    (tmp_path / "dataset.toml").write_text(
        f'name = "many"\nimages = "{{split}}/images"\nlabels = "{{split}}/labels"\nclasses = {names}\nignore = 255\n'
        f'[label_map]\n0 = "{names[-1]}"\n1 = "{names[0]}"\n2 = "{names[0]}"\n'
    )
    many = sc.data.load(spec)
    if classes == 255:
        assert read_pool(many, "cpu", progress=False).targets.unique().tolist() == [0, 254, 255]
    else:
        with pytest.raises(InputError, match=r"many/train has 256 classes.*at most 255"):
            read_pool(many, "cpu", progress=False)


def test_a_bad_scene_is_named(data, tmp_path):
    (tmp_path / "toys" / "train" / "images" / "3.png").write_bytes(b"x")
    with pytest.raises(InputError, match=r"3\.png"):
        read_pool(data, "cpu", progress=False)


@pytest.mark.parametrize(("scenes", "batch_size"), [(12, 4), (10, 4), (7, 7), (5, 3), (3, 8), (1, 2)])
def test_every_epoch_is_a_permutation(scenes, batch_size):
    order = np.concatenate(taken(4 * scenes, scenes, batch_size, seed=0))
    epochs = order[: len(order) // scenes * scenes].reshape(-1, scenes)
    assert (np.sort(epochs, 1) == np.arange(scenes)).all()


def test_epochs_differ_and_depend_on_the_seed_alone():
    epochs = taken(5, 20, 20, seed=3)
    assert len({tuple(epoch) for epoch in epochs}) == 5
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    assert taken(5, 20, 20, seed=3) == epochs
    assert taken(5, 20, 20, seed=4) != epochs
    assert np.ravel(taken(10, 20, 10, seed=3)).tolist() == np.ravel(epochs).tolist()


@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_share_each_batch(world_size):
    whole = taken(9, 10, 6, seed=1)
    parts = [taken(9, 10, 6 // world_size, seed=1, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert np.concatenate(parts, 1).tolist() == whole


@pytest.mark.parametrize("start", [1, 4, 9])
def test_a_later_start_goes_on_exactly(start):
    assert taken(5, 10, 4, seed=2, start=start) == taken(start + 5, 10, 4, seed=2)[start:]
    later = taken(5, 10, 2, seed=2, start=start, rank=1, world_size=2)
    assert later == taken(start + 5, 10, 2, seed=2, rank=1, world_size=2)[start:]
