"""The parser that Lark builds from `grammar/pat.lark`: built at the first use, kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite_engine.resources import grammar_text

if TYPE_CHECKING:
    from lark import Lark

ENTRY_POINTS = ("start", "items", "rest", "value")
KEYWORD_PRIORITY = 4


@cache
def parser() -> Lark:
    """The parser; an unreadable or unwritable cache only costs the time to build it again."""
    import lark

    text = grammar_text()
    key = hashlib.sha256(f"{lark.__version__}\0{sys.version}\0{text}".encode()).hexdigest()[:16]
    stored = _cache_folder() / f"pat-{key}.parser"
    with contextlib.suppress(Exception), stored.open("rb") as file:  # a damaged file may raise anything
        loaded: Lark = lark.Lark.load(file)
        return loaded
    built = lark.Lark(text, parser="lalr", lexer="contextual", propagate_positions=True, start=list(ENTRY_POINTS),
                      edit_terminals=whole_words)  # fmt: skip
    with contextlib.suppress(OSError):
        _store(built, stored)
    return built


def whole_words(terminal: Any) -> None:
    """Edit a terminal of the grammar: a keyword ends where the identifier ends, and comes before names."""
    from lark.lexer import PatternRE, PatternStr

    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isidentifier():
        terminal.pattern = PatternRE(terminal.pattern.value + "(?![A-Za-z0-9_])")
        terminal.priority = KEYWORD_PRIORITY


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or os.path.expanduser("~/.cache")) / "rewrite_engine"


def _store(built: Lark, path: Path) -> None:
    """Written under another name first, so that no process ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            built.save(file)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
