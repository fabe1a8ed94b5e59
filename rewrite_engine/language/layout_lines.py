"""Tokens and comments of a rule file in lines: where each item begins, which line breaks stay.

In: the text of a file without syntax errors. Out: lines, as `format` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rewrite_engine.language import syntax
from rewrite_engine.language.reader import RESERVED, TOKEN
from rewrite_engine.language.walk import walk

OPEN, CLOSE = "([{", ")]}"
SIGNS = frozenset({"=>", "<=>", "->", "<->", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "//", "%", "|", "="})
TAILS = frozenset({"where", "if", "with", "cost", "energy", "is", "=>", "<=>"})
"""What may begin a further line of an item, two columns in."""
_AFTER = SIGNS | {",", ";", "(", "[", "{", "and", "or", "runs", "rejects", "place", "is"}
_BEFORE = SIGNS | TAILS | {"then", "else", "and", "or", "in", "as", "for", *CLOSE}
SOFT = frozenset({"cost", "energy", "memory", "launch", "flops", "bandwidth", "requires", "supports", "runs", "rejects",
                  "place", "is", "on", "include"})  # fmt: skip
"""Words of declarations that are names elsewhere: only a call's name has its bracket close to it."""


@dataclass(slots=True, eq=False)
class Piece:
    """A token or a comment. `breaks` counts the line ends before it; `column` is where it stood."""

    text: str
    line: int
    column: int
    breaks: int = 0
    depth: int = -1  # of the item that it begins: 0 for a declaration, 1 in a target; -1 inside an item
    block: bool = False  # a brace around items or fields
    call: bool = False  # the name of a call or of a list of parameters
    tight: bool = False  # no space follows: `-1`, `*xs`, `axis=1`

    @property
    def comment(self) -> bool:
        return self.text.startswith("#")

    @property
    def name(self) -> bool:
        """Whether it names something, rather than being a sign or a word of the language."""
        word = self.text[:1].isalnum() or self.text[:1] == "_"
        return word and self.text not in RESERVED and (self.call or self.text not in SOFT)


@dataclass(slots=True, eq=False)
class Line:
    """One line to print. `blank` asks for an empty line before it."""

    pieces: list[Piece] = field(default_factory=list)
    blank: bool = False


def lines_of(file: syntax.RuleFile) -> list[Line]:
    """The lines of a file; a break stays where one may stand, and blank lines only between items."""
    pieces = _marked(file)
    found: list[Line] = []
    before: Piece | None = None
    for number, piece in enumerate(pieces):
        if before is None or _breaks(before, piece):
            found.append(Line(blank=before is not None and piece.breaks > 1 and _between(before, pieces, number)))
        found[-1].pieces.append(piece)
        before = piece
    return found


def _breaks(before: Piece, piece: Piece) -> bool:
    """Whether a new line begins between two pieces."""
    if before.comment or piece.depth == 0:
        return True
    if not piece.breaks:
        return False
    if piece.comment or before.block or piece.block or piece.depth > 0:
        return True
    return before.text in _AFTER or piece.text in _BEFORE or (before.text == ":" and piece.depth < 0)


def _between(before: Piece, pieces: Sequence[Piece], number: int) -> bool:
    """Whether an item, or a comment that belongs to none, may be set off there."""
    if before.block and before.text == "{":
        return False
    while number < len(pieces) and pieces[number].comment:
        number += 1
    return number == len(pieces) or pieces[number].depth >= 0 or (number > 0 and pieces[number].block)


def _marked(file: syntax.RuleFile) -> list[Piece]:
    """The pieces, with what the tree says of them."""
    depths: dict[tuple[int, int], int] = {}
    calls: set[tuple[int, int]] = set()
    blocks: set[tuple[int, int]] = set()
    for item in file.items:
        depths[item.span.line, item.span.column] = 0
        if isinstance(item, syntax.TargetDecl | syntax.DeviceDecl):
            blocks.add((item.span.line, item.span.column))
        for part in item.items if isinstance(item, syntax.TargetDecl) else ():
            depths.setdefault((part.span.line, part.span.column), 1)
    for node in walk(file.items):
        if isinstance(node, syntax.CallPattern) or (
            isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name)
        ):
            calls.add((node.span.line, node.span.column))
    pieces = list(_pieces(file.source))
    stack: list[int] = []
    waiting = False  # for the brace that opens a block
    first = next((n for n, piece in enumerate(pieces) if not piece.comment), 0)  # `language 1` is no item
    for number, piece in enumerate(pieces):
        place = (piece.line, piece.column)
        piece.depth = depths.get(place, 0 if number == first else -1)
        piece.call = place in calls
        waiting = waiting or place in blocks
        if piece.text in OPEN:
            piece.block, waiting = waiting and piece.text == "{", waiting and piece.text != "{"
            stack.append(number)
        elif piece.text in CLOSE:
            opened = stack.pop()
            piece.block = pieces[opened].block
            inside = pieces[opened + 1 : number + 1]
            if piece.block and (inside[0].breaks or piece.breaks or any(p.comment for p in inside)):
                for end in (inside[0], piece):  # a block stands on one line, or its braces end lines
                    end.breaks = max(end.breaks, not (end is inside[0] and end.comment))
        elif number and pieces[number - 1].text in ("pattern", "composite", "operator", "let"):
            piece.call = piece.call or piece.text in SOFT
    return pieces


def _pieces(source: str) -> Iterator[Piece]:
    line, start, breaks = 1, 0, 0
    for match in TOKEN.finditer(source):
        text = match[0]
        if text == "\n":
            line, start, breaks = line + 1, match.end(), breaks + 1
        elif text.strip():
            yield Piece(text.rstrip(), line, match.start() - start + 1, breaks)
            breaks = 0
