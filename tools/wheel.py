"""Checks a wheel as its users will meet it: what it holds, and that it demonstrates itself outside the repository.

python -m tools.wheel              # builds one first
python -m tools.wheel FILE.whl
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).parents[1]

NEEDED = (
    *(f"segcertify/models/bundled/{name}{suffix}"
      for name in ("pets", "camvid", "parts", "denoisers/default") for suffix in (".safetensors", ".md")),
    "segcertify/demo/chelsea.jpg", "segcertify/data/sets/shapes.safetensors", "segcertify/py.typed",
    *(f"segcertify/figures/{page}.{suffix}"
      for page in ("page", "image", "cloud", "run") for suffix in ("html", "js", "css")),
    "segcertify/reproduce/paper/table1.toml",
)  # fmt: skip
"""Files without which something would not work, or would not be licensed."""

OURS = re.compile(r"segcertify/|segcertify-[\w.]+\.dist-info/")
TESTS = re.compile(r"(^|/)(tests?|test_\w+)[/.]")
LICENCES = ("LICENSE", "LICENSES/WEIGHTS.md")
EXPRESSION = ("Apache-2.0", "CC-BY-SA-4.0", "CC0-1.0", "LicenseRef-segcertify-research-weights")


def problems(names: Sequence[str], metadata: str) -> Iterator[str]:
    """What is wrong with a wheel that holds files of such names, and has this METADATA."""
    yield from (f"{name} is missing" for name in NEEDED if name not in names)
    strange = [name for name in names if not OURS.match(name) or TESTS.search(name)]
    yield from (f"{name} does not belong into the wheel" for name in strange)
    found = HeaderParser().parsestr(metadata)
    terms, files = found.get("License-Expression", "").split(), found.get_all("License-File", [])
    yield from (f"the metadata's licence expression lacks {each}" for each in EXPRESSION if each not in terms)
    yield from (f"the metadata does not name the licence file {each}" for each in LICENCES if each not in files)


def contents(wheel: Path) -> tuple[list[str], str]:
    """The names of a wheel's files, and its metadata."""
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        return names, file.read(metadata).decode()


def build(folder: Path) -> Path:
    """A wheel of this repository."""
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def demonstrate(wheel: Path, folder: Path) -> None:
    """Install the wheel beside the dependencies that are here, and run its demo in an empty folder."""
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    (packages,) = (folder / "environment" / "lib").glob("*/site-packages")
    seen = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    # Paths in a .pth file are seen, but what an editable install adds in one of its own is not.
    (packages / "dependencies.pth").write_text("\n".join(seen) + "\n", encoding="utf-8")
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--force-reinstall",
         "--no-index", str(wheel))  # fmt: skip
    empty = folder / "empty"
    empty.mkdir()
    where = _run(str(python), "-c", "import segcertify; print(segcertify.__file__)", cwd=empty).strip()
    if not Path(where).is_relative_to(packages):
        raise SystemExit(f"the demo would run {where}, not the wheel")
    _run(str(python.parent / "segcertify"), "demo", "--quiet", cwd=empty)
    wanted = [empty / "certified" / "demo" / name for name in ("certificate.safetensors", "certified.png")]
    if missing := [path.name for path in wanted if not path.exists()]:
        raise SystemExit(f"segcertify demo did not write {', '.join(missing)}")


def _run(*words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Print what is wrong, and exit with 1 if anything is."""
    with tempfile.TemporaryDirectory() as name:
        wheel = Path(sys.argv[1]).resolve() if sys.argv[1:] else build(Path(name))
        found = list(problems(*contents(wheel)))
        if found:
            raise SystemExit("\n".join(found))
        demonstrate(wheel, Path(name).resolve())
        size = f"{wheel.stat().st_size / 2**20:.1f} MiB"
        print(f"{wheel.name} ({size}) holds what it should, and its demo runs outside the repository")


if __name__ == "__main__":
    main()
