"""The gallery: every example is run while the site is built, and shown with what it printed and drew."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PHOTOGRAPH = ROOT / "segcertify" / "demo" / "chelsea.jpg"
CERTIFY = ("-m", "segcertify", "certify", "cat.jpg", "--model", "pets", "--sigma", "0.25", "--seed", "0", "--quiet")
"""What makes the live page."""

Pages = dict[str, str | bytes]
"""Texts and pictures, by their paths."""


def pages() -> Pages:
    """A page for each example with its pictures, and the live page of a certified photograph."""
    made, found = _made(), Pages()
    for path in sorted(EXAMPLES.glob("plot_*.py")):
        found[f"examples/{path.stem}.md"] = _page(path, made / path.stem)
        for picture in sorted((made / path.stem).glob("*.png")):
            found[f"examples/{picture.name}"] = picture.read_bytes()
    found["docs/live/cat.html"] = (made / "live" / "certified" / "cat" / "certified.html").read_bytes()
    return found


def filled(index: str) -> str:
    """The gallery's page, examples/README.md, with the live page and the pictures in it."""
    lines = []
    for path in sorted(EXAMPLES.glob("plot_*.py")):
        title, picture = _title(_docstring(path)), f"{path.stem.removeprefix('plot_')}.png"
        index = index.replace(f"]({path.name})", f"]({path.stem}.md)")
        lines += [f"## {title}", "", f"[![{title}]({picture})]({path.stem}.md)", ""]
    frame = '<iframe src="../live/cat.html" title="The page of a certified photograph"></iframe>'
    live = f"{frame}\n\n[In a window of its own](../docs/live/cat.html)."
    return index.replace("<!-- live -->", live).replace("<!-- pictures -->", "\n".join(lines))


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _title(about: str) -> str:
    """The first sentence, without what it writes."""
    return about.partition("\n\n")[0].partition(": writes")[0].rstrip(".").replace("\n", " ")


def _page(path: Path, folder: Path) -> str:
    about = _docstring(path)
    title, printed = _title(about), (folder / "printed.txt").read_text(encoding="utf-8").strip()
    return "\n\n".join(
        [
            f"# {title}",
            about.partition("\n\n")[2] or about,
            f"![{title}]({path.stem.removeprefix('plot_')}.png)",
            f"```sh\npython examples/{path.name}\n```",
            "It printed:",
            f"```text\n{printed}\n```",
            f"```python\n{path.read_text(encoding='utf-8').strip()}\n```",
        ]
    )


def _made() -> Path:
    """The folder with what the examples made; kept in `build` until an example or the package changes."""
    digest = hashlib.sha256()
    for path in sorted([*EXAMPLES.glob("*.py"), *(ROOT / "segcertify").rglob("*.*")]):
        if path.suffix in (".py", ".js", ".css", ".html", ".safetensors", ".jpg"):
            digest.update(path.as_posix().encode() + path.read_bytes())
    folder = ROOT / "build" / "gallery" / digest.hexdigest()[:16]
    if folder.exists():
        return folder
    shutil.rmtree(folder.parent, ignore_errors=True)
    work = folder.with_suffix(".part")
    for path in sorted(EXAMPLES.glob("plot_*.py")):
        _run(work / path.stem, str(path))
    (work / "live").mkdir(parents=True)
    shutil.copy(PHOTOGRAPH, work / "live" / "cat.jpg")
    _run(work / "live", *CERTIFY)
    return work.rename(folder)


def _run(folder: Path, *words: str) -> None:
    """Run Python in a folder, and keep what it prints there."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed while the gallery was made:\n{done.stderr}")
    (folder / "printed.txt").write_text(done.stdout, encoding="utf-8")
