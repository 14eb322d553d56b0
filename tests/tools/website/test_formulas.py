"""Formulas become MathML, and one that cannot is an error."""

import html
import re
from pathlib import Path

import pytest

from tools.website.formulas import mathml, typeset

pytest.importorskip("latex2mathml", reason="pip install -e '.[docs]'")
ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_formulas_of_a_page():
    page = r'<p>So <span class="arithmatex">\(p \le \tau\)</span>.</p><div class="arithmatex">\[x^2\]</div>'
    made = typeset(page)
    assert "arithmatex" not in made
    assert made.count("<math") == 2
    assert "<mi>&#x003C4;</mi>" in made
    assert re.search(r'display="block".*<msup>', made)


def test_escaped_characters_are_read():
    assert "&#x0003C;" in typeset(html.escape(r"\(a < b\)").join(['<span class="arithmatex">', "</span>"]))


def test_an_unknown_command_is_refused():
    with pytest.raises(ValueError, match=r"cannot typeset \['unheard'\]"):
        mathml(r"\unheard x")


@pytest.mark.skipif(not PAGES, reason="the documents are in the repository only")
def test_all_formulas_of_the_documents_can_be_typeset():
    formulas = set()
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        formulas |= {*re.findall(r"\$\$(.+?)\$\$", text, re.S), *re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", text)}
    assert len(formulas) > 300
    assert all(mathml(each).startswith("<math") for each in formulas)
