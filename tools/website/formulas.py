"""Formulas as MathML, made while the site is built: a browser shows them without a script or a font from elsewhere."""

from __future__ import annotations

import html
import re

SPAN = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)
"""What `pymdownx.arithmatex` (generic) makes of `$...$` and `$$...$$`."""


def typeset(page: str) -> str:
    """A page of HTML with its formulas as MathML."""
    return SPAN.sub(_formula, page)


def _formula(found: re.Match[str]) -> str:
    text = html.unescape(found[2]).strip()
    block = text.startswith(r"\[")
    return mathml(text[2:-2].strip(), block=block)


def mathml(latex: str, *, block: bool = False) -> str:
    """One formula. Raises `ValueError` if a command of it is not known, which would be shown as text."""
    from latex2mathml.converter import convert

    made = convert(_plain(latex), display="block" if block else "inline")
    if unknown := re.findall(r"<m[a-z]+[^>]*>\\(\w+)", made):
        raise ValueError(f"cannot typeset {unknown} of the formula {latex!r}: say it with other commands")
    return made


def _plain(latex: str) -> str:
    """The formula in the commands that the converter knows; MathML's brackets have the right size by themselves."""
    latex = re.sub(r"\\(?:[bB]ig[lr]?)(?=[\\(){}\[\]|])", "", latex)
    return re.sub(r"\\arg(?![a-zA-Z])", r"\\operatorname{arg}", latex)
