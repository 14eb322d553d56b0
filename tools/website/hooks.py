"""What MkDocs calls while it builds the site: `python -m mkdocs build --strict`.

Pages keep the paths that they have in the repository, so that one relative link serves both there and on the site. The
folder `docs` is left out of addresses: `docs/theory.md` becomes `theory/`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # MkDocs loads this file by its path

from tools.website import api, formulas, gallery  # noqa: E402

FOLDERS = ("docs", "results", "LICENSES")
"""Where pages, pictures and files lie."""

PAGES = ("tools", "examples", "segcertify/models/bundled", "weights")
"""Where pages lie beside other things: the gallery's, and the cards of models."""

HOME, GALLERY = "docs/index.md", "examples/README.md"
WIDE = (HOME, GALLERY)

FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE", "constraints.txt")


def sources() -> Iterator[Path]:
    """All files that the site shows or links to, relative to the repository."""
    for folder in (*FOLDERS, *PAGES):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix == ".md" or folder in FOLDERS):
                yield path.relative_to(ROOT)
    yield from (Path(name) for name in FILES if (ROOT / name).exists())


def on_files(files: Any, config: Any) -> Any:
    """All pages: those of the repository, and those that are made now. The theme's files stay."""
    from mkdocs.structure.files import File, Files

    kept = [file for file in files if file.src_dir is not None and Path(file.src_dir) != Path(config.docs_dir)]
    for path in sources():
        kept.append(File(path.as_posix(), str(ROOT), config.site_dir, config.use_directory_urls))
    for name, content in (api.pages() | gallery.pages()).items():
        kept.append(File.generated(config, name, content=content))
    for file in kept:
        file.dest_uri = _address(file.dest_uri)
    require_own_addresses({file.src_uri: file.dest_uri for file in kept})
    return Files(kept)


def require_own_addresses(addresses: dict[str, str]) -> None:
    """Raise `ValueError` if two sources have one address: the site would show only one of them."""
    taken: dict[str, str] = {}
    for source, address in addresses.items():
        if address in taken:
            raise ValueError(f"{taken[address]} and {source} both have the address {address}: rename one")
        taken[address] = source


def _address(dest: str) -> str:
    """Where a file lies on the site: without `docs`, and README.md beside the home page."""
    return "readme/index.html" if dest == "index.html" else dest.removeprefix("docs/")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The gallery's pictures. Pages with a live page in them have the width of the window."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["navigation", "toc"]
    return gallery.filled(markdown) if page.file.src_uri == GALLERY else markdown


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Formulas as MathML."""
    return formulas.typeset(html)
