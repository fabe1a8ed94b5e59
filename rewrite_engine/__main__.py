"""`python -m rewrite_engine`."""

from rewrite_engine.cli import entry

entry()
