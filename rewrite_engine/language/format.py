"""The one format of rule files: spaces, indentation and blank lines. Where lines break is the author's choice.

In: the text of a file. Out: the text as it should stand, which says the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.language.layout_lines import CLOSE, OPEN, TAILS, Line, Piece, lines_of
from rewrite_engine.language.parsing import parse
from rewrite_engine.language.walk import unplaced

INDENT = 2
WIDTH = 120


def formatted(text: str, path: str) -> str:
    """The text in the one format. Raises PatError with every syntax error of it.

    >>> formatted("rule  r :Relu( Relu(x))\\n=>Relu( x )", "t.pat")
    'rule r: Relu(Relu(x))\\n  => Relu(x)\\n'
    """
    file, problems = parse(text, path)
    if problems:
        raise PatError(problems, {path: file.source})
    printer = _Printer()
    for line in lines_of(file):
        printer.add(line)
    result = printer.finish()
    again, problems = parse(result, path)
    if problems or unplaced(again.items) != unplaced(file.items):
        raise RewriteError(f"{path}: left as it is, since its format would change what it says")
    return result


@dataclass(slots=True, eq=False)
class _Open:
    """An open bracket: its column and its line's indentation, whether it is a call's, and whether it ended its line."""

    piece: Piece
    column: int
    indent: int
    call: bool
    last: bool = False


@dataclass(slots=True, eq=False)
class _Printer:
    """The lines so far, and what the next one's indentation rests on."""

    lines: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)  # on lines of their own: they stand as what follows stands
    stack: list[_Open] = field(default_factory=list)
    item: list[Piece] = field(default_factory=list)  # the tokens of the item so far
    base: int = 0  # the item's indentation
    start: int = 0  # the column of the pattern or value that a `|` goes on with
    words: dict[str, int] = field(default_factory=dict)  # the columns of `where`, `if`, … of the item

    def add(self, line: Line) -> None:
        """Prints a line."""
        if line.blank:
            self.comments.append("")
        first = line.pieces[0]
        if first.comment:
            self.comments.append(first.text)
            return
        indent = self._indent(first)
        self._comments(INDENT if first.block and first.text in CLOSE else indent)
        state = (self.stack[:], self.item[:], self.start, dict(self.words))
        text = self._line(line, indent)
        short = state[0][-1].indent + INDENT if first.depth < 0 and state[0] else indent
        if len(text) > WIDTH and short < indent:  # too far to the right to stand below its bracket
            self.stack, self.item, self.start, self.words = state
            text = self._line(line, short)
        comment = line.pieces[-1]
        if comment.comment:
            text = text.ljust(max(len(text) + 2, comment.column - 1)) + comment.text
        if self.stack and self.stack[-1].piece in line.pieces[-2:]:
            self.stack[-1].last = next(p for p in reversed(line.pieces) if not p.comment) is self.stack[-1].piece
        self.lines.append(text)

    def _line(self, line: Line, indent: int) -> str:
        """The tokens of a line."""
        text = " " * indent
        for number, piece in enumerate(line.pieces):
            if not piece.comment:
                text += " " * self._gap(piece) if number else ""
                self._note(piece, len(text), indent)
                text += piece.text
        return text

    def finish(self) -> str:
        """The whole text."""
        self._comments(0)
        return "\n".join(self.lines) + "\n" if self.lines else ""

    def _comments(self, indent: int) -> None:
        self.lines += [" " * indent + text if text else "" for text in self.comments]
        self.comments = []

    # ---- indentation

    def _indent(self, first: Piece) -> int:
        if first.depth >= 0:
            return INDENT * first.depth
        if first.block:
            return 0
        inner = self.stack[-1] if self.stack and not self.stack[-1].piece.block else None
        if inner is not None:
            if first.text in CLOSE:
                return inner.indent
            return inner.indent + INDENT if inner.last else inner.column + 1
        return self._outside(first.text, self.item[-1].text if self.item else "")

    def _outside(self, text: str, before: str) -> int:
        """The indentation of a further line of an item, outside of brackets."""
        if text == "|":
            return max(self.start - INDENT, self.base + INDENT)
        if before == ";":
            return self._after("where")
        if text in ("and", "or"):
            return self._after("if")
        short = before == ":" or (bool(self.item) and self.item[0].text in ("test", "operator"))
        if text in TAILS or text == "in" or before in ("{", "runs", "rejects", "place", "is") or short:
            return self.base + INDENT
        if before == ",":
            return self._after("with", "supports")
        return self.base + 2 * INDENT

    def _after(self, *words: str) -> int:
        """The column after the last of some words."""
        found = [self.words[word] + len(word) + 1 for word in words if word in self.words]
        return max(found, default=self.base + 2 * INDENT)

    def _note(self, piece: Piece, column: int, indent: int) -> None:
        """Takes note of a token that is printed at a column."""
        if piece.depth >= 0:
            self.base, self.start, self.words, self.item = INDENT * piece.depth, column, {}, []
        inside = bool(self.stack) and not self.stack[-1].piece.block
        before = self.item[-1] if self.item else None
        if not inside and before is not None and before.text in (":", "=", "=>", "<=>"):
            self.start = column
        if not inside and not piece.call:
            self.words[piece.text] = column
        if piece.text in OPEN:
            call = before is not None and (_named(before) or (piece.text == "[" and before.text in (")", "]")))
            self.stack.append(_Open(piece, column, indent, call))
        elif piece.text in CLOSE:
            self.stack.pop()
        elif piece.text in ("-", "*"):
            piece.tight = before is None or not (_named(before) or before.text in CLOSE or _ends(before))
        elif piece.text == "=":
            piece.tight = self._keyword()
        self.item.append(piece)

    # ---- spaces

    def _keyword(self) -> bool:
        """Whether a `=` gives an attribute: after the first word of an argument of a call."""
        if len(self.item) < 2 or not self.stack:
            return False
        return self.stack[-1].call and self.stack[-1].piece.text == "(" and self.item[-2].text in ("(", ",")

    def _gap(self, piece: Piece) -> int:
        """The number of spaces before a token."""
        before, text = self.item[-1], piece.text
        if piece.depth >= 0:
            return 1 if before.block else 2 + self.stack[-1].last
        if text in (",", ";", ".", "?", ":") or before.text == "." or before.tight:
            return 0
        if before.text in OPEN or text in CLOSE:
            return int(before.block or piece.block)
        if before.text == ":":
            index = self.stack and self.stack[-1].piece.text == "[" and self.stack[-1].call
            return 0 if index else 1
        if text == "=":
            return 0 if self._keyword() else 1
        if text == "(":
            return 0 if _named(before) else 1
        if text == "[":
            return 0 if _named(before) or before.text in (")", "]") else 1
        return 1


def _named(piece: Piece) -> bool:
    """Whether a bracket after it belongs to it: a name, a set of operators, `Op?`."""
    return piece.name or (piece.text == "}" and not piece.block) or piece.text == "?"


def _ends(piece: Piece) -> bool:
    """Whether an operand ends there, so that a minus after it takes something away from it."""
    return piece.text[:1].isdigit() or piece.text[:1] == '"' or (piece.text[:1].isalpha() and piece.name)


__all__ = ["formatted"]
