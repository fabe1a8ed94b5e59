"""How many results a pattern has: one, or as many as the tuple that it comes down to."""

from __future__ import annotations

from rewrite_engine.language import syntax
from rewrite_engine.language.scope import Scope

DEEPEST = 100  # named patterns within each other; one that is built from itself ends there too


def result_count(scope: Scope, pattern: object) -> int:
    """The number of results, by the first of several alternatives."""
    for _ in range(DEEPEST):
        match pattern:
            case syntax.TuplePattern():
                return len(pattern.items)
            case syntax.Alternatives():
                pattern = pattern.items[0]
            case syntax.GuardedPattern() | syntax.CapturePattern():
                pattern = pattern.pattern
            case syntax.CallPattern() if (
                decl := scope.patterns_in(pattern.span.file).get(pattern.names[0])
            ) is not None:
                pattern = decl.pattern
            case _:
                return 1
    return 1


def template_count(scope: Scope, left: int, right: syntax.Expr) -> int:
    """The number of results that a right side gives, where the left side has `left` of them."""
    if isinstance(right, syntax.TupleExpr):
        return len(right.items)
    if isinstance(right, syntax.Call) and isinstance(right.function, syntax.Name):
        operator = scope.operator(right.function.name)
        if operator is not None:  # all of its outputs, as many as are asked for
            return left if operator.max_outputs is None else min(left, operator.max_outputs)
    return 1


def counts_differ(left: int, right: int) -> str:
    """What is wrong where the sides of a rule do not have as many results."""
    return f"the left side has {left} result{'s' * (left != 1)}, the right side {right}"
