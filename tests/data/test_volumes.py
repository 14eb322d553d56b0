"""Volumes in NIfTI files: voxels, spacing, labels, and what is refused before memory is taken."""

import gzip
import sys

import nibabel
import numpy as np
import pytest

from segcertify import InputError, data
from segcertify.data.domain import VOLUME
from segcertify.data.volumes import read_volume, read_volume_labels
from segcertify.storage import limits


def stored(path, values, *, slope=None, spacing=(1.0, 1.0, 2.5), kind=nibabel.Nifti1Image):
    """A NIfTI file of these values, which a slope divides before they are stored."""
    image = kind(values, np.diag([*spacing, 1.0]))
    if slope:
        image.header.set_slope_inter(slope, 1.0)
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_voxels_have_the_values_of_the_file(tmp_path, name, kind):
    raw = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    path = stored(tmp_path / name, raw, kind=kind)
    found = data.read_input(path)
    assert (found.domain, found.x.dtype, found.x.shape) == (VOLUME, np.float32, (1, 2, 3, 4))
    np.testing.assert_array_equal(found.x[0], raw)
    assert found.preprocessing == {"kind": "volume", "spacing": [1.0, 1.0, 2.5]}


def test_slope_and_intercept_are_applied(tmp_path):
    image = nibabel.Nifti1Image(np.array([[[0, 10]]], np.int16), np.eye(4))
    image.header.set_slope_inter(0.5, 1.0)
    content = bytearray(image.to_bytes())
    slope = np.frombuffer(content, "<f4", 2, 112)
    assert slope.tolist() == [0.5, 1.0]
    content[352:] = np.array([0, 10], "<i2").tobytes()  # nibabel divides when it writes: the file says 0 and 10
    (tmp_path / "a.nii").write_bytes(content)
    assert read_volume(tmp_path / "a.nii").x.ravel().tolist() == [1.0, 6.0]


@pytest.mark.parametrize(("shape", "becomes"), [((2, 3, 4, 5), (5, 2, 3, 4)), ((2, 3, 4, 1, 5), (5, 2, 3, 4))])
def test_channels_come_first(tmp_path, shape, becomes):
    raw = np.random.default_rng(0).random(shape).astype(np.float32)
    found = read_volume(stored(tmp_path / "a.nii", raw))
    assert found.x.shape == becomes
    np.testing.assert_array_equal(found.x[1], raw.reshape(2, 3, 4, 5)[..., 1])


def test_labels(tmp_path):
    raw = np.array([[[0, 1, 2]]], np.uint8)
    path = stored(tmp_path / "labels.nii.gz", raw)
    assert read_volume_labels(path, shape=(1, 1, 3)).tolist() == raw.tolist()
    assert read_volume_labels(stored(tmp_path / "b.nii", raw[..., None]), shape=(1, 1, 3)).tolist() == raw.tolist()
    for values, message in [
        (np.zeros((1, 1, 2), np.uint8), r"has the shape \(1, 1, 2\), but its volume has \(1, 1, 3\)"),
        (np.full((1, 1, 3), 0.5), "must hold whole numbers, a class for each voxel"),
        (np.full((1, 1, 3), np.nan), "must hold whole numbers"),
        (np.full((1, 1, 3), 2.0**40), "must hold whole numbers"),
    ]:
        np.save(tmp_path / "bad.npy", values)
        with pytest.raises(InputError, match=message):
            read_volume_labels(tmp_path / "bad.npy", shape=(1, 1, 3))


def test_without_nibabel_the_extra_is_named(tmp_path, monkeypatch):
    path = stored(tmp_path / "a.nii", np.zeros((2, 2, 2), np.float32))
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(InputError, match=r"needs nibabel: pip install 'segcertify\[nifti\]', or save .* \.npy"):
        read_volume(path)


def test_what_is_refused(tmp_path):
    whole = stored(tmp_path / "a.nii", np.zeros((4, 4, 4), np.float32)).read_bytes()
    large = bytearray(whole)
    large[42:48] = np.array([32767] * 3, "<i2").tobytes()  # dim[1:4]: 140 TB
    files = {
        "flat.nii": (stored(tmp_path / "b.nii", np.zeros((4, 4), np.float32)).read_bytes(), r"a volume is \(X, Y, Z\)"),
        "complex.nii": (stored(tmp_path / "c.nii", np.zeros((2, 2, 2), np.complex64)).read_bytes(), "real numbers"),
        "cut.nii": (whole[:400], "promises voxels of the shape .4, 4, 4., but holds 400 bytes"),
        "large.nii": (bytes(large), "promises voxels of the shape .32767, 32767, 32767."),
        "text.nii": (b"not a volume" * 50, "no NIfTI file"),
        "short.nii": (whole[:100], "not a readable NIfTI file"),
        "cut.nii.gz": (gzip.compress(whole)[:-20], "cannot be unpacked"),
    }
    for name, (content, message) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_volume(tmp_path / name)


def test_a_small_file_that_unpacks_to_much(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ARRAY_BYTES", 1000)
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(InputError, match="unpacks to more than 1,000 bytes, the most that is read"):
        read_volume(tmp_path / "a.nii.gz")
