"""What MkDocs is told: every page of the navigation exists or is made, and addresses leave `docs` out."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.website import api, hooks

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="the site is in the repository only")


def configuration():
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def leaves(nav):
    for each in nav:
        for value in each.values() if isinstance(each, dict) else [each]:
            yield from leaves(value) if isinstance(value, list) else [value]


def test_the_navigation_names_pages_that_exist():
    known = {path.as_posix() for path in hooks.sources()} | set(api.pages())
    assert set(leaves(configuration()["nav"])) <= known


def test_every_document_is_in_the_navigation():
    listed = set(leaves(configuration()["nav"]))
    assert {path.as_posix() for path in hooks.sources() if path.parts[0] == "docs" and path.suffix == ".md"} <= listed


def test_nothing_comes_from_elsewhere():
    assert configuration()["theme"]["font"] is False
    assert not {"extra_javascript"} & set(configuration())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("docs/theory/index.html", "theory/index.html"), ("docs/index.html", "index.html"),
        ("results/index.html", "results/index.html"), ("index.html", "readme/index.html"),
    ],
)  # fmt: skip
def test_addresses(before, after):
    assert hooks._address(before) == after


def test_every_page_has_an_address_of_its_own():
    """docs/results.md and results/README.md once had one, so that the table of all results was on no page."""
    with pytest.raises(ValueError, match=r"docs/results.md and results/README.md both have the address results/"):
        hooks.require_own_addresses(
            {"docs/results.md": "results/index.html", "results/README.md": "results/index.html"}
        )
    mkdocs = pytest.importorskip("mkdocs.structure.files")
    addresses = {}
    for path in hooks.sources():
        file = mkdocs.File(path.as_posix(), str(ROOT), "site", use_directory_urls=True)
        addresses[path.as_posix()] = hooks._address(file.dest_uri)
    hooks.require_own_addresses(addresses)
    assert addresses["docs/certified-results.md"] == "certified-results/index.html"


def test_pages_with_a_live_page_are_wide():
    """The live page needs the room of both columns beside the text; its frame is in the home page and the gallery."""
    for name in hooks.WIDE:
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
        text = hooks.on_page_markdown((ROOT / name).read_text(encoding="utf-8"), page, None, None)
        assert "<iframe" in text
        assert page.meta == {"hide": ["navigation", "toc"]}
    other = SimpleNamespace(file=SimpleNamespace(src_uri="docs/theory.md"), meta={})
    assert hooks.on_page_markdown("text", other, None, None) == "text"
    assert other.meta == {}


def test_the_gallery_shows_every_example():
    index = (ROOT / hooks.GALLERY).read_text(encoding="utf-8")
    shown = hooks.gallery.filled(index)
    for path in (ROOT / "examples").glob("plot_*.py"):
        assert f"]({path.name})" in index
        assert f"]({path.stem}.md)" in shown
        assert f"]({path.name})" not in shown
