"""Domains: shapes, noise, and which pictures are saved."""

import io

import numpy as np
import pytest
from PIL import Image

from segcertify import AxisRotation, Gaussian, Laplace, Votes, certify_votes
from segcertify.data.domain import ARRAY, CLOUD, IMAGE, VOLUME, domain_of


@pytest.mark.parametrize(
    ("shape", "domain", "components"),
    [((3, 4, 5), IMAGE, (4, 5)), ((8, 6), CLOUD, (8,)), ((2, 3, 4, 5), VOLUME, (3, 4, 5)), ((8,), ARRAY, None)],
)
def test_shapes(shape, domain, components):
    assert domain_of(shape) is domain
    assert domain.components(shape) == components


def test_what_each_says_of_itself():
    assert [(d.name, d.unit, d.bounds) for d in (IMAGE, CLOUD, VOLUME, ARRAY)] == [
        ("image", "pixels", (0, 1)), ("cloud", "points", None), ("volume", "voxels", None),
        ("array", "components", None),
    ]  # fmt: skip
    assert repr(CLOUD) == "Domain(cloud)"


@pytest.mark.parametrize(
    ("domain", "noise", "shape", "becomes"),
    [
        (CLOUD, Gaussian(0.1), None, Gaussian(0.1, (0, 1, 2), 1)),
        (CLOUD, Gaussian(0.1), (9, 6), Gaussian(0.1, (0, 1, 2), 1)),
        (CLOUD, Gaussian(0.1), (9, 3), Gaussian(0.1)),
        (CLOUD, Gaussian(0.1, (1,), 1), (9, 6), Gaussian(0.1, (1,), 1)),
        (CLOUD, Laplace(0.1), (9, 6), Laplace(0.1)),
        (CLOUD, AxisRotation(0.1), (9, 6), AxisRotation(0.1)),
        (IMAGE, Gaussian(0.1), (3, 4, 5), Gaussian(0.1)),
        (ARRAY, Gaussian(0.1), (9, 6), Gaussian(0.1)),
    ],
)
def test_where_noise_goes(domain, noise, shape, becomes):
    assert domain.noise(noise, shape) == becomes


def votes_of(shape):
    return Votes(np.ones(shape, int), np.full(shape, 100), n=100, n0=10, noise=Gaussian(0.25))


def certificate_of(shape):
    return certify_votes(votes_of(shape), tau=0.75, alpha=0.001)


@pytest.mark.parametrize(
    ("domain", "shape", "components", "names"),
    [
        (IMAGE, (3, 8, 9), (8, 9), ["a-sigma0.25-labels.png", "a-sigma0.25.png"]),
        (CLOUD, (40, 6), (40,), ["a-sigma0.25.png"]),
        (VOLUME, (2, 4, 8, 9), (4, 8, 9), ["a-sigma0.25.png"]),
        (ARRAY, (40, 6), (40,), []),
        (IMAGE, (3, 8, 9), (8,), []),  # another model's components
    ],
)
def test_pictures(tmp_path, domain, shape, components, names):
    x = np.random.default_rng(0).random(shape)
    labels = np.ones(components, int)
    stem = tmp_path / "deep" / "a-sigma0.25"
    files = domain.save_figures(stem, x, certificate_of(components), prediction=labels, target=labels, names=("a", "b"))
    assert [file.name for file in files] == names
    assert all(file.stat().st_size > 60 for file in files)
    if domain is IMAGE and files:
        with Image.open(files[0]) as image:
            assert (np.asarray(image) == 1).all()


@pytest.mark.parametrize(
    ("domain", "shape", "components", "kept"),
    [
        (IMAGE, (3, 8, 9), (8, 9), True),
        (IMAGE, (1, 8, 9), (8, 9), True),
        (IMAGE, (4, 8, 9), (8, 9), False),  # no colours
        (CLOUD, (40, 6), (40,), True),
        (ARRAY, (40, 6), (40,), False),
        (IMAGE, (3, 8, 9), (8,), False),  # another model's components
    ],
)
def test_pages_and_thumbnails(tmp_path, domain, shape, components, kept):
    x, labels = np.random.default_rng(0).random(shape), np.ones(components, int)
    votes = votes_of(components)
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    path = tmp_path / "deep" / "page.html"
    found = domain.save_page(path, x, certificate, votes=votes, prediction=labels, target=labels, names=("a", "b"))
    assert found == ([path] if kept else [])
    assert path.exists() == kept
    small = domain.thumbnail(x, labels, colours=np.eye(3), target=labels)
    if not kept:
        assert small is None
        return
    with Image.open(io.BytesIO(small)) as image:
        assert image.format == "JPEG"
