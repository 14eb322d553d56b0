"""Models by name: `load` turns a spec such as ``python:module:factory`` into a segmenter."""

from segcertify.models.spec import load

__all__ = ["load"]
