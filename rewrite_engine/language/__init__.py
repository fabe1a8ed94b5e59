"""The pattern language: rule files in, a checked `RuleSet` out. Names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewrite_engine.diagnostics import PatError as PatError
    from rewrite_engine.language.core import RuleSet as RuleSet
    from rewrite_engine.language.library import check_files as check_files
    from rewrite_engine.language.library import load as load
    from rewrite_engine.language.library import load_text as load_text
    from rewrite_engine.language.parsing import parse as parse

_HOMES = {
    "PatError": "rewrite_engine.diagnostics",
    "RuleSet": "rewrite_engine.language.core",
    "check_files": "rewrite_engine.language.library",
    "load": "rewrite_engine.language.library",
    "load_text": "rewrite_engine.language.library",
    "parse": "rewrite_engine.language.parsing",
}
__all__ = ["PatError", "RuleSet", "check_files", "load", "load_text", "parse"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
