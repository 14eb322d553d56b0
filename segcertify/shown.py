"""Shown: votes and certificates show themselves in notebooks, with pictures that are made layers above them.

From `certification` down nothing may import `figures`. So these methods ask the package's own face for the functions
that draw: `segcertify/__init__.py` is the one place that names all layers, and it loads each on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import segcertify

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shown:
    """A result that has a figure, and a card of HTML for notebooks."""

    def plot(self, x: Any = None, **shown: Any) -> Figure:
        """A matplotlib figure of this result, beside its input ``x`` if that is given: `segcertify.plot`."""
        return segcertify.plot(self, x, **shown)

    def _repr_html_(self) -> str:
        """What notebooks show: `segcertify.as_html`."""
        return segcertify.as_html(self)
