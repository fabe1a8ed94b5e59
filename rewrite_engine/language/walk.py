"""Walks over syntax trees without recursion: every node of patterns and expressions, and the names that they read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from rewrite_engine.language import syntax

_PLAIN = re.compile(r"(str|bool|int|float|Fraction|None|tuple|\W|\.\.\.)*")


@cache
def _inner(kind: Any) -> tuple[str, ...]:
    """The fields of a class of nodes that may hold nodes, the last one first."""
    return tuple(
        field.name for field in reversed(fields(kind)) if not _PLAIN.fullmatch(field.type) and field.type != "Span"
    )


def _fields(node: object) -> tuple[str, ...]:
    kind: Any = type(node)
    return _parts(kind)


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "span")


_NODES = frozenset(
    kind
    for kind in vars(syntax).values()
    if isinstance(kind, type) and (issubclass(kind, syntax.Node) or kind is syntax.Tail)
)


def walk(roots: Iterable[object]) -> Iterator[Any]:
    """Every node (and tail) in `roots`, parents before children, in the order of the text."""
    pending: list[Any] = list(reversed(list(roots)))
    while pending:
        node = pending.pop()
        kind: Any = type(node)
        if kind is tuple:
            pending += node[::-1]
        elif kind in _NODES:
            yield node
            for name in _inner(kind):
                value = getattr(node, name)
                if value:  # not None, not ()
                    pending.append(value)


def parts_of(node: syntax.Node | syntax.Tail) -> tuple[object, ...]:
    """The fields of a node, nodes and others alike."""
    return tuple(getattr(node, name) for name in _fields(node))


def unplaced(part: object) -> object:
    """A tree without its positions: equal for trees that say the same.

    >>> from rewrite_engine.diagnostics import Span
    >>> here, there = (syntax.Name(Span("", 1, column, 1, column + 1), "x") for column in (1, 9))
    >>> here == there, unplaced(here) == unplaced(there)
    (False, True)
    """
    if isinstance(part, tuple):
        return tuple(map(unplaced, part))
    if isinstance(part, syntax.Node | syntax.Tail):
        return (type(part).__name__, *map(unplaced, parts_of(part)))
    return repr(part)


def names_read(*roots: object) -> frozenset[str]:
    """Every name that stands in the expressions and patterns of `roots`, local ones included."""
    found: set[str] = set()
    for node in walk(roots):
        match node:
            case syntax.Name() | syntax.ValuePattern() | syntax.Rest() | syntax.Like():
                found.add(node.name)
            case syntax.CallPattern():
                found.update(node.names)
            case syntax.TypePattern():
                found.update(part for part in (node.dtype, *node.dims) if isinstance(part, str))
    return frozenset(found)


def names_bound(*roots: object) -> frozenset[str]:
    """Every name that the patterns of `roots` bind."""
    found: set[str] = set()
    for node in walk(roots):
        match node:
            case syntax.ValuePattern() | syntax.Rest() | syntax.CapturePattern() | syntax.Give():
                found.add(node.name)
            case syntax.KeywordPattern(value=syntax.Name(name=name)):
                found.add(name)
            case syntax.Binding():
                found.update(node.names)
    return frozenset(found)
