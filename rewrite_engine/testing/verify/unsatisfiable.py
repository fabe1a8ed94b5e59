"""Guards that nothing can satisfy, by their text: bounds of one thing that leave nothing between them, or `false`.

In: a rule. Out: whether that is proven for every variant. What is not proven may hold or not: a search says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rewrite_engine.language import syntax
from rewrite_engine.language.code import conjuncts
from rewrite_engine.language.core import CoreRule, RuleSet
from rewrite_engine.language.program import Program
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.walk import walk

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}
Bound = tuple[str, str, Fraction]
"""What is bounded (as it is written), how, and by what."""


def unsatisfiable(rules: RuleSet, rule: CoreRule) -> bool:
    """Whether every variant asks clauses of one guard that contradict each other."""
    asked = [
        {check.span for check in variant.program.checks}
        for variant in rule.variants
        if isinstance(variant.program, Program)
    ]
    if not asked or not any(asked):
        return False
    assert isinstance(rules.scope, Scope)
    guards = [
        list(conjuncts(node.guard))
        for file in rules.scope.files
        for node in walk(file.items)
        if isinstance(node, syntax.Tail) and node.guard is not None
    ]
    return all(
        any(_contradict(rules, [clause for clause in guard if clause.span in spans]) for guard in guards)
        for spans in asked
    )


def _contradict(rules: RuleSet, clauses: list[syntax.Expr]) -> bool:
    low: dict[str, tuple[Fraction, bool]] = {}  # the largest lower bound, and whether it is itself excluded
    high: dict[str, tuple[Fraction, bool]] = {}
    for text, symbol, number in (bound for clause in clauses for bound in _bounds(rules, clause)):
        if symbol in (">", ">=", "=="):
            low[text] = max(low.get(text, (number, False)), (number, symbol == ">"))
        if symbol in ("<", "<=", "=="):
            bound = (-number, symbol == "<")
            high[text] = max(high.get(text, bound), bound)
    for text in low.keys() & high.keys():
        (least, above), (negated, below) = low[text], high[text]
        if least > -negated or (least == -negated and (above or below)):
            return True
    return False


def _bounds(rules: RuleSet, clause: syntax.Expr) -> Iterator[Bound]:
    """The comparisons of a clause with a number."""
    if not isinstance(clause, syntax.Compare):
        return
    left = clause.first
    for symbol, right in clause.rest:
        if symbol in _MIRRORED:
            for one, other, way in ((left, right, symbol), (right, left, _MIRRORED[symbol])):
                number = _number(other)
                if number is not None:
                    yield _written(rules, one), way, number
        left = right


def _number(expr: syntax.Expr) -> Fraction | None:
    if isinstance(expr, syntax.Unary) and expr.op == "-" and isinstance(expr.operand, syntax.Number):
        return -Fraction(expr.operand.value)
    return Fraction(expr.value) if isinstance(expr, syntax.Number) else None


def _written(rules: RuleSet, expr: syntax.Expr) -> str:
    """An operand as it is written; numbers compare as numbers."""
    number = _number(expr)
    if number is not None:
        return f"number {number}"
    span = expr.span
    lines = rules.sources[span.file][0].splitlines()[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(" ".join(lines).split())
