"""Narrow spans: the name within a declaration, so that a message underlines one word and not ten lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from rewrite_engine.diagnostics import Span


@lru_cache(maxsize=4)
def _lines(source: str) -> tuple[str, ...]:
    """The lines of a text: of the file in hand, which is asked for many words."""
    return tuple(source.split("\n"))


def word(sources: Mapping[str, str], within: Span, text: str) -> Span:
    """The first occurrence of a word in the stretch `within`; the stretch itself where it does not occur."""
    lines = _lines(sources.get(within.file, ""))
    pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(text)}(?![A-Za-z0-9_])")
    for number in range(within.line, min(within.end_line, len(lines)) + 1):
        line = lines[number - 1]
        found = pattern.search(line, within.column - 1 if number == within.line else 0)
        comment = line.find("#")
        if found and not 0 <= comment < found.start():
            return Span(within.file, number, found.start() + 1, number, found.end() + 1)
    return within
