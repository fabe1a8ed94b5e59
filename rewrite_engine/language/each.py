"""`for OP in {A, B}`: declarations written once for several operators, as one declaration per operator.

In: parsed files. Out: the same files with every such rule and composite in its place as `name[A]`, `name[B]`; several
variables give every combination, `name[A, B]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, did_you_mean
from rewrite_engine.language import syntax
from rewrite_engine.language.syntax import Composite, RuleDecl, RuleFile, TargetDecl
from rewrite_engine.language.walk import walk

Repeated = TypeVar("Repeated", RuleDecl, Composite)
MOST = 512
"""Into how many declarations one may expand."""


def expand(files: Sequence[RuleFile], declared: frozenset[str], problems: list[Problem]) -> list[RuleFile]:
    """The files without `for … in`; `declared` are the operators that the files declare."""
    return [replace(file, items=tuple(_items(file, declared, problems))) for file in files]


def _items(file: RuleFile, declared: frozenset[str], problems: list[Problem]) -> Iterator[syntax.Declaration]:
    for item in file.items:
        if isinstance(item, RuleDecl) and item.each:
            yield from _copies(item, declared, problems)
        elif isinstance(item, TargetDecl) and any(isinstance(part, Composite) and part.each for part in item.items):
            inner: list[Any] = []
            for part in item.items:
                inner += _copies(part, declared, problems) if isinstance(part, Composite) and part.each else [part]
            yield replace(item, items=tuple(inner))
        else:
            yield item


def _copies(item: Repeated, declared: frozenset[str], problems: list[Problem]) -> list[Repeated]:
    """One declaration per combination of operators; none where a clause is wrong."""
    before = len(problems)
    names = [each.name for each in item.each]
    choices = [_operators(each, declared, problems) for each in item.each]
    for number, each in enumerate(item.each):
        if each.name in names[:number]:
            problems.append(Problem(each.span, f"`{each.name}` is declared twice"))
        elif each.name not in _used(item):
            problems.append(Problem(each.span, f"`{each.name}` is not used", "write it where the operator stands"))
    count = 1
    for operators_ in choices:
        count *= max(len(operators_), 1)
    if count > MOST:
        problems.append(Problem(item.each[0].span, f"`{item.name}` would be {count} declarations, at most {MOST}"))
    if len(problems) > before:
        return []
    found = []
    for chosen in itertools.product(*choices):
        copy = replace(item, name=f"{item.name}[{', '.join(chosen)}]", each=())
        found.append(_substitute(copy, dict(zip(names, chosen, strict=True))))
    return found


def _operators(each: syntax.Each, declared: frozenset[str], problems: list[Problem]) -> list[str]:
    found: list[str] = []
    for item in each.operators.items:
        if not isinstance(item, syntax.Name) or not (item.name[:1].isupper() or "::" in item.name):
            problems.append(Problem(item.span, "expected the name of an operator in the set"))
        elif operators.find(item.name) is None and item.name not in declared:
            hint = did_you_mean(item.name, [*operators.names(), *declared])
            problems.append(Problem(item.span, f"unknown operator `{item.name}`", hint))
        elif item.name in found:
            problems.append(Problem(item.span, f"`{item.name}` stands twice in the set"))
        else:
            found.append(item.name)
    return found


def _used(item: RuleDecl | Composite) -> frozenset[str]:
    """The names of operators and values in a declaration."""
    found: set[str] = set()
    for node in walk((replace(item, each=()),)):
        if isinstance(node, syntax.CallPattern):
            found.update(node.names)
        elif isinstance(node, syntax.Name):
            found.add(node.name)
    return frozenset(found)


def _substitute(item: Repeated, chosen: Mapping[str, str]) -> Repeated:
    """The declaration with each variable replaced by its operator. The parser bounds the nesting."""

    def part(node: Any) -> Any:
        if isinstance(node, tuple):
            return tuple(map(part, node))
        if isinstance(node, syntax.Name):
            return replace(node, name=chosen.get(node.name, node.name))
        if not isinstance(node, syntax.Node | syntax.Tail):
            return node
        changed = {}
        for field in fields(node):
            old = getattr(node, field.name)
            new = part(old) if isinstance(old, tuple | syntax.Node | syntax.Tail) else old
            if new is not old:
                changed[field.name] = new
        if isinstance(node, syntax.CallPattern):
            changed["names"] = tuple(chosen.get(name, name) for name in node.names)
        return replace(node, **changed) if changed else node

    result: Repeated = part(item)
    return result
