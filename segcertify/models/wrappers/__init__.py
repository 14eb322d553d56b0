"""Modules around a network: normalisation, scales, views, precision."""
