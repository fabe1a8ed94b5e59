"""Exact extraction with real launches: see `solve`."""

from rewrite_engine.egraph.extract.solve import solve

__all__ = ["solve"]
