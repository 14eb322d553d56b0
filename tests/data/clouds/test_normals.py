"""Estimated normals point where a surface does, turn with it, and are the same for the same points."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import segcertify as sc
from segcertify.data.clouds.cloudset import read_cloud
from segcertify.data.clouds.normals import NEIGHBOURS, estimated_normals
from segcertify.preprocessing import file_radius, in_words, require_preprocessing


@pytest.fixture
def sphere():
    points = np.random.default_rng(0).normal(size=(2000, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_on_a_sphere_they_point_outwards(sphere):
    normals = estimated_normals(sphere + 7)
    assert ((normals * sphere).sum(axis=1) > 0.98).all()
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=2e-6)


def test_they_turn_with_the_cloud(sphere):
    turn = Rotation.from_rotvec([0.3, -0.5, 0.9]).as_matrix()
    stretched = sphere * [1, 2, 0.5]
    np.testing.assert_allclose(estimated_normals(stretched @ turn.T), estimated_normals(stretched) @ turn.T, atol=1e-5)


def test_large_clouds_are_done_in_parts(sphere, monkeypatch):
    whole = estimated_normals(sphere)
    monkeypatch.setattr("segcertify.data.clouds.normals.AT_ONCE", 300)
    np.testing.assert_array_equal(estimated_normals(sphere), whole)


@pytest.mark.parametrize("points", [[[0, 0, 0], [1, 0, 0]], [[1, 1, 1]] * 40, [[i, 0, 0] for i in range(40)]])
def test_odd_clouds_have_some(points):
    normals = estimated_normals(np.array(points, float))
    assert np.isfinite(normals).all()
    assert normals.shape == (len(points), 3)


def test_a_file_without_normals_gets_them_and_says_so(sphere, tmp_path):
    np.savetxt(tmp_path / "a.xyz", sphere * 3 + 1)
    found = read_cloud(tmp_path / "a.xyz", None, normals=True)
    assert found.x.shape == (2000, 6)
    assert found.preprocessing["normals_from"] == NEIGHBOURS
    np.testing.assert_allclose(found.x[:, 3:], estimated_normals(found.x[:, :3].astype(float)), atol=1e-3)
    assert "no normals: they were estimated from each point's 16 nearest" in in_words(found.preprocessing)
    assert require_preprocessing(found.preprocessing) == found.preprocessing
    assert "normals_from" not in read_cloud(tmp_path / "a.xyz", None).preprocessing


@pytest.mark.parametrize("norm", ["l2", "angle"])
def test_no_radius_of_the_file_is_claimed(sphere, tmp_path, norm):
    """Points that move in the file move its estimated normals, on which there was no noise."""
    np.savetxt(tmp_path / "a.xyz", sphere)
    assert file_radius(0.1, norm, read_cloud(tmp_path / "a.xyz", None, normals=False).preprocessing) is not None
    assert file_radius(0.1, norm, read_cloud(tmp_path / "a.xyz", None, normals=True).preprocessing) is None


def test_the_plain_sentence_names_them():
    votes = sc.Votes(
        candidate=np.zeros(50, int), agree=np.full(50, 100), n=100, n0=10,
        noise=sc.Gaussian(0.25, channels=(0, 1, 2), axis=1), input_shape=(50, 6),
        preprocessing={"kind": "cloud", "centre": [0.0, 0.0, 0.0], "factor": 1.0, "normals_from": 16},
    )  # fmt: skip
    certificate = sc.certify_votes(votes, tau=0.75, alpha=0.001)
    assert "with the normals that were estimated from it as they are" in certificate.sentence
    assert certificate.input_radius is None
