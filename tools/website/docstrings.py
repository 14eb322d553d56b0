"""Docstrings as the site's reader of NumPy's style wants them: with a heading above their examples."""

from __future__ import annotations

import re

HEADING = "Examples\n--------\n"
EXAMPLE = re.compile(r"^>>> ", re.M)


def with_examples(text: str) -> str:
    """A docstring whose doctests stand in a section of their own."""
    first = EXAMPLE.search(text)
    if first is None or HEADING in text:
        return text
    return text[: first.start()] + HEADING + text[first.start() :]
