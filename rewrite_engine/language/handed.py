"""Parameters that named patterns hand out, which calls in test graphs leave out.

In: the patterns of a test. Out: the same, with `_` where a call leaves out what the pattern computes by `with`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rewrite_engine.language import syntax
from rewrite_engine.language.bindings import GIVEN, facts_of
from rewrite_engine.language.scope import Scope

Pattern = TypeVar("Pattern", bound=syntax.Node)


def handed_out(scope: Scope, decl: syntax.PatternDecl) -> frozenset[str]:
    """The parameters that a pattern binds by `with`: its callers read them and give nothing."""
    return frozenset(p.name for p in decl.parameters if GIVEN in facts_of(scope, decl, p.name, frozenset()))


def filled(scope: Scope, pattern: Pattern) -> Pattern:
    """The pattern with a `_` for each handed-out parameter, where a call has no more arguments than are handed in."""
    match pattern:
        case syntax.CallPattern():
            arguments = tuple(filled(scope, argument) for argument in pattern.args)
            decl = scope.patterns_in(pattern.span.file).get(pattern.names[0])
            done: Any = replace(pattern, args=arguments if decl is None else _filled(scope, decl, arguments, pattern))
        case syntax.CapturePattern() | syntax.OutputPattern() | syntax.Binding():
            done = replace(pattern, pattern=filled(scope, pattern.pattern))
        case syntax.GuardedPattern():
            where = tuple(filled(scope, binding) for binding in pattern.tail.where)
            done = replace(pattern, pattern=filled(scope, pattern.pattern), tail=replace(pattern.tail, where=where))
        case syntax.TuplePattern() | syntax.Alternatives():
            done = replace(pattern, items=tuple(filled(scope, item) for item in pattern.items))
        case _:
            done = pattern
    found: Pattern = done
    return found


def _filled(
    scope: Scope, decl: syntax.PatternDecl, arguments: Sequence[Any], call: syntax.CallPattern
) -> tuple[Any, ...]:
    out = handed_out(scope, decl)
    if not out or len(arguments) > len(decl.parameters) - len(out):
        return tuple(arguments)
    given, found = list(arguments), list[Any]()
    for parameter in decl.parameters:
        if parameter.name in out:
            found.append(syntax.AnyPattern(call.span))
        elif given:
            found.append(given.pop(0))
        else:
            break
    return tuple(found)
