"""The check of the built site finds what leads nowhere and what comes from elsewhere."""

import pytest

from tools.website.links import problems


@pytest.fixture
def site(tmp_path):
    """Two pages that are well."""
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">Home</h1><a href="guide/#how">how</a><a href="#top">up</a><a href="https://example.org">far</a>'
        '<link rel="canonical" href="https://example.org/"><img src="data:image/png;base64,AA=="><img src="a.png">'
    )
    (tmp_path / "guide" / "index.html").write_text('<h2 id="how">How</h2><a href="../">home</a><a href="/a.png">a</a>')
    (tmp_path / "a.png").write_bytes(b"")
    return tmp_path


def test_a_site_that_is_well(site):
    assert not list(problems(site))


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<a href="guide/#why">', "guide/#why, which is not there"),
        ('<a href="absent/">', "absent/, which is not there"),
        ('<a href="../outside.html">', "outside.html, which is not there"),
        ('<img src="absent.png">', "absent.png, which is not there"),
        ('<script src="https://cdn.example.org/x.js"></script>', "loads https://cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="https://fonts.example.org/css">', "loads https://fonts.example.org/css"),
        ('<img src="//example.org/pixel.gif">', "loads //example.org/pixel.gif"),
    ],
)
def test_planted_faults_are_found(site, planted, said):
    page = site / "index.html"
    page.write_text(page.read_text() + planted)
    (found,) = problems(site)
    assert said in found
