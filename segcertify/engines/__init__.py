"""Engines: where draws are made. In this process, in several processes of this machine, or on a Ray cluster."""

from segcertify.engines.engine import Engine

__all__ = ["Engine"]
