"""Inputs from files."""

from segcertify.data.images import read_input

__all__ = ["read_input"]
