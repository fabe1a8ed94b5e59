"""The names of one declaration: which it captures, which bind dimensions or dtypes, and what each means in one variant.

A `Frame` is one instance of a declaration or of a named pattern; its `Cell`s are shared with the caller where a name is
passed along, so that a named pattern's parameter *is* the caller's capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.operators.types import ITEM_BITS

OPEN, SLOT, ABSENT, ATTRIBUTE, GIVEN, LIST, DIMENSION, CONSTANT = range(8)


@dataclass(slots=True, eq=False)
class Cell:
    """What a name stands for in one variant. `state` says which of the other fields holds."""

    name: str
    number: int
    user: bool = False  # of the declaration itself, not of a named pattern inside
    state: int = OPEN
    slot: int = -1  # SLOT
    node: int = -1  # ATTRIBUTE: of this pattern node
    attribute: str = ""
    given: int = -1  # GIVEN: number of the `with` value
    lists: tuple[str, ...] = ()  # LIST: keys of `Variant.lists`; the operands of a chain come from several
    value: syntax.Expr | None = None  # CONSTANT: a literal argument of a named pattern
    constant: bool = False
    anything: bool = False  # `_`: absent where the position allows it
    thunk: tuple[Any, Frame] | None = None  # the pattern to build when the name is first used as an input
    building: bool = False
    members: tuple[tuple[syntax.Pattern, Frame], ...] | None = None  # a list capture given as patterns


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a declaration, found once: `captured` in patterns, `dimensions` and dtype variables in types."""

    captured: frozenset[str]
    dimensions: frozenset[str]
    optional: frozenset[str]
    given: frozenset[str]
    referenced: frozenset[str]  # captures that patterns mention, not counting the left of a `where`
    where: tuple[syntax.Binding, ...]


@dataclass(slots=True, eq=False)
class Frame:
    """One instance of a declaration: its cells by name, and what its expressions see beyond them."""

    file: str
    names: Names
    target: TargetScope | None
    depth: int = 0
    cells: dict[str, Cell] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)


def children(pattern: object) -> Iterator[Any]:
    """The patterns directly inside a pattern."""
    match pattern:
        case syntax.CallPattern():
            yield from pattern.args
            yield from (keyword.value for keyword in pattern.keywords)
        case syntax.CapturePattern() | syntax.OutputPattern():
            yield pattern.pattern
        case syntax.Alternatives() | syntax.TuplePattern():
            yield from pattern.items
        case syntax.GuardedPattern():
            yield pattern.pattern
            yield from (binding.pattern for binding in pattern.tail.where)


def walk(pattern: object) -> Iterator[Any]:
    """Every pattern in a pattern, parents first."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(children(node))))


def mentioned(pattern: object) -> frozenset[str]:
    """The values that a pattern mentions, not counting the left of a `where`."""
    return frozenset(node.name for node in walk(pattern) if isinstance(node, syntax.ValuePattern))


def names_of(
    parameters: Sequence[syntax.Parameter],
    patterns: Sequence[syntax.Pattern],
    tail: syntax.Tail,
    lets: Mapping[str, syntax.Let],
    options: Mapping[str, syntax.Expr],
) -> Names:
    """The names that a declaration binds. `lets` and `options` are what an attribute's value may name instead."""
    types = [parameter.type for parameter in parameters]
    captured = {parameter.name for parameter in parameters}
    optional = {parameter.name for parameter in parameters if parameter.optional}
    referenced: set[str] = set()
    given = {give.name for give in tail.give}
    where = list(tail.where)
    attributes: set[str] = set()
    for root in (*patterns, *(binding.pattern for binding in tail.where)):
        for node in walk(root):
            match node:
                case syntax.ValuePattern():
                    captured.add(node.name)
                    referenced.add(node.name)
                    types.append(node.type)
                case syntax.CapturePattern():
                    captured.add(node.name)
                    types.append(node.type)
                case syntax.Rest():
                    captured.add(node.name)
                case syntax.GuardedPattern():
                    where += node.tail.where
                    given |= {give.name for give in node.tail.give}
                case syntax.CallPattern():
                    attributes |= {k.value.name for k in node.keywords if isinstance(k.value, syntax.Name)}
    captured |= {name for binding in where for name in binding.names if name != "_"}
    captured |= {a for a in attributes if a not in lets and a not in options and a not in ITEM_BITS}
    dimensions: set[str] = set()
    for kind in types:
        if kind is not None:
            dimensions |= {dim for dim in kind.dims if isinstance(dim, str) and dim != "..."}
            if kind.dtype is not None and kind.dtype not in ITEM_BITS and kind.dtype not in lets:
                dimensions.add(kind.dtype)
    return Names(
        frozenset(captured | dimensions | given), frozenset(dimensions), frozenset(optional), frozenset(given),
        frozenset(referenced), tuple(tail.where),
    )  # fmt: skip


class NamesCache:
    """`names_of` per named pattern, worked out once for a scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._found: dict[int, Names] = {}

    def of(self, decl: syntax.PatternDecl) -> Names:
        """The names of a named pattern."""
        found = self._found.get(id(decl))
        if found is None:
            lets = self._scope.lets_in(decl.span.file)
            found = names_of(decl.parameters, (decl.pattern,), decl.tail, lets, {})
            self._found[id(decl)] = found
        return found


class LoweringError(Exception):
    """A declaration that cannot be lowered: where, what was expected, what was found."""

    def __init__(self, span: Span, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.span, self.hint = span, hint


class Pruned(Exception):
    """This combination of alternatives and optional parts can never match."""
