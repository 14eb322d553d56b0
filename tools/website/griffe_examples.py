"""Tells mkdocstrings to show doctests as examples. It is the only module here that needs griffe when it is imported."""

from __future__ import annotations

from typing import Any

import griffe

from tools.website.docstrings import with_examples


class Examples(griffe.Extension):
    """Gives every docstring with doctests a heading above them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """After an object's docstring was read."""
        if obj.docstring is not None:
            obj.docstring.value = with_examples(obj.docstring.value)
