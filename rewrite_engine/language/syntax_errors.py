"""A syntax error as a problem for people: what was expected, what was found and, where there is one, the mend."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rewrite_engine.diagnostics import Problem, Span, did_you_mean, suggest

DECLARATIONS = ("include", "let", "device", "link", "operator", "target", "pattern", "rule", "test")
TARGET_ITEMS = ("launch", "flops", "bandwidth", "option", "requires", "without", "supports", "composite")
RESERVED = frozenset({"const", "none", "if", "then", "else", "and", "or", "not", "in", "where", "with", "as"})

_LABELS = {
    "NAME": "a name", "OP": "an operator", "INT": "a whole number", "FLOAT": "a number", "STRING": 'a text in `"`',
    "QUANTITY": "a quantity", "QUALIFIED": "an operator of a domain", "$END": "the end of the file",
    "ARROW": "`->` or `<->`",
    "LABEL": "`reassociates` or `approximates`", "LIMIT": "`launch`, `flops` or `bandwidth`", "COMPARE": "a comparison",
}  # fmt: skip
_SYMBOLS = {
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}", "COMMA": ",", "COLON": ":",
    "SEMICOLON": ";", "EQUAL": "=", "DOT": ".", "BAR": "|", "OPTIONAL": "?", "ELLIPSIS": "...", "STAR": "*",
    "PLUS": "+", "MINUS": "-", "SLASH": "/", "FLOOR": "//", "PERCENT": "%", "REWRITES": "=>", "BOTH_WAYS": "<=>",
    "ANY": "_",
}  # fmt: skip
_DECLARATION_TOKENS = frozenset(word.upper() for word in DECLARATIONS)
_ITEM_TOKENS = frozenset({"LIMIT", *(word.upper() for word in TARGET_ITEMS[3:])})
_OPERAND = frozenset(
    {"NAME", "OP", "QUALIFIED", "QUANTITY", "INT", "FLOAT", "STRING", "LPAR", "LSQB", "LBRACE", "ANY", "CONST"}
)
_GROUPS = (
    ("a declaration", _DECLARATION_TOKENS | {"LANGUAGE"}),
    ("a capability or setting of the target", _ITEM_TOKENS),
    ("a pattern", frozenset({"NAME", "OP", "CONST", "LPAR", "ANY", "NONE"})),
    ("an expression", frozenset({"NAME", "QUANTITY", "LPAR", "INT", "FLOAT"})),
    ("an infix operator", frozenset({"PLUS", "MINUS", "SLASH", "COMPARE"})),
)
_ABSORBED = {
    "a pattern": frozenset({"QUALIFIED", "INT", "FLOAT", "STRING", "LSQB", "LBRACE", "MINUS", "STAR", "LIKE", "PLACE"}),
    "an expression": frozenset(
        {"OP", "QUALIFIED", "STRING", "LSQB", "LBRACE", "MINUS", "NOT", "IF", "LIKE", "STAR", "NONE"}
    ),
    "an infix operator": frozenset({"STAR", "FLOOR", "PERCENT", "AND", "OR", "NOT", "IN", "DOT", "LSQB"}),
}
_OPENS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOREIGN = {
    "&": "and", "!": "not", "|": "or", "\u2192": "=>", "\u21d2": "=>", "\u27f6": "=>", "\u21d4": "<=>", "\u2194": "<=>",
    "\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u00d7": "*", "\u00f7": "/", "\u2208": "in", "\u2227": "and",
    "\u2228": "or", "\u00ac": "not", "\u2026": "...", "\u00b5": "u", "\u03bc": "u",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Read:
    """A token as read: its terminal, text and place."""

    kind: str
    text: str
    span: Span


def describe_token(found: Read, accepted: frozenset[str], before: Sequence[Read]) -> Problem:
    """The problem of a token that does not fit. `accepted` are the terminals that would, `before` the tokens read."""
    declaration = _unknown_declaration(found, accepted, before)
    if declaration:
        return declaration
    opened = _unclosed(before)
    expected = expectation(accepted)
    shown = "the end of the file" if found.kind == "$END" else f"`{found.text}`"
    message = f"expected {expected}, found {shown}"
    hint: str | None = None
    notes: tuple[tuple[Span, str], ...] = ()
    starts_new = found.kind in _DECLARATION_TOKENS | {"$END"} or found.kind in _OPENS.values()
    closing = _OPENS[opened.kind] if opened else ""
    if found.text in ("->", "=", "==") and "REWRITES" in accepted:
        message, hint = f"expected `=>`, found {shown}", "write `=>`"
    elif found.kind == "EQUAL" and "COMPARE" in accepted:
        message, hint = f"expected an infix operator, found {shown}", "write `==` to compare"
    elif opened and closing in accepted and (starts_new or found.kind in ("REWRITES", "BOTH_WAYS")):
        message = f"expected `{_SYMBOLS[closing]}`, found {shown}"
        notes = ((opened.span, f"this `{opened.text}` is not closed"),)
    elif found.text in RESERVED and "NAME" in accepted:
        hint = f"`{found.text}` is a reserved word"
    elif "COMMA" in accepted and found.kind in _OPERAND:
        hint = None if _glued(before, found) else "is a `,` missing before it?"
        message = f"expected `,` or `{_SYMBOLS[closing]}`, found {shown}" if closing in accepted else message
    elif (found.kind == "RBRACE" and opened is None) or (found.kind in ("RPAR", "RSQB") and closing != found.kind):
        hint = f"there is no opening bracket for this `{found.text}`"
    elif found.kind in ("NAME", "OP"):
        words = [
            _LABELS.get(kind, kind).strip("`").lower() for kind in accepted if kind.isalpha() and kind not in _LABELS
        ]
        hint = did_you_mean(found.text, [word for word in words if word.upper() not in _SYMBOLS])
    return Problem(found.span, message, hint, notes=notes)


def _unknown_declaration(found: Read, accepted: frozenset[str], before: Sequence[Read]) -> Problem | None:
    """A word where a declaration or an item of a target could begin."""
    at_top, in_target = accepted >= _DECLARATION_TOKENS, accepted >= _ITEM_TOKENS
    if not (at_top or in_target) or not _WORD.fullmatch(found.text) or found.text in RESERVED:
        return None
    if at_top and found.text in TARGET_ITEMS:
        return Problem(found.span, f"`{found.text}` outside of a target", "it belongs between the braces of a `target`")
    known = DECLARATIONS if at_top else TARGET_ITEMS
    if found.text in DECLARATIONS:
        return None
    first_on_line = not before or before[-1].span.end_line < found.span.line
    if not first_on_line and suggest(found.text, known) is None and before[-1].kind not in ("LBRACE", "RBRACE"):
        return None
    return Problem(found.span, f"unknown declaration `{found.text}`", did_you_mean(found.text, known))


def _glued(before: Sequence[Read], found: Read) -> bool:
    """Whether a word stands right behind a number: `4x4`, `1_000`."""
    last = before[-1] if before else None
    numbers = last is not None and last.kind in ("INT", "FLOAT")
    return (
        numbers
        and last is not None
        and (last.span.end_line, last.span.end_column) == (found.span.line, found.span.column)
    )


def _unclosed(before: Sequence[Read]) -> Read | None:
    """The innermost bracket that is still open."""
    stack: list[Read] = []
    for token in before:
        if token.kind in _OPENS:
            stack.append(token)
        elif stack and token.kind == _OPENS[stack[-1].kind]:
            stack.pop()
    return stack[-1] if stack else None


def expectation(accepted: frozenset[str]) -> str:
    """A short phrase for the terminals that would fit: whole families by one word, brackets before words."""
    left, phrases = set(accepted), []
    for label, family in _GROUPS:
        if family <= left:
            phrases.append(label)
            left -= family | _ABSORBED.get(label, frozenset())
    if "NAME" in left:
        left -= {"LIKE", "PLACE"}
    if "OP" in left:
        left -= {"QUALIFIED"}
    symbols = sorted(f"`{_SYMBOLS[kind]}`" for kind in left & _SYMBOLS.keys())
    labels = sorted(_LABELS[kind] for kind in left & _LABELS.keys() if kind != "$END" or len(left) == 1)
    words = sorted(f"`{kind.lower()}`" for kind in left - _SYMBOLS.keys() - _LABELS.keys())
    phrases = [*labels, *phrases, *symbols, *words]
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"


def describe_character(text: str, span: Span) -> Problem:
    """The problem of a character that begins no token; `text` starts with it."""
    character = text[0]
    code = f"U+{ord(character):04X} ({unicodedata.name(character, 'a character without a name').lower()})"
    if character == '"':
        end = len(text.split("\n", 1)[0])
        whole = Span(span.file, span.line, span.column, span.line, span.column + end)
        return Problem(whole, "the text is not closed", 'add a `"` before the end of the line')
    if character == "'":
        return Problem(span, "unexpected `'`", 'texts stand in `"`')
    if character in "\u201c\u201d\u201e\u201f\u2018\u2019\u00ab\u00bb":
        return Problem(span, f"typographic quote {code}", 'write `"`')
    if character.isspace() or unicodedata.category(character) in ("Zs", "Cf"):
        return Problem(span, f"invisible character {code}", "write a plain space")
    if unicodedata.category(character) == "Pd" or character == "\u2212":
        return Problem(span, f"typographic dash {code}", "write `-`")
    if character in _FOREIGN:
        shown = f"`{character}`" if ord(character) < 127 else f"character {code}"
        return Problem(span, f"unexpected {shown}", f"write `{_FOREIGN[character]}`")
    if character == "$":
        return Problem(span, "unexpected `$`", "a capture is a plain name, such as `x`")
    if ord(character) > 126 or ord(character) < 32:
        return Problem(span, f"unexpected character {code}", "names and symbols are plain ASCII")
    return Problem(span, f"unexpected `{character}`")
