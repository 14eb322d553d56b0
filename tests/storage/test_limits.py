"""Limits: the documents list each with its value."""

import re
from pathlib import Path

from segcertify.storage import limits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"


def listed():
    """Each limit's name, value and words, from the module's own text."""
    text = Path(limits.__file__).read_text(encoding="utf-8")
    found = re.findall(r'^([A-Z_]+) = .*\n"""(.*)"""$', text, re.MULTILINE)
    return {name: (getattr(limits, name), words.replace("``", "`")) for name, words in found}


def test_every_limit_is_documented():
    page, known = PAGE.read_text(encoding="utf-8"), listed()
    assert set(known) == {name for name in vars(limits) if name.isupper()} - {"MIB"}
    rows = "".join(f"| `{name}` | {value:,} | {words} |\n" for name, (value, words) in known.items())
    assert rows in page, f"docs/limits.md must hold these rows:\n{rows}"
