"""Forks of the walk over a pattern, and the draft that a walk leaves: slots, nodes and clauses, not yet numbered."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.core import Way
from rewrite_engine.language.names import Cell, Frame

MOST_DRAFTS = 4096


class Choices:
    """A path through the forks of a walk: replayed as recorded, the first way at every new fork."""

    def __init__(self) -> None:
        self.taken: list[Way] = []  # on this path, where a file leaves the choice
        self._path: list[list[int]] = []
        self._position = 0

    def choose(self, count: int) -> int:
        """The way to take at the next fork of `count` ways."""
        if self._position == len(self._path):
            self._path.append([0, count])
        self._position += 1
        return self._path[self._position - 1][0]

    def choose_at(self, span: Span, kind: str, count: int) -> int:
        """The way to take at a fork that stands in a file; see `core.Way` for the kinds."""
        index = self.choose(count)
        self.taken.append(Way(span, kind, index))
        return index

    def omit(self, span: Span, kind: str = "value") -> bool:
        """Whether this path leaves out what is optional there."""
        return bool(self.choose_at(span, kind, 2))

    def advance(self) -> bool:
        """Move to the next path; False when all have been taken."""
        self._position = 0
        self.taken = []
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        if not self._path:
            return False
        self._path[-1][0] += 1
        return True


@dataclass(slots=True, eq=False)
class DraftSlot:
    name: str
    user: bool = False  # named by the user in the declaration itself
    constant: bool = False
    literal: tuple[syntax.Expr, Frame] | None = None


@dataclass(slots=True, eq=False)
class DraftNode:
    op: str
    span: Span
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    rest: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LiteralClause:
    """The constant at an input of a node equals a literal."""

    span: Span
    node: int
    position: int
    slot: int
    value: syntax.Expr
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class TypeClause:
    span: Span
    cell: Cell
    type: syntax.TypePattern
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class AttributeClause:
    """Attribute `name` of a node is there (`value` None) or absent, or equals a value; `absent` allows absence, too."""

    span: Span
    node: int
    name: str
    value: syntax.Expr | None
    frame: Frame
    absent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GuardClause:
    span: Span
    guard: syntax.Expr
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class EqualClause:
    """A `with` value equals what the name stands for already."""

    span: Span
    name: str
    cell: Cell
    value: syntax.Expr
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class DraftGiven:
    name: str
    span: Span
    value: syntax.Expr
    frame: Frame


Clause = LiteralClause | TypeClause | AttributeClause | GuardClause | EqualClause
