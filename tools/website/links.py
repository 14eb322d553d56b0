"""Checks the built site: every link and anchor leads somewhere, and nothing is loaded from elsewhere.

python -m tools.website.links build/site
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src"),
    ("embed", "src"), ("object", "data"),
}  # fmt: skip
"""What a browser fetches by itself; a `link` does so too, unless it is canonical or a neighbour."""

LED = {"canonical", "next", "prev", "alternate"}


class _Page(HTMLParser):
    """The anchors of a page and what it links to: pairs of an address and whether a browser loads it by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember ids, links and what is loaded."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src", "data"):
            if name in values:
                of_link = tag == "link" and values.get("rel", "") not in LED
                self.targets.append((values[name], (tag, name) in LOADED or of_link))


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(site: Path) -> Iterator[str]:
    """A sentence for each link that leads nowhere, and for each thing that comes from elsewhere."""
    site = site.resolve()
    for path in sorted(site.rglob("*.html")):
        where = path.relative_to(site)
        for target, loaded in _read(path).targets:
            parts = urlsplit(target)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if loaded:
                    yield f"{where} loads {target}: keep it on the site, so that nobody else learns who reads"
                continue
            if where.name != "404.html" and not _there(site, path, parts.path, unquote(parts.fragment)):
                yield f"{where} links to {target}, which is not there"


def _there(site: Path, page: Path, target: str, anchor: str) -> bool:
    """Whether a relative link from a page, or one from the root of the site, has a file and an anchor."""
    start = site if target.startswith("/") else page.parent
    found = (start / unquote(target).lstrip("/")).resolve() if target else page
    found = found / "index.html" if found.is_dir() else found
    if not found.is_file() or not found.is_relative_to(site):
        return False
    return not anchor or found.suffix != ".html" or anchor in _read(found).anchors


def main() -> None:
    """Print what is wrong, and exit with 1 if anything is."""
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) or "every link leads somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
