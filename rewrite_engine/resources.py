"""Where the grammar and the bundled rule files are: the checkout in an editable install, package data in a wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def _root(folder: str) -> Path:
    beside, within = _PACKAGE.parent / folder, _PACKAGE / "_data" / folder
    # A wheel has its own copy; a folder that merely lies beside site-packages is not ours.
    return within if within.is_dir() or not (_PACKAGE.parent / "pyproject.toml").is_file() else beside


def grammar_text() -> str:
    """The text of `grammar/pat.lark`."""
    return (_root("grammar") / "pat.lark").read_text(encoding="utf-8")


def patterns_root() -> Path:
    """The folder of the bundled rule files, with `std`, `targets` and `machines` in it."""
    return _root("patterns")
