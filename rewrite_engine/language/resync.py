"""All syntax errors of a file in one run: after each, reading goes on at the next declaration or item of a target.

In: the text of a file that did not parse. Out: the Lark trees of what did, a problem for each part that did not, and
the names that those parts would have declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rewrite_engine.diagnostics import Problem, Span, suggest
from rewrite_engine.language import mistakes
from rewrite_engine.language.grammar import parser
from rewrite_engine.language.syntax_errors import (
    DECLARATIONS,
    RESERVED,
    TARGET_ITEMS,
    Read,
    describe_character,
    describe_token,
)

_TOKEN = re.compile(
    r'(?P<skip>[ \t]+|#[^\n]*)|(?P<newline>\n)|(?P<text>"[^"\n]*"?)|(?P<word>[A-Za-z_0-9][A-Za-z_0-9.:]*)|(?P<mark>.)',
    re.S,
)
EVERYTHING = "*"
"""Among broken names: an include, so that any name may come from it."""
_KEYWORDS = (*DECLARATIONS, *TARGET_ITEMS)
_NEVER_AFTER_A_KEYWORD = RESERVED | {"for", "is", "runs", "rejects", "on", "cost", "energy"}
_DECLARED = re.compile(
    r"(?:let|pattern|rule|device|target|composite|operator)\s+([A-Za-z_]\w*(?:[.\w]*::\w+)?)|include\b"
)
_BLACK = re.compile(r"[^\n]")
_COMPOSITE = re.compile(r"\bcomposite\s+([a-z_]\w*)")


@dataclass(slots=True)
class Recovered:
    """What came out of a broken file. `trees` are Lark trees of entry points `start`, `items`; in order."""

    trees: list[Any] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a declaration or an item of a target begins."""

    offset: int
    word: str

    @property
    def top(self) -> bool:
        return (suggest(self.word, _KEYWORDS) or self.word) in DECLARATIONS


def recover(text: str, path: str) -> Recovered:
    """Parse `text` piece by piece."""
    result = Recovered()
    starts = list(_starts(text))
    tops = [start.offset for start in starts if start.top]
    pieces = [0, *tops] if not tops or text[: tops[0]].strip() else tops
    for begin, end in zip(pieces, [*pieces[1:], len(text)], strict=True):
        inner = [start for start in starts if begin < start.offset < end and not start.top]
        _read_piece(text, path, begin, end, inner, result)
    if not result.problems:  # the pieces hold, their sum does not
        result = Recovered()
        _read_piece(text, path, 0, len(text), [], result)
    return result


def _read_piece(text: str, path: str, begin: int, end: int, inner: list[_Start], result: Recovered) -> None:
    """One declaration. A failing item of a target is blanked out and the rest read again, so that it is not lost."""
    entry = "start" if begin == 0 else "items"
    name = _DECLARED.match(text, begin)
    in_target = text.startswith("target", begin)
    while True:
        tree, failure, at = _attempt(text, path, begin, end, entry)
        if failure is None:
            result.trees.append(tree)
            return
        result.problems.append(failure)
        item = _blamed(inner, at) if in_target else None
        if item is None:
            break
        result.broken.update(_COMPOSITE.findall(text, item.offset, at))
        following = next((start.offset for start in inner if start.offset > item.offset and start.offset >= at), None)
        brace = text.rfind("}", item.offset, end)
        if at >= end or not text[at:end].strip():  # the closing brace is missing
            closed, problem, _ = _attempt(text, path, begin, end, entry, closing=" }")
            if problem is None:
                result.trees.append(closed)
                return
            following = end
        stop = following if following is not None else max(brace, at)
        text = text[: item.offset] + _BLACK.sub(" ", text[item.offset : stop]) + text[stop:]
        inner = [start for start in inner if start.offset > item.offset and start.offset >= stop]
    if name:
        result.broken.add(name[1] or EVERYTHING)
    if in_target:
        result.broken.update(_COMPOSITE.findall(text, begin, end))
        _read_rest(text, path, end, [start.offset for start in inner if start.offset > at], result)


def _blamed(inner: list[_Start], at: int) -> _Start | None:
    """The item in which an error at `at` lies: not one that begins there with a word that is spelt right."""
    return next((s for s in reversed(inner) if s.offset < at or (s.offset == at and s.word not in _KEYWORDS)), None)


def _read_rest(text: str, path: str, end: int, starts: list[int], result: Recovered) -> None:
    """Problems of the items of a target whose beginning could not be read."""
    at = 0
    for start in starts:
        if start >= at:
            _, failure, at = _attempt(text, path, start, end, "rest")
            if failure is None:
                return
            result.problems.append(failure)


def _attempt(
    text: str, path: str, begin: int, end: int, entry: str, closing: str = ""
) -> tuple[Any, Problem | None, int]:
    """The tree of `text[begin:end]`, or the first problem and its offset. Positions are those of the whole text."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

    line = text.count("\n", 0, begin)
    column = begin - (text.rfind("\n", 0, begin) + 1)
    padding = "\n" * line + " " * column
    shift = begin - len(padding)
    reading: Any = parser().parse_interactive(padding + text[begin:end] + closing, start=entry)
    before: list[Read] = []
    try:
        for token in reading.lexer_thread.lex(reading.parser_state):
            reading.feed_token(token)
            before.append(_read(token, path))
        return reading.feed_eof(), None, end
    except UnexpectedCharacters as error:
        span = Span(path, error.line, error.column, error.line, error.column + 1)
        offset = int(error.pos_in_stream or 0) + shift
        return None, describe_character(text[offset:], span), offset
    except UnexpectedToken as error:
        accepted = frozenset(reading.accepts())
        if error.token.type == "$END":
            found, offset = _what_follows(text, path, end)
            accepted -= {"$END"} if end < len(text) else set()
        else:
            found, offset = _read(error.token, path), int(error.token.start_pos or 0) + shift
        problem = describe_token(found, accepted, before)
        if problem.hint is None:
            problem = replace(problem, hint=mistakes.habit(text, offset, begin, accepted))
        return None, problem, offset
    except UnexpectedInput as error:  # pragma: no cover - Lark has no further kinds for this parser
        raise AssertionError(f"unforeseen: {error}") from error


def _read(token: Any, path: str) -> Read:
    return Read(token.type, str(token), Span(path, token.line, token.column, token.end_line, token.end_column))


def _what_follows(text: str, path: str, end: int) -> tuple[Read, int]:
    """What stands after a piece: the keyword of the next declaration, or the end of the file after the last token."""
    if end < len(text):
        word = re.compile(r"\w+").match(text, end)
        assert word is not None, "a piece ends at a keyword"
        offset, shown, kind = end, word[0], word[0].upper() if word[0] in _KEYWORDS else "NAME"
    else:
        offset, shown, kind = len(text.rstrip()), "", "$END"
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return Read(kind, shown, Span(path, line, column, line, column + max(1, len(shown)))), offset


def _starts(text: str) -> Iterator[_Start]:
    """Words at the start of a line that begin a declaration: followed by a name or text, or outside of all brackets."""
    tokens = [m for m in _TOKEN.finditer(text) if m.lastgroup != "skip"]
    depth, fresh, last = 0, True, ""
    for position, token in enumerate(tokens):
        if token.lastgroup == "newline":
            fresh = True
            continue
        value = token[0]
        if fresh and (value in _KEYWORDS or _like_a_keyword(value, tokens[position + 1 : position + 9])):
            after = _next_text(tokens[position + 1 : position + 9])
            named = bool(re.match(r'["\w]', after)) and after not in _NEVER_AFTER_A_KEYWORD
            if named or (depth == 0 and (not last or re.fullmatch(r"[\w.:]+|[)\]}?]|\".*", last))):
                yield _Start(token.start(), value)
                depth = 0
        if value in "([":
            depth += 1
        elif value in ")]":
            depth = max(0, depth - 1)
        fresh, last = False, value


def _next_text(tokens: list[re.Match[str]]) -> str:
    return next((token[0] for token in tokens if token.lastgroup != "newline"), "")


def _like_a_keyword(word: str, following: list[re.Match[str]]) -> bool:
    """Whether a word is most likely a misspelt keyword: like one, and before a name or a text as nothing else is."""
    if not re.fullmatch(r"[a-z]+", word) or word in _NEVER_AFTER_A_KEYWORD or suggest(word, _KEYWORDS) is None:
        return False
    after = _next_text(following)
    return bool(re.match(r'["A-Za-z_]', after)) and after not in _NEVER_AFTER_A_KEYWORD
